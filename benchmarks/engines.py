"""Releases from PostgreSQL, Spark and DuckDB beside the engine's own queries for the same counts.

    python benchmarks/engines.py --rows 10e6 --folder /tmp/scale

Takes the table of benchmarks/scale.py. Printed are CPU seconds of all processes: the engine's, its
workers' and this one's. By hand the engine is asked once with GROUPING SETS, and once with a GROUP
BY for each table; the quicker of the two counts. Moments by hand are sums in the engine, while the
wall pulls the numbers, bounds and rounds them. Each figure is the median of three turns.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow.parquet as pq
from rich.console import Console
from scale import FEATURES, SUMS, asked, schema, write

import tacit

sys.path.insert(0, str(Path(__file__).parent.parent))  # the servers are those of the tests

from tests import postgres, spark

say = Console(width=200, markup=False, highlight=False, soft_wrap=True).out
TABLES = {
    "hidden states": [("region", "month", name) for name in ("kind", "weapon", "harm")],
    "naive Bayes": [("harm",), *(("harm", name) for name in FEATURES)],
}
TURNS = 3
_TICK = os.sysconf("SC_CLK_TCK")


def cpu(*roots: int) -> float:
    """Seconds of these processes, of all below them, and of those that have ended."""
    parents, spent = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(facts[1])
            spent[int(entry.name)] = sum(map(int, facts[11:15])) / _TICK
    below = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(spent.get(pid, 0.0) for pid in below)


def measured(root: int, run: Callable[[str], object], what: str) -> float:
    before = cpu(os.getpid(), root)
    run(what)
    time.sleep(0.5)  # until processes that end have been counted by those that began them
    return cpu(os.getpid(), root) - before


def sets(table: str, tables: Iterable[tuple[str, ...]]) -> str:
    names = ", ".join(dict.fromkeys(name for names in tables for name in names))
    each = ", ".join(f"({', '.join(names)})" for names in tables)
    return f"SELECT {names}, count(*) FROM {table} GROUP BY GROUPING SETS ({each})"


def each(table: str, tables: Iterable[tuple[str, ...]]) -> list[str]:
    return [
        f"SELECT {', '.join(names)}, count(*) FROM {table} GROUP BY {', '.join(names)}"
        for names in tables
    ]


def compare(
    engine: str, data: tacit.Table, run: Callable[[str], Any], name: str, root: int
) -> None:
    def release(query: str) -> object:
        wall = tacit.Wall(data, schema(unit=False), budget=tacit.Budget(1), ledger=":memory:")
        return wall.release(asked(query), tacit.Laplace(0.5))

    for query in (*TABLES, "moments"):
        if query == "moments":
            by_hand = {"sums": [SUMS.replace("{t}", f"{name} WHERE true")]}
        else:
            tables = TABLES[query]
            by_hand = {"GROUPING SETS": [sets(name, tables)], "a GROUP BY each": each(name, tables)}
        release(query)  # compiles and imports what is needed, and warms the engine
        turns: dict[str, list[float]] = {"ours": [], **{how: [] for how in by_hand}}
        for _ in range(TURNS):
            turns["ours"].append(measured(root, release, query))
            for how, asked_for in by_hand.items():
                turns[how].append(sum(measured(root, run, sql) for sql in asked_for))
        hand = {how: median(found) for how, found in turns.items()}
        ours = hand.pop("ours")
        best = min(hand.values())
        listed = ", ".join(f"{how} {seconds:.1f}" for how, seconds in hand.items())
        say(f"| {engine} | {query} | {listed} | {ours:.1f} | {ours / best:.2f} |")


def filled(server: postgres.Server, path: Path) -> None:
    for batch in pq.ParquetFile(path).iter_batches(10**6):
        server.fill("visits", batch, mode="create_append")
    server.run("VACUUM ANALYZE visits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=10e6)
    parser.add_argument("--people", type=float, default=1e6)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["duckdb", "postgres", "spark"])
    options = parser.parse_args()
    path = options.folder / f"{int(options.rows)}-{int(options.people)}.parquet"
    if not path.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        write(path, int(options.rows), int(options.people))
    say("| engine | query | by hand, CPU s | wall, CPU s | ratio to the quicker |")
    say("|---|---|---|---|---|")
    if "duckdb" in options.only:
        file = options.folder / "visits.duckdb"
        with duckdb.connect(file) as made:
            made.execute(f"CREATE OR REPLACE TABLE visits AS SELECT * FROM '{path}'")
        with duckdb.connect(file, read_only=True) as stored:
            asked_by_hand: Callable[[str], Any] = lambda sql: stored.execute(sql).fetchall()  # noqa: E731
            compare("DuckDB", tacit.Table(file, "visits"), asked_by_hand, "visits", os.getpid())
        file.unlink()
    if "postgres" in options.only:
        with postgres.running() as server:
            filled(server, path)
            table = tacit.Table(server.address(), "visits")
            compare("PostgreSQL", table, server.run, "visits", server.pid)
    if "spark" in options.only:
        with spark.running(**{"spark.driver.memory": "4g"}) as session:
            session.read.parquet(str(path)).createOrReplaceTempView("visits")
            java = session.sparkContext._gateway.proc.pid  # noqa: SLF001
            run: Callable[[str], Any] = lambda sql: session.sql(sql).toArrow()  # noqa: E731
            compare("Spark", tacit.Table(session, str(path)), run, "visits", java)


if __name__ == "__main__":
    main()

"""Releases from PostgreSQL and Spark beside the engine's own queries for the same counts.

    python benchmarks/engines.py --rows 10e6 --folder /tmp/scale

Takes the table of benchmarks/scale.py. Printed are CPU seconds of all processes: of the engine, of
its workers and of this one. By hand the engine is asked once with GROUPING SETS, and once with a
GROUP BY for each table; the quicker of the two counts.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from scale import FEATURES, asked, schema, write
from tests import postgres, spark

import tacit

say = Console(width=200, markup=False, highlight=False, soft_wrap=True).out
TABLES = {
    "hidden states": [("region", "month", name) for name in ("kind", "weapon", "harm")],
    "naive Bayes": [("harm",), *(("harm", name) for name in FEATURES)],
}
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


def measured(run: Callable[[], object], *roots: int) -> float:
    before = cpu(os.getpid(), *roots)
    run()
    return cpu(os.getpid(), *roots) - before


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

    for query, tables in TABLES.items():
        release(query)  # compiles and imports what is needed, and warms the engine
        hand = {
            "GROUPING SETS": measured(lambda: run(sets(name, tables)), root),
            "a GROUP BY each": measured(lambda: [run(q) for q in each(name, tables)], root),
        }
        ours = measured(lambda: release(query), root)
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
    parser.add_argument("--only", choices=("postgres", "spark", "both"), default="both")
    options = parser.parse_args()
    path = options.folder / f"{int(options.rows)}-{int(options.people)}.parquet"
    if not path.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        write(path, int(options.rows), int(options.people))
    say("| engine | query | by hand, CPU s | wall, CPU s | ratio to the quicker |")
    say("|---|---|---|---|---|")
    if options.only != "spark":
        with postgres.running() as server:
            filled(server, path)
            table = tacit.Table(server.address(), "visits")
            compare("PostgreSQL", table, server.run, "visits", server.pid)
    if options.only != "postgres":
        with spark.running(**{"spark.driver.memory": "4g"}) as session:
            session.read.parquet(str(path)).createOrReplaceTempView("visits")
            java = session.sparkContext._gateway.proc.pid
            run: Callable[[str], Any] = lambda sql: session.sql(sql).toArrow()  # noqa: E731
            compare("Spark", tacit.Table(session, str(path)), run, "visits", java)


if __name__ == "__main__":
    main()

"""Releases of a large Parquet file beside the same aggregates by hand in DuckDB.

    python benchmarks/scale.py --rows 50e6 --people 5e6 --folder /tmp/scale

Writes a table of 8 columns and one of persons, and asks each query of the wall and of DuckDB, each
in a process of its own. Printed are CPU seconds and the growth of the process's peak memory over
a release of a hundred rows, which compiles and imports what is needed. By hand nothing is bounded,
rounded or made private: these are DuckDB's aggregates of the raw columns.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

say = Console(width=200, markup=False, highlight=False, soft_wrap=True).out
TEXTS = {
    "region": [f"region-{i:02d}" for i in range(26)],
    "month": [f"{2004 + i // 12}-{i % 12 + 1:02d}" for i in range(72)],
    "kind": [f"kind {i}" for i in range(8)],
    "weapon": ["gun", "ied", "mortar", "none", "other"],
    "harm": ["no", "yes"],
}
FEATURES = ("region", "kind", "weapon", "age", "month")
QUERIES = ("hidden states", "naive Bayes", "moments")
PER_PERSON = 3


SUMS = (
    "SELECT count(*), sum(age), sum(cost), sum(bmi), sum(age * age), sum(age * cost), "
    "sum(age * bmi), sum(cost * cost), sum(cost * bmi), sum(bmi * bmi) FROM {t} "
    "AND age IS NOT NULL AND cost IS NOT NULL AND bmi IS NOT NULL"
)


def write(path: Path, rows: int, people: int) -> None:
    rng, batch, writer = np.random.default_rng(1), 1_000_000, None
    for first in range(0, rows, batch):
        size = min(batch, rows - first)
        columns = {
            name: pa.array(texts).take(pa.array(rng.integers(0, len(texts), size)))
            for name, texts in TEXTS.items()
        }
        columns |= {"age": rng.integers(0, 100, size), "cost": rng.gamma(2, 100, size)}
        columns["bmi"] = pa.array(rng.normal(26, 4, size), mask=rng.random(size) < 0.01)
        table = pa.table(columns | {"person": rng.integers(0, people, size)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def schema(unit: bool) -> Any:
    import tacit

    return tacit.Schema(
        *(tacit.Categorical(name, TEXTS[name]) for name in TEXTS if name != "month"),
        tacit.Time("month", "2004-01", "2009-12", every="month"),
        tacit.Integer("age", 0, 120),
        tacit.Real("cost", 0, 1000),
        tacit.Real("bmi", 10, 60),
        neighbours="add_remove",
        **({"unit": "person", "max_rows_per_unit": PER_PERSON} if unit else {}),
    )


def asked(query: str) -> Any:
    from tacit.queries import Counts, Moments

    return {
        "hidden states": Counts(("kind", "weapon", "harm"), by=("region", "month")),
        "naive Bayes": Counts(("harm", *(("harm", name) for name in FEATURES))),
        "moments": Moments(("age", "cost", "bmi")),
    }[query]


def wall(query: str, path: Path, unit: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    import tacit

    small = path.with_suffix(".small.parquet")
    if not small.exists():
        some = next(pq.ParquetFile(path).iter_batches(100))
        pq.write_table(pa.Table.from_batches([some]), small)

    def release(source: Path) -> object:
        held = tacit.Wall(source, schema(unit), budget=tacit.Budget(1), ledger=":memory:")
        return held.release(asked(query), tacit.Laplace(0.5))

    return lambda: release(small), lambda: release(path)


def hand(query: str, path: Path, unit: bool) -> tuple[Callable[[], object], Callable[[], object]]:
    import duckdb

    table = f"read_parquet('{path}')"
    if unit:
        order = ", ".join([*TEXTS, "age", "cost", "bmi"])
        table = (
            "(SELECT *, row_number() OVER (PARTITION BY person ORDER BY "
            f"hash(person, {order})) AS k FROM {table}) WHERE k <= {PER_PERSON}"
        )
    else:
        table += " WHERE true"
    sql = {
        "hidden states": "SELECT region, month, kind, weapon, harm, count(*) FROM {t} GROUP BY "
        "GROUPING SETS ((region, month, kind), (region, month, weapon), (region, month, harm))",
        "naive Bayes": "SELECT harm, region, kind, weapon, age, month, count(*) FROM {t} GROUP BY "
        "GROUPING SETS ((harm), (harm, region), (harm, kind), (harm, weapon), (harm, age), "
        "(harm, month))",
        "moments": SUMS,
    }[query].replace("{t}", table)
    return lambda: duckdb.sql("SELECT 1").fetchall(), lambda: duckdb.sql(sql).fetchall()


def measured(warm: Callable[[], object], run: Callable[[], object]) -> None:
    warm()
    before, peak = time.process_time(), peak_memory()
    run()
    say(json.dumps({"cpu": time.process_time() - before, "mb": peak_memory() - peak}))


def peak_memory() -> float:
    """In MB, of this program alone: `getrusage` would begin with that of who started it."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(line) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=50e6)
    parser.add_argument("--people", type=float, default=5e6)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=QUERIES, choices=QUERIES)
    parser.add_argument("--unit", choices=("no", "yes", "both"), default="both")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    path = options.folder / f"{int(options.rows)}-{int(options.people)}.parquet"
    if options.one:
        who, query, unit = options.one
        measured(*{"wall": wall, "hand": hand}[who](query, path, unit == "True"))
        return
    if not path.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        write(path, int(options.rows), int(options.people))
    say("| query | unit | by hand, CPU s | MB | wall, CPU s | MB | ratio of CPU |")
    say("|---|---|---|---|---|---|---|")
    for unit in {"no": [False], "yes": [True], "both": [False, True]}[options.unit]:
        for query in options.only:
            found = {}
            for who in ("hand", "wall"):
                command = [sys.executable, *sys.argv, "--one", who, query, str(unit)]
                ran = subprocess.run(command, check=True, capture_output=True, text=True)
                found[who] = json.loads(ran.stdout)
            by_hand, ours = found["hand"], found["wall"]
            say(
                f"| {query} | {f'person, {PER_PERSON} rows' if unit else 'row'} "
                f"| {by_hand['cpu']:.1f} | {by_hand['mb']:.0f} | {ours['cpu']:.1f} "
                f"| {ours['mb']:.0f} | {ours['cpu'] / by_hand['cpu']:.2f} |",
            )


if __name__ == "__main__":
    main()

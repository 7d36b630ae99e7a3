"""Loops over data that outgrow memory: time, processor time and memory of whole fits and of steps.

    python benchmarks/loops.py logistic --rows 1e5 1e6 2e7 --folder /tmp/loops
    python benchmarks/loops.py topics --rows 1e6 --folder /tmp/loops
    python benchmarks/loops.py topics --rows 1e6 --folder /tmp/loops --workers
    python benchmarks/loops.py step --rows 1e4 1e5 1e6 --folder /tmp/loops
    python benchmarks/loops.py workers --rows 2e6 --folder /tmp/loops

Each line is measured in a process of its own. Memory is the peak of what is resident, pages of
files included; of processes on a cluster the sum of theirs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

say = Console(width=200, markup=False, highlight=False, soft_wrap=True).out
FEATURES, WORDS, LENGTH = 50, 5000, 60
NAMES = [f"x{i:02d}" for i in range(FEATURES)]
VOCABULARY = [f"word{i}" for i in range(WORDS)]
BATCH = 200_000


def table(rows: int, folder: Path) -> Path:
    """Features of 32 bits and an outcome."""
    path = folder / f"logistic-{rows}.parquet"
    weights = np.random.default_rng(0).normal(size=FEATURES) / 3

    def some(rng: np.random.Generator, size: int) -> pa.Table:
        x = rng.uniform(-1, 1, size=(size, FEATURES)).astype(np.float32)
        y = (rng.random(size) < 1 / (1 + np.exp(-x @ weights))).astype(np.int8)
        return pa.table({**dict(zip(NAMES, x.T)), "y": y})

    return written(path, rows, some)


def letters(rows: int, folder: Path) -> Path:
    """Texts of 60 words, of two of 20 topics each."""
    path = folder / f"topics-{rows}.parquet"
    topics = np.random.default_rng(0).permuted(
        np.tile(1 / np.arange(1, WORDS + 1), (20, 1)), axis=1
    )
    ends = np.cumsum(topics / topics.sum(axis=1, keepdims=True), axis=1)
    words = pa.array(VOCABULARY)

    def some(rng: np.random.Generator, size: int) -> pa.Table:
        mine = np.sort(rng.integers(0, 20, size=(size, 2)), axis=1)
        topic = np.where(rng.random((size, LENGTH)) < 0.5, mine[:, :1], mine[:, 1:])
        draws, found = rng.random((size, LENGTH)), np.zeros((size, LENGTH), np.int64)
        for i in range(20):
            found[topic == i] = np.searchsorted(ends[i], draws[topic == i])
        flat = words.take(pa.array(np.minimum(found.ravel(), WORDS - 1)))
        lists = pa.ListArray.from_arrays(pa.array(np.arange(0, size * LENGTH + 1, LENGTH)), flat)
        return pa.table({"letter": pc.binary_join(lists, " ")})

    return written(path, rows, some)


def written(path: Path, rows: int, some: Callable[[np.random.Generator, int], pa.Table]) -> Path:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        rng, begun, writer = np.random.default_rng(1), path.with_suffix(".begun"), None
        for first in range(0, rows, BATCH):
            part = some(rng, min(BATCH, rows - first))
            writer = writer or pq.ParquetWriter(begun, part.schema)
            writer.write_table(part)
        assert writer is not None
        writer.close()
        begun.rename(path)
    return path


def records() -> object:
    import tacit

    columns = [tacit.Real(name, -1, 1) for name in NAMES]
    return tacit.Schema(*columns, tacit.Categorical("y", [0, 1]), neighbours="replace_one")


def logistic(path: Path, workers: int | None) -> dict[str, object]:
    import tacit

    held = {"budget": tacit.Budget(1, 1e-6), "ledger": ":memory:", "workers": workers}
    wall = tacit.Wall(path, records(), **held)
    model = tacit.LogisticRegression("y", NAMES)
    tacit.fit(model, wall, tacit.Budget(1, 1e-6), seed=1, progress=False)
    return {}


def topics(path: Path, workers: int | None) -> dict[str, object]:
    import tacit

    schema = tacit.Schema(
        tacit.Tokens("letter", VOCABULARY, max_length=LENGTH), neighbours="replace_one"
    )
    held = {"budget": tacit.Budget(2.4, 1e-6), "ledger": ":memory:", "workers": workers}
    wall = tacit.Wall(path, schema, **held)
    tacit.fit(tacit.LDA(20), wall, tacit.Budget(2.4, 1e-6), progress=False)
    return {}


def question(columns: int) -> object:
    import tacit
    from tacit.spec.design import Design

    names = NAMES[:columns]
    state = np.zeros(columns + 1), *Design.of(names, records()).encoding
    kernel = tacit.queries.Kernel("logistic.score")
    return tacit.queries.BoundedSum(kernel, [*names, "y"], size=columns + 1, clip=0.5, state=state)


def steps(path: Path, rows: int, workers: int | None) -> dict[str, object]:
    """A full-batch step of a lease, after the first; and what is computed, without noise."""
    import tacit

    home, count = tacit.Public(path, records(), workers=workers), turns(rows)
    plan = tacit.queries.Plan(tacit.queries.Steps(count + 1, tacit.Exact()), delta=1e-6)
    lease, query = home.prepay(plan), question(FEATURES)
    first = lease.release(query)
    begun, cpu = time.perf_counter(), processor_time()
    for i in range(count):
        last = lease.release(query.at((np.full(FEATURES + 1, 0.01 * (i % 10)), *query.state[1:])))
    seconds = (time.perf_counter() - begun) / count
    each = (processor_time() - cpu) / count
    sums = [int(n) for n in (*first.integers[:3], *last.integers[:3])]
    return {"step": seconds, "step_cpu": each, "integers": sums}


def turns(rows: int) -> int:
    return max(10, 3_000_000 // rows)


def by_hand(path: Path, rows: int) -> dict[str, object]:
    """The sum of clipped gradients in NumPy, from an array of doubles."""
    read = pq.read_table(path)
    x = np.column_stack([read[name].to_numpy().astype(float) for name in NAMES])
    y, theta = read["y"].to_numpy().astype(float), np.zeros(FEATURES + 1)
    scale = 1 / np.sqrt(FEATURES + 1)
    x, begun, cpu, count = np.column_stack([np.ones(rows), x]), 0.0, 0.0, turns(rows)
    for i in range(-1, count):
        if i == 0:
            begun, cpu = time.perf_counter(), processor_time()
        theta[:] = 0.01 * (i % 10)
        gradient = (y - 1 / (1 + np.exp(-x @ theta * scale)))[:, None] * x * scale
        norm = np.sqrt((gradient**2).sum(axis=1))
        (gradient * np.minimum(1, 0.5 / np.maximum(norm, 1e-300))[:, None]).sum(axis=0)
    seconds = (time.perf_counter() - begun) / count
    return {"step": seconds, "step_cpu": (processor_time() - cpu) / count}


RUNS: dict[str, Callable[[Path, int], dict[str, object]]] = {
    "logistic": lambda path, rows: logistic(path, None),
    "logistic, two workers": lambda path, rows: logistic(path, 2),
    "topics": lambda path, rows: topics(path, None),
    "topics, two workers": lambda path, rows: topics(path, 2),
    "by hand": by_hand,
    "here": lambda path, rows: steps(path, rows, None),
    "one worker": lambda path, rows: steps(path, rows, 1),
    "two workers": lambda path, rows: steps(path, rows, 2),
}


def family() -> list[int]:
    """This process and all that it has started."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                facts = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(facts[1])
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def processor_time() -> float:
    """Processor seconds of the whole family so far."""
    total = time.process_time()
    for one in family()[1:]:
        facts = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")
    return total


def peak_mb() -> float:
    found = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]
    for one in family()[1:]:
        facts = Path(f"/proc/{one}/status").read_text()
        found.append(int(facts.split("VmHWM:")[1].split()[0]) / 1024)
    return sum(found)


def measured(who: str, path: Path, rows: int) -> None:
    begun, cpu = time.perf_counter(), processor_time()
    found = RUNS[who](path, rows)
    seconds, used = time.perf_counter() - begun, processor_time() - cpu
    say(json.dumps({"s": seconds, "cpu": used, "mb": peak_mb(), **found}))


def ran(who: str, path: Path, rows: int) -> dict[str, float]:
    command = [sys.executable, __file__, "one", "--who", who, "--path", path, "--rows", rows]
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def fits(what: str, make: Callable[[int, Path], Path], sizes: list[int], folder: Path) -> None:
    say(f"| {what} | s | CPU s | peak MB |\n|---|---|---|---|")
    seconds, used = [], []
    for rows in sizes:
        found = ran(what, make(rows, folder), rows)
        say(f"| {rows} | {found['s']:.0f} | {found['cpu']:.0f} | {found['mb']:.0f} |")
        seconds.append(found["s"])
        used.append(found["cpu"])
    if len(sizes) > 1:
        ends = [np.log(part[-1] / part[0]) for part in (sizes, seconds, used)]
        say(
            f"Exponent from first to last: {ends[1] / ends[0]:.2f} of the time, "
            f"{ends[2] / ends[0]:.2f} of processor time."
        )


def compared(names: list[str], sizes: list[int], folder: Path) -> None:
    say("| rows | | ms a step | CPU ms a step | ratio | ratio of CPU | peak MB |\n|" + "---|" * 7)
    for rows in sizes:
        path = table(rows, folder)
        found = {name: ran(name, path, rows) for name in names}
        base, sums = found[names[0]], set()
        for name, one in found.items():
            say(
                f"| {rows} | {name} | {1e3 * one['step']:.2f} | {1e3 * one['step_cpu']:.2f} | "
                f"{one['step'] / base['step']:.2f} | {one['step_cpu'] / base['step_cpu']:.2f} | "
                f"{one['mb']:.0f} |"
            )
            sums |= {tuple(one["integers"])} if "integers" in one else set()
        say(f"Integers: {'the same' if len(sums) == 1 else 'DIFFERENT'}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("logistic", "topics", "step", "workers", "one"))
    parser.add_argument("--rows", type=float, nargs="+", required=True)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--workers", action="store_true", help="fits with two workers")
    parser.add_argument("--who", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    sizes = [int(rows) for rows in chosen.rows]
    match chosen.what:
        case "one":
            measured(chosen.who, chosen.path, sizes[0])
        case "logistic" | "topics":
            make = table if chosen.what == "logistic" else letters
            who = f"{chosen.what}, two workers" if chosen.workers else chosen.what
            fits(who, make, sizes, chosen.folder)
        case "step":
            compared(["by hand", "here"], sizes, chosen.folder)
        case "workers":
            compared(["here", "one worker", "two workers"], sizes, chosen.folder)


if __name__ == "__main__":
    main()

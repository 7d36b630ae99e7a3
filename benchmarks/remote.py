"""A step of a lease through a custodian's server on loopback, against the same step at home.

Both under a name, so that each answer is stored before it is handed out. Two questions: a bounded
sum of one number over simulated patients, and the sums of LDA for 50 topics and 8,000 words, whose
public state and answer are 400,000 numbers each. Prints milliseconds of a step, taken in turns, and
the difference.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from rich import print

import tacit
from tacit.custodian.accounts import Accounts
from tacit.custodian.custody import Custody
from tacit.custodian.supervisor import Child, Supervisor
from tacit.spec.variational import FitSetting

TOPICS, WORDS, LETTERS, PATIENTS = 50, 8_000, 200, 4_000
BUDGET = tacit.Budget(100_000, 1e-3)
CUSTODY = """
[server]
folder = "server"
port = 0
{datasets}
"""
DATASET = """
[datasets.{name}]
source = "{name}.parquet"
ledger = "{name}.ledger"
budget = {{ epsilon = 100000, delta = 1e-3 }}
[datasets.{name}.schema]
neighbours = "replace_one"
columns = [{column}]
"""


def simulate(folder: Path) -> dict[str, tacit.Schema]:
    """Two tables and the custody.toml of both."""
    rng = np.random.default_rng(0)
    words = [f"w{i:04d}" for i in range(WORDS)]
    letters = [" ".join(rng.choice(words, 60)) for _ in range(LETTERS)]
    pd.DataFrame({"letter": letters}).to_parquet(folder / "letters.parquet")
    pd.DataFrame({"age": rng.integers(0, 100, PATIENTS).astype(float)}).to_parquet(
        folder / "patients.parquet"
    )
    columns = {
        "patients": '{ name = "age", type = "real", low = 0, high = 100 }',
        "letters": f'{{ name = "letter", type = "tokens", max_length = 60, vocabulary = {words} }}',
    }
    text = "".join(DATASET.format(name=name, column=column) for name, column in columns.items())
    (folder / "custody.toml").write_text(CUSTODY.format(datasets=text))
    return {
        "patients": tacit.Schema(tacit.Real("age", 0, 100), neighbours="replace_one"),
        "letters": tacit.Schema(
            tacit.Tokens("letter", words, max_length=60), neighbours="replace_one"
        ),
    }


def questions(schemas: dict[str, tacit.Schema]) -> dict[str, tacit.queries.BoundedSum]:
    """The form of each question; states change from step to step."""
    mean = tacit.queries.BoundedSum(
        tacit.queries.Kernel("columns.values"),
        "age",
        size=1,
        clip=50.0,
        state=(np.zeros(1), np.ones(1)),
    )
    topics = tacit.LDA(TOPICS).variational(schemas["letters"], FitSetting(LETTERS, 0.0))
    parameters = topics.maximise(topics.start(np.random.default_rng(0)))
    return {"patients": mean, "letters": topics.question(parameters)}


def moved(query: tacit.queries.BoundedSum, step: int) -> tacit.queries.BoundedSum:
    """The question at another state of the same shape."""
    return query.at(
        tuple(leaf * (1 + 1e-6 * step) if leaf.dtype.kind == "f" else leaf for leaf in query.state)
    )


def processor_seconds(child: Child) -> float:
    """What a process has used so far."""
    assert child.process is not None
    words = Path(f"/proc/{child.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        schemas = simulate(folder)
        forms = questions(schemas)
        custody = Custody.load(folder / "custody.toml")
        accounts = Accounts(custody.accounts)
        accounts.create()
        token = accounts.add("ana")
        for name in schemas:
            accounts.allow("ana", name, BUDGET)
        supervisor = Supervisor(custody)
        supervisor.start()
        try:
            for name, schema in schemas.items():
                form = forms[name]
                (bound,) = {bound.geometry for bound in form.bounds}
                part = tacit.queries.Steps(
                    steps + 5,
                    tacit.Gaussian(noise_multiplier=4.0),
                    geometry=bound,
                    numbers=form.numbers,
                )
                plan = tacit.queries.Plan(part, delta=1e-6)
                home = tacit.Wall(
                    folder / f"{name}.parquet",
                    schema,
                    budget=BUDGET,
                    ledger=folder / f"home-{name}.ledger",
                )
                leases = [
                    wall.prepay(plan, name="steps")
                    for wall in (home, tacit.connect(f"{supervisor.url}/{name}", token))
                ]
                server = supervisor.web, supervisor.workers[name]
                for i in range(5):  # compiles, and fills what is kept
                    for lease in leases:
                        lease.release(moved(form, i))
                elapsed, busy = np.zeros((2, steps)), np.zeros(2)
                busy[1] -= sum(map(processor_seconds, server))
                for i in range(steps):
                    for j, lease in enumerate(leases):
                        query = moved(form, i + 5)
                        start, began = time.perf_counter(), time.process_time()
                        lease.release(query)
                        elapsed[j, i] = time.perf_counter() - start
                        busy[j] += time.process_time() - began
                busy[1] += sum(map(processor_seconds, server))
                here, there = 1e3 * np.median(elapsed, axis=1)
                more = 1e3 * np.median(elapsed[1] - elapsed[0])
                cpu = 1e3 * busy / steps
                print(
                    f"{name}, {form.numbers} numbers: at home {here:.1f} ms a step, through the "
                    f"server {there:.1f} ms, {more:.1f} ms more; processor time of all processes "
                    f"{cpu[0]:.1f} ms and {cpu[1]:.1f} ms, {cpu[1] - cpu[0]:.1f} ms more"
                )
        finally:
            supervisor.stop()


if __name__ == "__main__":
    main()

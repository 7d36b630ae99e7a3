"""Models through a server whose workers are killed meanwhile: the same posteriors as at home."""

import os
import shutil
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.datasets import simulate_incidents, simulate_letters, simulate_readmissions
from tacit.methods import DPVI
from tacit.spec.columns import column_to_dict
from tests.custodian.serving import serving

BUDGET = tacit.Budget(20, 1e-3)


def toml(value):
    """Plain values in one line of TOML."""
    match value:
        case dict():
            told = (f"{key} = {toml(each)}" for key, each in value.items() if each is not None)
            return "{" + ", ".join(told) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(toml, value)) + "]"
        case bool():
            return str(value).lower()
        case str():
            return f"'{value}'"
    return repr(value)


def write(folder: Path, tables: dict) -> Path:
    """A custody of several data sets from tables in memory."""
    text = '[server]\nfolder = "state"\nport = 0\n'
    for name, (table, schema) in tables.items():
        pd.DataFrame(table).to_parquet(folder / f"{name}.parquet")
        facts = {key: value for key, value in schema.to_dict().items() if key != "columns"}
        if schema.unit is None:
            del facts["max_rows_per_unit"]
        facts["columns"] = [column_to_dict(column) for column in schema.columns]
        text += (
            f'[datasets.{name}]\nsource = "{name}.parquet"\nledger = "{name}.ledger"\n'
            f"budget = {{ epsilon = 20, delta = 1e-3 }}\nschema = {toml(facts)}\n"
        )
    (folder / "custody.toml").write_text(text)
    return folder / "custody.toml"


def readmissions():
    schema = tacit.Schema(
        tacit.Real("age", 18, 95),
        tacit.Integer("visits", 0, 10),
        tacit.Categorical("readmitted", ["no", "yes"]),
        neighbours="replace_one",
    )
    return simulate_readmissions(2000).table, schema


def letters():
    found = simulate_letters(300)
    return found.table, found.schema()


def incidents():
    logs = simulate_incidents(regions=3, months=12, states=2, entries=58, seed=3)
    return logs.table, logs.schema()


def numpyro_model():
    numpyro = pytest.importorskip("numpyro")
    jnp = pytest.importorskip("jax.numpy")
    dist = numpyro.distributions

    def visits_by_age(age, visits):
        base = numpyro.sample("base", dist.Normal(0, 2))
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        rate = jnp.exp(base + slope * (age - 50) / 10)
        with numpyro.plate("patients", len(visits)):
            numpyro.sample("visits", dist.Poisson(rate), obs=visits)

    return tacit.LogDensity(visits_by_age), DPVI(2, 1e-6, steps=60)


CASES = {
    "logistic": (
        "patients",
        lambda: (tacit.LogisticRegression("readmitted", ["age", "visits"]), tacit.Budget(2, 1e-6)),
    ),
    "topics": ("letters", lambda: (tacit.LDA(4), tacit.VIPS(4, 1e-6))),
    "states": (
        "incidents",
        lambda: (
            tacit.HMM(2, "region", "month", ("type", "friendly_casualties")),
            tacit.Laplace(4),
        ),
    ),
    "numpyro": ("patients", numpyro_model),
}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    tables = {"patients": readmissions(), "letters": letters(), "incidents": incidents()}
    with serving(write(tmp_path_factory.mktemp("hospital"), tables)) as server:
        yield server


@contextmanager
def killing(server, after: float):
    """Kill the workers of a server once, after some seconds."""

    def kill() -> None:
        for worker in server.children("worker"):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)

    timer = threading.Timer(after, kill)
    timer.start()
    yield
    timer.cancel()
    timer.join()


@pytest.mark.parametrize("case", CASES)
def test_the_posterior_is_that_of_home_for_the_same_answers(hospital, case, tmp_path):
    """Fitted far away, and at home from a copy of the server's ledger: the same draws."""
    dataset, made = CASES[case]
    model, how = made()
    options = {"seed": 3, **({} if case == "topics" else {"draws": 100, "chains": 2})}
    wall = hospital.wall(case, dataset)
    with killing(hospital, after=1.0):
        far = tacit.fit(model, wall, how, name="it", **options)
    folder = hospital.path.parent
    for path in folder.glob(f"{dataset}.*"):
        shutil.copy(path, tmp_path / path.name)
    home = tacit.Wall(
        tmp_path / f"{dataset}.parquet",
        wall.schema,
        budget=BUDGET,
        ledger=tmp_path / f"{dataset}.ledger",
    )
    before = home.remaining
    near = tacit.fit(model, home, how, name=f"{case}/it", **options)
    assert home.remaining == before  # nothing was asked anew
    assert set(far.draws) == set(near.draws)
    for name, draws in far.draws.items():
        assert np.array_equal(draws, near.draws[name]), name
    names = [e["name"] for e in hospital.ledger(dataset).entries() if e["kind"] == "charge"]
    assert len(set(names)) == len(names)  # each paid once

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit.cli import main
from tests.postgres import LEDGERS, postgres

__all__ = ["postgres"]  # a fixture

# Programs that JAX has compiled are kept between runs, and shared by workers.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
# Before any test starts a server of processes, which have the environment of its start.
os.environ["PGPASSWORD"] = LEDGERS

SMOKERS = {
    "smoker": np.array(["yes", "no", "no", "yes", "no", "no", "n/a", "no"]),
    "age": np.array(["31", "44", "x", "19", "70", "5e1", "", "-3"]),
    "who": np.array(["a", "a", "a", "b", "c", "c", "d", ""]),
}


def smoking(neighbours: str = "replace_one", **options: Any) -> tacit.Schema:
    """One categorical column; keywords go to it (default=) or to the schema."""
    default = options.pop("default", None)
    return tacit.Schema(
        tacit.Categorical("smoker", ["no", "yes"], default=default),
        neighbours=neighbours,
        **options,
    )


def exact(data: Any, schema: tacit.Schema, query: tacit.queries.Counts) -> np.ndarray:
    """The statistic itself, which only public data may show."""
    return tacit.Public(data, schema).release(query, tacit.Exact()).value


def without_note(release: tacit.Release) -> tacit.Release:
    """A replayed release as it was first given: without the note that it is a replay."""
    assumptions = release.certificate.assumptions
    assert "answered again from the ledger" in assumptions[-1]
    certificate = replace(release.certificate, assumptions=assumptions[:-1])
    return replace(release, certificate=certificate)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Any:
    """Fixtures of a test that is not traced (`no_cover`) are not traced either."""
    tracing = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if tracing is None or item.get_closest_marker("no_cover") is None:
        return (yield)
    tracing.pause()
    try:
        return (yield)
    finally:
        tracing.resume()


@pytest.fixture
def wall(tmp_path: Path) -> tacit.Wall:
    return tacit.Wall(
        SMOKERS, smoking(), budget=tacit.Budget(1, 1e-6), ledger=tmp_path / "smokers.ledger"
    )


@pytest.fixture
def run(monkeypatch, capfd):
    """The command line in this process: what it printed, after checking how it ended."""

    def call(*words: str | Path, ok: bool = True) -> str:
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capfd.readouterr()
        assert (done.value.code in (0, None)) is ok, out + err
        return out if ok else err

    return call

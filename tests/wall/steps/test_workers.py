"""Shards with workers: the integers of one process, and a lost worker costs a step and no more."""

import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tacit
from tacit.sources import workers as _workers
from tacit.sources.loaded import Loaded
from tacit.sources.workers import LOST, Shards, Worker, Workers
from tacit.wall.steps import sums
from tests.wall.steps.test_sums import CASES, NAMES, PROGRAM, loaded, schema, table

SourceError = tacit.errors.SourceError


def batches(units):
    rng = np.random.default_rng(4)
    for size in (units, units - 1, 180, 1, 0):
        yield np.sort(rng.choice(units, size=size, replace=False))


class Here:
    """Workers without processes: what is sent to a shard is sent to it here."""

    def __init__(self, count):
        self.actors, self.ray, self.refs = [_Actor(Worker()) for _ in range(count)], self, []

    def put(self, given):
        return pickle.loads(pickle.dumps(given))

    def get(self, asked, **options):
        return asked

    def remote(self, **options):
        return lambda kind: SimpleNamespace(
            options=lambda **where: SimpleNamespace(remote=lambda: _Actor(kind()))
        )

    hold = Workers.hold
    _tables = iter(range(10**6))


class _Actor:
    def __init__(self, worker):
        self._worker = worker

    def __getattr__(self, name):
        class Method:
            remote = staticmethod(getattr(self._worker, name))

        return Method


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", CASES)
def test_shards_add_up_to_the_integers_of_one_table(kind, count, monkeypatch):
    monkeypatch.setattr(sums, "MANY", 300)  # longer chunks are for batches of all shards
    resolved, held, noise = loaded(kind, 700)
    shards = Here(count).hold(held)
    assert (shards.units, shards.lost) == (held.units, False)
    for units in batches(held.units):
        expected = resolved.sum(held, units, noise)
        np.testing.assert_array_equal(resolved.sum(shards, units, noise), expected)


def test_shards_of_hardly_any_units():
    for n in (0, 1, 2):
        resolved, held, noise = loaded("values", n)
        shards = Here(3).hold(held)
        everyone = np.arange(n)
        expected = resolved.sum(held, everyone, noise)
        np.testing.assert_array_equal(resolved.sum(shards, everyone, noise), expected)


def test_all_rows_of_a_unit_are_in_one_shard():
    _, held, _ = loaded("program of units", 700)
    parts = [held.part(i, i + 1) for i in range(held.units)]
    assert sum(len(part.values) for part in parts) == len(held.values)
    assert max(len(part.values) for part in parts) == 4
    half = held.part(held.units // 2, held.units)
    assert half.units + held.part(0, held.units // 2).units == held.units


@pytest.mark.parametrize("where", [0, -1, True, False, 2.0, "", [2]])
def test_what_is_no_place_for_workers_is_refused(where):
    with pytest.raises(SourceError, match="Expected workers="):
        Workers(where)


def test_an_address_without_a_token_is_refused(monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    held = {"budget": tacit.Budget(1), "ledger": ":memory:"}
    with pytest.raises(SourceError, match="RAY_AUTH_MODE=token") as caught:
        tacit.Wall(table(9), schema(), workers="ray://head.example:10001", **held)
    assert "head.example" not in str(caught.value)


def test_ray_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with pytest.raises(SourceError, match=r"tacit\[cluster\]"):
        Workers(2)


class Stranger(Worker):
    def facts(self):
        return _workers.code(), f"a processor of {id(self)}", True


class Open(Worker):
    def facts(self):
        return *super().facts()[:2], False


class Older(Worker):
    def facts(self):
        return "", *super().facts()[1:]


@pytest.mark.parametrize(
    ("kind", "says"),
    [(Stranger, "one type of processor"), (Open, "asks for a token"), (Older, "other versions")],
)
def test_workers_that_are_not_alike_are_refused(kind, says, monkeypatch):
    monkeypatch.setattr(_workers, "_connected", lambda where: Here(0))
    monkeypatch.setattr(_workers, "_places", lambda ray, where: [None] * where)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert len(Workers(2).actors) == 2
    monkeypatch.setattr(_workers, "Worker", kind)
    with pytest.raises(SourceError, match=says):
        Workers(2)


# With processes


@pytest.fixture(scope="module")
def two():
    if find_spec("ray") is None:  # which must not be imported before it is told of its token
        pytest.skip("workers run on Ray: pip install 'tacit[cluster]'")
    return Workers(2)


def count(**options):
    ones = tacit.queries.Kernel("table.scores")
    state = np.ones((1, 10)), np.array([0])
    return tacit.queries.BoundedSum(ones, "z", size=1, clip=1.0, state=state, **options)


@pytest.mark.parametrize("kind", CASES)
def test_two_processes_give_the_integers_of_one(kind, two):
    resolved, held, noise = loaded(kind, 700)
    shards = two.hold(held)
    assert isinstance(shards, Shards)
    for units in batches(held.units):
        expected = resolved.sum(held, units, noise)
        np.testing.assert_array_equal(resolved.sum(shards, units, noise), expected)


def test_a_lease_with_workers_answers_as_one_without(two, monkeypatch):
    """The wall decides who takes part and draws the noise, from the same entropy in both."""
    monkeypatch.setattr("tacit.public.Workers", lambda where: two)
    noise, half = tacit.Gaussian(noise_multiplier=1.0), tacit.subsampling.Poisson(0.4)
    plan = tacit.queries.Plan(
        tacit.queries.Steps(2, noise, numbers=12), tacit.queries.Steps(4, noise, half, numbers=12),
        delta=1e-6,
    )  # fmt: skip
    query = tacit.queries.BoundedSum(
        PROGRAM, NAMES, size=12, clip=1.5, state=np.ones(3, np.float32)
    )
    answers = []
    for workers in (None, 2):
        lease = tacit.Public(table(500), schema(), seed=5, workers=workers).prepay(plan)
        answers.append([lease.release(query).integers.tolist() for _ in range(6)])
    assert answers[0] == answers[1]


def pid(shard, units, given):
    return os.getpid()


def processes(workers):
    """Their ids, the first one's first."""
    everyone = np.arange(40)
    shards = workers.hold(loaded("values", 40)[1])
    found = [a.apply.remote(shards._table, pid, everyone, None) for a in workers.actors]
    return workers.ray.get(found)


def test_a_killed_worker_costs_a_step_and_a_rerun_by_name_goes_on(tmp_path, two):
    """Killed in the middle of a step: one sentence, one charge, and what was answered stays."""
    plan = tacit.queries.Plan(
        tacit.queries.Steps(3, tacit.Gaussian(noise_multiplier=20.0)), delta=1e-6
    )

    def wall():
        budget, ledger = tacit.Budget(9, 1e-3), tmp_path / "people.ledger"
        found = tacit.Wall(table(300), schema(), budget=budget, ledger=ledger)
        found._leases._readings.workers = two
        return found

    home = wall()
    lease = home.prepay(plan, name="loop")
    first, left = lease.release(count()), home.remaining
    victim = processes(two)[1]
    os.kill(victim, signal.SIGSTOP)  # so that it is in the middle of the step when it is killed
    kill = threading.Timer(1.0, os.kill, (victim, signal.SIGKILL))
    kill.start()
    with pytest.raises(SourceError) as caught:
        lease.release(count())
    kill.join()
    assert str(caught.value) == LOST
    assert caught.value.__context__ is None
    assert (home.remaining, lease.steps_left) == (left, 2)
    second = lease.release(count())  # with new processes, under the same charge
    assert victim not in processes(two)
    again = wall().prepay(plan, name="loop")
    replayed = [again.release(count()) for _ in range(3)]
    assert [r.integers.tolist() for r in replayed[:2]] == [
        first.integers.tolist(), second.integers.tolist(),
    ]  # fmt: skip
    assert home.remaining == left
    assert abs(replayed[2].value[0] - 300) < 300


def test_a_lease_without_a_name_goes_on_with_its_next_step(two, monkeypatch):
    monkeypatch.setattr("tacit.public.Workers", lambda where: two)
    plan = tacit.queries.Plan(tacit.queries.Steps(3, tacit.Exact()), delta=1e-6)
    lease = tacit.Public(table(300), schema(), workers=2).prepay(plan)
    assert lease.release(count()).value[0] == 300
    os.kill(processes(two)[0], signal.SIGKILL)
    with pytest.raises(SourceError, match="A worker was lost"):
        lease.release(count())
    assert lease.release(count()).value[0] == 300
    assert lease.steps_left == 0


def quoting(shard, units, given):
    raise ValueError(f"the canary {shard.values[0]}")


def test_what_fails_in_a_worker_says_nothing_of_a_cell(two, capfd):
    shards = two.hold(loaded("values", 40)[1])
    assert shards.start(quoting, np.arange(40), None)() is None
    assert shards.lost
    shown = capfd.readouterr()
    assert "canary" not in shown.out + shown.err


def test_nobody_else_finds_the_sockets_or_sees_the_address(two):
    folder = Path(two.ray._private.worker._global_node.get_temp_dir_path())
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    token = os.environ["RAY_AUTH_TOKEN"]
    shown = repr(two) + repr(Loaded(None, schema(), two)) + repr(tacit.Public(table(9), schema()))
    assert token not in shown
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(two)


_CALLER = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="CRITICAL")
    print("inside", ray.nodes())
except BaseException as error:
    print("kept out")
"""


@pytest.mark.slow
def test_who_has_no_token_is_kept_out(two):
    address = two.ray.get_runtime_context().gcs_address
    rest = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    known, other = os.environ["RAY_AUTH_TOKEN"], "0" * 64
    for auth, expected in (
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": known}, "inside"),
        ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": other}, "kept out"),
        ({"RAY_AUTH_MODE": "disabled"}, "kept out"),
    ):
        ran = subprocess.run(
            [sys.executable, "-c", _CALLER, address],
            env=rest | auth, capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        assert ran.stdout.startswith(expected), ran.stdout + ran.stderr

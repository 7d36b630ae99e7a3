"""Leases under a name: every answer is stored first, given again, and gone on from."""

import multiprocessing as mp
import os
import pickle
import random
import signal
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tacit
from tacit.wall.steps.kept import KeptLease

SCHEMA = tacit.Schema(tacit.Real("x", 0, 1), neighbours="replace_one")
PLAN = tacit.queries.Plan(tacit.queries.Steps(3, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6)


def question(at):
    state = np.zeros(1), np.array([float(at)])
    return tacit.queries.BoundedSum(
        tacit.queries.Kernel("columns.values"), "x", size=1, clip=1, state=state
    )


def wall(path, n=100):
    data = {"x": np.linspace(0, 1, n)}
    return tacit.Wall(data, SCHEMA, budget=tacit.Budget(20, 1e-3), ledger=path)


def asked(lease, places=(0.1, 0.2, 0.3)):
    return [float(lease.release(question(at)).value[0]) for at in places]


def kinds(path):
    return [entry["kind"] for entry in tacit.Ledger(path).entries()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.ledger"


def test_the_same_plan_and_questions_are_answered_again_for_nothing(path):
    first = wall(path)
    answers = asked(first.prepay(PLAN, name="loop"))
    left = first.remaining
    second = wall(path, n=7)  # other data: they are not read
    again = second.prepay(PLAN, name="loop")
    assert isinstance(again, KeptLease)
    assert again.steps_left == 3
    assert "first released 20" in str(again.release(question(0.1)).certificate)
    assert asked(again, [0.2, 0.3]) == answers[1:]
    assert second.remaining == left
    assert kinds(path) == ["created", "charge", "opened"]
    with pytest.raises(tacit.errors.BudgetError, match="All 3 steps"):
        again.release(question(0.4))
    assert stat.S_IMODE((path.parent / "l.ledger.answers").stat().st_mode) == 0o600


def test_another_question_is_refused(path):
    asked(wall(path).prepay(PLAN, name="loop"))
    again = wall(path).prepay(PLAN, name="loop")
    again.release(question(0.1))
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        again.release(question(0.25))
    assert asked(again, [0.2])  # the step was not used up
    other = tacit.queries.Plan(
        tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6
    )
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        wall(path).prepay(other, name="loop")
    with pytest.raises(tacit.errors.QueryError, match="name"):
        wall(path).prepay(PLAN, name=" ")


@pytest.mark.parametrize("ledger", ["file", ":memory:"])
def test_a_loop_that_was_interrupted_goes_on_under_its_charge(path, ledger):
    home = wall(path if ledger == "file" else ledger)
    began = asked(home.prepay(PLAN, name="loop"), [0.1])
    left = home.remaining
    other = wall(path) if ledger == "file" else home
    lease = other.prepay(PLAN, name="loop")
    answers = asked(lease)
    assert answers[:1] == began
    assert other.remaining == left
    assert asked(other.prepay(PLAN, name="loop")) == answers
    with pytest.raises(TypeError, match="copied"):
        pickle.dumps(lease)


def test_two_at_once_get_the_same_answers(path):
    """Whichever stores a step first decides what both hand out."""
    slow, fast = (wall(path).prepay(PLAN, name="loop") for _ in range(2))
    began = asked(slow, [0.1])
    stored = asked(fast)
    assert began + asked(slow, [0.2, 0.3]) == stored
    assert kinds(path).count("charge") == 1


def test_a_step_that_another_has_answered_meanwhile_is_theirs(path, monkeypatch):
    first, second = wall(path), wall(path)
    lease = first.prepay(PLAN, name="loop")
    store, put = first._store, first._store.put
    answers = []

    def late(*given):
        answers.extend(asked(second.prepay(PLAN, name="loop"), [0.1]))
        return put(*given)

    monkeypatch.setattr(store, "put", late)
    assert asked(lease, [0.1]) == answers


def test_threads_take_one_step_at_a_time(path):
    """Else one would answer a step with the noise of the next."""
    plan = tacit.queries.Plan(
        tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=1000.0)),
        tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=3.0)),
        delta=1e-6,
    )
    for i in range(4):
        lease = wall(path).prepay(plan, name=f"loop {i}")
        with ThreadPoolExecutor(2) as pool:
            two = list(pool.map(lambda _, lease=lease: lease.release(question(0.1)), range(2)))
        assert sorted(round(release.noise[0].scale) for release in two) == [3, 1000]
        assert lease.steps_left == 0


def test_a_ledger_in_memory_answers_in_one_process():
    home = wall(":memory:")
    lease = home.prepay(PLAN, name="loop")
    context = mp.get_context("fork")
    told = context.SimpleQueue()

    def child():
        try:
            asked(lease, [0.1])
        except tacit.errors.LedgerError as error:
            told.put(str(error))

    process = context.Process(target=child)
    process.start()
    assert "after a fork" in told.get()
    process.join()
    assert asked(lease, [0.1])


def test_answers_that_are_gone_are_not_given_anew(path):
    """Their noise is out: fresh noise under the same charge would be a second answer."""
    home = wall(path)
    lease = home.prepay(PLAN, name="loop")
    asked(lease, [0.1])
    left = home.remaining
    (path.parent / "l.ledger.answers").unlink()
    with pytest.raises(tacit.errors.LedgerError, match="cannot be read or written"):
        asked(lease, [0.2])
    for _ in range(2):  # the second time there is a file again
        with pytest.raises(tacit.errors.LedgerError, match=r"are gone from .*another name"):
            wall(path).prepay(PLAN, name="loop")
    with pytest.raises(tacit.errors.LedgerError, match="are gone"):
        asked(lease, [0.2])
    assert home.remaining == left


@pytest.mark.parametrize("kind", ["garbage", "folder", "link", "ledger"])
def test_something_else_in_the_place_of_the_answers_is_refused_before_the_charge(path, kind):
    home, place = wall(path), path.parent / "l.ledger.answers"
    match kind:
        case "garbage":
            place.write_bytes(b"not a database" * 100)
        case "folder":
            place.mkdir()
        case "link":
            place.symlink_to(path.parent / "elsewhere")
        case "ledger":
            wall(place)
    with pytest.raises(tacit.errors.LedgerError, match="Nothing was charged"):
        home.prepay(PLAN, name="loop")
    assert home.remaining.epsilon == 20
    assert not (path.parent / "elsewhere").exists()
    if kind == "ledger":
        assert wall(place).remaining.epsilon == 20


def test_changed_answers_are_refused(path):
    import sqlite3

    asked(wall(path).prepay(PLAN, name="loop"))
    with sqlite3.connect(path.parent / "l.ledger.answers") as file:
        file.execute("UPDATE answers SET facts = replace(facts, '\"n\": 100', '\"n\": 101')")
    with pytest.raises(tacit.errors.LedgerError, match="were changed"):
        asked(wall(path).prepay(PLAN, name="loop"))


def test_an_answer_that_cannot_be_stored_is_not_handed_out(path):
    home = wall(path)
    lease = home.prepay(PLAN, name="loop")
    asked(lease, [0.1])
    answers = path.parent / "l.ledger.answers"
    kept = answers.read_bytes()
    answers.write_bytes(b"not a database" * 100)
    with pytest.raises(tacit.errors.LedgerError, match="cannot be read or written"):
        asked(lease, [0.2])
    answers.write_bytes(kept)
    assert len(asked(lease, [0.2, 0.3])) == 2


def test_a_crash_between_charge_and_opening_costs_nothing_more(path, monkeypatch):
    home = wall(path)
    monkeypatch.setattr(home._ledger, "open_lease", lambda name, begun: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        home.prepay(PLAN, name="loop")
    left = home.remaining
    assert len(asked(wall(path).prepay(PLAN, name="loop"))) == 3
    assert wall(path).remaining == left


# Every method, killed at random steps


def _data():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    ill = np.where(rng.random(300) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    return {"x": x, "ill": ill}


def _fit(path, out, method):
    schema = tacit.Schema(
        tacit.Real("x", -1, 1), tacit.Categorical("ill", ["no", "yes"]), neighbours="replace_one"
    )
    home = tacit.Wall(_data(), schema, budget=tacit.Budget(3, 1e-5), ledger=path)
    model = tacit.LogisticRegression("ill", ["x"])
    if isinstance(method, tacit.methods.PrivateMetropolis):
        model = tacit.BetaBernoulli("ill", success="yes", prior=(1, 1))
    posterior = tacit.fit(model, home, method, name="walk", progress=False)
    np.save(out, posterior.summary().to_numpy())


METHODS = {
    "SGLD": tacit.SGLD(1, 1e-6, steps=60, sampling=tacit.subsampling.Poisson(0.2), blocks=2),
    "newton": tacit.PrivateNewton(1, 1e-6),
    "VIPS": tacit.VIPS(1, 1e-6, sampling=tacit.subsampling.Poisson(50 / 300), steps=24),
    "metropolis": tacit.methods.PrivateMetropolis(1, 1e-6, steps=60),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_killed_run_goes_on_at_no_further_cost_to_the_same_end(tmp_path, name):
    """Killed at random instants until it is done: as an uninterrupted replay of its answers."""
    path, out, chance = tmp_path / "l.ledger", tmp_path / "out.npy", random.Random(name)
    context = mp.get_context("fork")
    kills = 0
    while not out.exists():
        process = context.Process(target=_fit, args=(path, out, METHODS[name]))
        process.start()
        if kills < 4:
            deadline = time.monotonic() + 20
            while not path.with_name("l.ledger.answers").exists() and process.is_alive():
                assert time.monotonic() < deadline
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.15))
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
        process.join()
    ended = np.load(out)
    charges = [e for e in tacit.Ledger(path).entries() if e["kind"] == "charge"]
    assert len(charges) == (2 if name == "SGLD" else 1)
    out.unlink()
    _fit(path, out, METHODS[name])  # nothing is asked: every answer is stored
    np.testing.assert_array_equal(np.load(out), ended)
    assert len([e for e in tacit.Ledger(path).entries() if e["kind"] == "charge"]) == len(charges)

"""Leases under a name: every answer is stored first, given again, and gone on from."""

import multiprocessing as mp
import os
import pickle
import random
import signal
import sqlite3
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import tacit
from tacit.spec.errors import ReplacedError
from tacit.wall import store
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


def test_the_same_plan_and_questions_are_answered_again_for_nothing(place):
    first = wall(place)
    answers = asked(first.prepay(PLAN, name="loop"))
    left = first.remaining
    second = wall(place, n=7)  # other data: they are not read
    again = second.prepay(PLAN, name="loop")
    assert isinstance(again, KeptLease)
    assert again.steps_left == 3
    assert "first released 20" in str(again.release(question(0.1)).certificate)
    assert asked(again, [0.2, 0.3]) == answers[1:]
    assert second.remaining == left
    assert kinds(place) == ["created", "charge", "opened"]
    with pytest.raises(tacit.errors.BudgetError, match="All 3 steps"):
        again.release(question(0.4))


def test_a_run_goes_on_with_the_data_it_began_with_or_not_at_all(place):
    """Half of its answers would be of other people: their order in the source does not matter."""
    begun = wall(place).prepay(PLAN, name="loop")
    first = asked(begun, [0.1])
    data = {"x": np.linspace(0, 1, 100)}
    changed = {"x": np.append(data["x"][:-1], 0.5)}
    for other in (changed, {"x": data["x"][:-1]}, {"x": np.append(data["x"], np.nan)}):
        terms = {"budget": tacit.Budget(20, 1e-3), "ledger": place}
        lease = tacit.Wall(other, SCHEMA, **terms).prepay(PLAN, name="loop")
        assert asked(lease, [0.1]) == first
        with pytest.raises(tacit.errors.LedgerError, match="The data have changed"):
            lease.release(question(0.2))
        with pytest.raises(tacit.errors.LedgerError, match="The data have changed"):
            lease.release(question(0.2))
    shuffled = {"x": np.random.default_rng(1).permutation(data["x"])}
    again = tacit.Wall(shuffled, SCHEMA, **terms).prepay(PLAN, name="loop")
    assert asked(again, [0.1]) == first
    assert asked(again, [0.2, 0.3])
    assert kinds(place) == ["created", "charge", "opened"]


def test_another_question_is_refused(place):
    asked(wall(place).prepay(PLAN, name="loop"))
    again = wall(place).prepay(PLAN, name="loop")
    again.release(question(0.1))
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        again.release(question(0.25))
    assert asked(again, [0.2])  # the step was not used up
    other = tacit.queries.Plan(
        tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6
    )
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        wall(place).prepay(other, name="loop")
    with pytest.raises(tacit.errors.QueryError, match="name"):
        wall(place).prepay(PLAN, name=" ")


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


def test_two_at_once_get_the_same_answers(place):
    """Whichever stores a step first decides what both hand out."""
    slow, fast = (wall(place).prepay(PLAN, name="loop") for _ in range(2))
    began = asked(slow, [0.1])
    stored = asked(fast)
    assert began + asked(slow, [0.2, 0.3]) == stored
    assert kinds(place).count("charge") == 1


def test_a_step_that_another_has_answered_meanwhile_is_theirs(place, monkeypatch):
    first, second = wall(place), wall(place)
    lease = first.prepay(PLAN, name="loop")
    store, put = first._leases._kept, first._leases._kept.put
    answers = []

    def late(*given):
        answers.extend(asked(second.prepay(PLAN, name="loop"), [0.1]))
        return put(*given)

    monkeypatch.setattr(store, "put", late)
    release = lease.release(question(0.1))
    assert [float(release.value[0])] == answers
    assert "first released 20" in str(release.certificate)


def test_threads_take_one_step_at_a_time(place):
    """Else one would answer a step with the noise of the next."""
    plan = tacit.queries.Plan(
        tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=1000.0)),
        tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=3.0)),
        delta=1e-6,
    )
    for i in range(4):
        lease = wall(place).prepay(plan, name=f"loop {i}")
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
    assert stat.S_IMODE((path.parent / "l.ledger.answers").stat().st_mode) == 0o600
    (path.parent / "l.ledger.answers").unlink()
    with pytest.raises(tacit.errors.LedgerError, match="unreadable or not a file of answers"):
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


@pytest.mark.parametrize("case", ["name too long", "other table", "locked", "not writable"])
def test_answers_that_cannot_be_stored_are_refused_before_the_charge(tmp_path, case, monkeypatch):
    path = tmp_path / ("l" * 245 if case == "name too long" else "l.ledger")
    answers = path.with_name(path.name + ".answers")
    held = wall(path)
    if case == "other table":
        held.prepay(PLAN, name="first")
        with sqlite3.connect(answers) as connection:
            connection.execute("CREATE TABLE more (x)")
    if case in ("locked", "not writable"):
        held.prepay(PLAN, name="first")
        monkeypatch.setattr(store, "_WAIT_SECONDS", 0.1)
    connection = sqlite3.connect(answers if case == "locked" else ":memory:")
    connection.execute("BEGIN EXCLUSIVE")
    if case == "not writable":
        if os.getuid() == 0:
            pytest.skip("root may write anywhere")
        answers.chmod(0o400)
    left = held.remaining
    with pytest.raises(tacit.errors.LedgerError, match="Nothing was charged"):
        held.prepay(PLAN, name="loop")
    assert held.remaining == left
    connection.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE facts SET text = replace(text, '\"n\": 100', '\"n\": 101')",
        "UPDATE answers SET integers = NULL",
        "UPDATE answers SET integers = 'text'",
    ],
)
def test_changed_answers_are_refused(path, change):
    asked(wall(path).prepay(PLAN, name="loop"))
    with sqlite3.connect(path.parent / "l.ledger.answers") as file:
        file.execute(change)
    with pytest.raises(tacit.errors.LedgerError, match="were changed"):
        asked(wall(path).prepay(PLAN, name="loop"))


def test_an_answer_that_cannot_be_stored_is_not_handed_out(path):
    home = wall(path)
    lease = home.prepay(PLAN, name="loop")
    asked(lease, [0.1])
    answers = path.parent / "l.ledger.answers"
    kept = answers.read_bytes()
    answers.write_bytes(b"not a database" * 100)
    with pytest.raises(tacit.errors.LedgerError, match="unreadable or not a file of answers"):
        asked(lease, [0.2])
    answers.write_bytes(kept)
    assert len(asked(lease, [0.2, 0.3])) == 2


def test_a_crash_between_charge_and_opening_costs_nothing_more(place, monkeypatch):
    home = wall(place)
    monkeypatch.setattr(home._ledger, "open_lease", lambda name, begun: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        home.prepay(PLAN, name="loop")
    left = home.remaining
    assert len(asked(wall(place).prepay(PLAN, name="loop"))) == 3
    assert wall(place).remaining == left


# Old answers that give way to a state

LONG = tacit.queries.Plan(tacit.queries.Steps(6, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6)
PLACES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
STATE = {"sums": np.array([0.1, np.pi]), "step": 4}


def shortened(path):
    """A lease of which steps 1 to 3 gave way to a state after step 4."""
    lease = wall(path).prepay(LONG, name="loop")
    answers = asked(lease, PLACES[:4])
    lease.keep_state(STATE, since=1)
    return lease, answers


@pytest.mark.parametrize("ledger", ["file", ":memory:"])
def test_a_state_is_told_in_place_of_old_answers(path, ledger):
    home = wall(path if ledger == "file" else ledger)
    lease = home.prepay(LONG, name="loop")
    answers = asked(lease, PLACES[:4])
    lease.keep_state(STATE, since=1)
    answers += asked(lease, PLACES[4:])  # who stored it goes on
    again = (wall(path) if ledger == "file" else home).prepay(LONG, name="loop")
    assert asked(again, PLACES[:1]) == answers[:1]
    with pytest.raises(tacit.errors.LedgerError, match="different question"):
        asked(again, [0.25])
    with pytest.raises(ReplacedError, match="state after step 4") as caught:
        asked(again, [0.2])
    assert caught.value.facts["step"] == 4
    np.testing.assert_array_equal(caught.value.facts["sums"], STATE["sums"])
    assert again.steps_left == 2
    assert asked(again, PLACES[4:]) == answers[4:]


def test_what_gave_way_is_gone_and_never_answered_anew(path):
    _, answers = shortened(path)
    with sqlite3.connect(path.parent / "l.ledger.answers") as file:
        rows = file.execute(
            "SELECT step, facts, integers FROM answers WHERE lease NOT LIKE '% %' ORDER BY step"
        ).fetchall()
        texts = file.execute("SELECT count(*) FROM facts").fetchone()
    assert [(step, facts is None, len(integers) > 0) for step, facts, integers in rows[2:]] == [
        (0, False, True), (1, True, False), (2, True, False), (3, True, False),
    ]  # fmt: skip
    assert texts == (2,)  # of answers, and of entries without any
    with sqlite3.connect(path.parent / "l.ledger.answers") as file:
        file.execute("DELETE FROM answers WHERE step = -2")  # no state either
    again = wall(path).prepay(LONG, name="loop")
    assert asked(again, PLACES[:1]) == answers[:1]
    for _ in range(2):
        with pytest.raises(tacit.errors.LedgerError, match="incomplete"):
            asked(again, [0.2])


def test_a_run_that_is_behind_is_told_the_state_too_and_keeps_none_of_its_own(place):
    behind = wall(place).prepay(LONG, name="loop")
    asked(behind, PLACES[:2])
    ahead, _ = shortened(place)
    behind.keep_state({"step": 2}, since=1)  # too late
    with pytest.raises(ReplacedError) as caught:
        asked(behind, [0.3])
    assert caught.value.facts["step"] == 4
    assert asked(behind, PLACES[4:]) == asked(ahead, PLACES[4:])


def test_a_changed_state_is_refused(path):
    shortened(path)
    with sqlite3.connect(path.parent / "l.ledger.answers") as file:
        file.execute("UPDATE answers SET integers = x'00' WHERE step = -2")
    again = wall(path).prepay(LONG, name="loop")
    asked(again, PLACES[:1])
    with pytest.raises(tacit.errors.LedgerError, match="were changed"):
        asked(again, [0.2])


@pytest.mark.parametrize(("facts", "since"), [({"array": 1}, 0), ({}, -2), ({}, 3)])
def test_a_state_that_cannot_stand_for_answers_replaces_none(place, facts, since):
    lease = wall(place).prepay(PLAN, name="loop")
    answers = asked(lease, [0.1, 0.2])
    with pytest.raises(tacit.errors.TacitError):
        lease.keep_state(facts, since=since)
    assert asked(wall(place).prepay(PLAN, name="loop"), [0.1, 0.2]) == answers


def test_facts_that_steps_share_are_stored_once(path):
    asked(wall(path).prepay(LONG, name="loop"), PLACES)
    with sqlite3.connect(path.parent / "l.ledger.answers") as file:
        assert file.execute("SELECT count(*) FROM facts").fetchone() == (2,)


def test_a_long_run_of_large_answers_takes_the_disk_of_a_few(tmp_path):
    """Of 60 steps no more than 20 are kept, and a state; a replay ends at the same posterior."""
    words = [f"w{i}" for i in range(400)]
    schema = tacit.Schema(tacit.Tokens("words", words, max_length=50), neighbours="replace_one")
    counts = csr_matrix(np.random.default_rng(0).poisson(0.1, size=(50, 400)))

    def fit(steps, name):
        how = tacit.VIPS(1, 1e-6, steps=steps, sampling=tacit.subsampling.Poisson(0.5))
        ledger = tmp_path / name
        home = tacit.Wall(counts, schema, budget=tacit.Budget(3, 1e-5), ledger=ledger)
        topics = tacit.fit(tacit.LDA(20), home, how, name="topics", progress=False).topics
        return topics, (tmp_path / f"{name}.answers").stat().st_size

    _, few = fit(20, "few")
    topics, many = fit(60, "many")
    assert many < 1.5 * few
    np.testing.assert_array_equal(fit(60, "many")[0], topics)
    home = tacit.Wall(counts, schema, budget=tacit.Budget(3, 1e-5), ledger=tmp_path / "many")
    other = tacit.VIPS(1, 1e-6, steps=60, sampling=tacit.subsampling.Poisson(0.5), kappa=0.9)
    with pytest.raises(
        tacit.errors.ModelError, match="the method and the model that the name stands for"
    ):
        tacit.fit(tacit.LDA(20), home, other, name="topics", progress=False)


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
    "VIPS": tacit.VIPS(1, 1e-6, sampling=tacit.subsampling.Poisson(50 / 300), steps=64),
    "metropolis": tacit.methods.PrivateMetropolis(1, 1e-6, steps=60),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_killed_run_goes_on_at_no_further_cost_to_the_same_end(tmp_path, name):
    """Killed at random instants until it is done: as an uninterrupted replay of its answers."""
    path, out, rng = tmp_path / "l.ledger", tmp_path / "out.npy", random.Random(name)
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
            time.sleep(rng.uniform(0, 0.15))
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
        process.join()
    ended = np.load(out)
    charges = [e for e in tacit.Ledger(path).entries() if e["kind"] == "charge"]
    assert len(charges) == (3 if name == "SGLD" else 1)  # pilot queries, two blocks
    out.unlink()
    _fit(path, out, METHODS[name])  # nothing is asked: every answer is stored
    np.testing.assert_array_equal(np.load(out), ended)
    assert len([e for e in tacit.Ledger(path).entries() if e["kind"] == "charge"]) == len(charges)

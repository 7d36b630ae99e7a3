"""Leases under a name: what was given before is given again, and nothing else."""

import pickle

import numpy as np
import pytest

import tacit
from tacit.wall.steps.replay import ReplayedLease

SCHEMA = tacit.Schema(tacit.Real("x", 0, 1), neighbours="replace_one")
PLAN = tacit.Plan(tacit.Steps(3, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6)


def question(at):
    state = np.zeros(1), np.array([float(at)])
    return tacit.BoundedSum(tacit.Kernel("columns.values"), "x", size=1, clip=1, state=state)


def wall(path, n=100):
    data = {"x": np.linspace(0, 1, n)}
    return tacit.Wall(data, SCHEMA, budget=tacit.Budget(20, 1e-3), ledger=path)


def asked(lease, places=(0.1, 0.2, 0.3)):
    return [float(lease.release(question(at)).value[0]) for at in places]


def test_the_same_plan_and_questions_are_answered_again_for_nothing(tmp_path):
    path = tmp_path / "l.ledger"
    first = wall(path)
    answers = asked(first.prepay(PLAN, name="loop"))
    left = first.remaining
    second = wall(path, n=7)  # other data: they are not read
    again = second.prepay(PLAN, name="loop")
    assert isinstance(again, ReplayedLease)
    assert again.steps_left == 3
    assert "first released 20" in str(again.certificate)
    assert "first released" in str(again.release(question(0.1)).certificate)
    assert asked(second.prepay(PLAN, name="loop")) == answers
    assert asked(again, [0.2, 0.3]) == answers[1:]
    assert second.remaining == left
    assert again.certificate.epsilon == answers_certificate(first)
    with pytest.raises(tacit.LedgerError, match="replayed"):
        again.release(question(0.4))


def answers_certificate(some):
    return some.prepay(PLAN, name="loop").certificate.epsilon


def test_another_question_is_refused(tmp_path):
    path = tmp_path / "l.ledger"
    asked(wall(path).prepay(PLAN, name="loop"))
    again = wall(path).prepay(PLAN, name="loop")
    again.release(question(0.1))
    with pytest.raises(tacit.LedgerError, match="different question"):
        again.release(question(0.25))
    other = tacit.Plan(tacit.Steps(2, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6)
    with pytest.raises(tacit.LedgerError, match="different question"):
        wall(path).prepay(other, name="loop")
    with pytest.raises(tacit.QueryError, match="name"):
        wall(path).prepay(PLAN, name=" ")


def test_a_loop_that_was_interrupted_pays_again(tmp_path):
    path = tmp_path / "l.ledger"
    first = wall(path)
    lease = first.prepay(PLAN, name="loop")
    lease.release(question(0.1))
    left = first.remaining
    second = wall(path)
    answers = asked(second.prepay(PLAN, name="loop"))
    assert second.remaining.epsilon < left.epsilon
    assert asked(wall(path).prepay(PLAN, name="loop")) == answers
    with pytest.raises(TypeError, match="copied"):
        pickle.dumps(lease)


def test_answers_that_cannot_be_stored_are_charged_again(tmp_path, monkeypatch):
    home = wall(tmp_path / "l.ledger")

    def fail(*_):
        raise tacit.LedgerError("The disk is full.")

    lease = home.prepay(PLAN, name="loop")
    asked(lease, [0.1, 0.2])
    monkeypatch.setattr(home._ledger, "keep", fail)
    with pytest.raises(tacit.LedgerError, match=r"full\. .*budget is spent.*charged again"):
        asked(lease, [0.3])
    left = home.remaining
    home.prepay(PLAN, name="loop")
    assert home.remaining != left


def test_two_leases_at_once_pay_twice_and_the_first_to_end_is_stored(tmp_path):
    """Answers of each are out before they are stored: one charge must not pay for both."""
    path = tmp_path / "l.ledger"
    home = wall(path)
    slow, fast = (home.prepay(PLAN, name="loop") for _ in range(2))
    began = asked(slow, [0.1])
    stored = asked(fast)
    ended = asked(slow, [0.2, 0.3])
    kinds = [entry["kind"] for entry in tacit.Ledger(path).entries()]
    assert kinds == ["created", "charge", "charge", "release"]
    assert began + ended != stored
    assert asked(wall(path).prepay(PLAN, name="loop")) == stored
    assert slow.certificate.ledger != fast.certificate.ledger
    tacit.Ledger(path).verify(slow.certificate.ledger)


def test_a_fit_is_replayed_and_a_broken_ledger_noticed(tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.random(300), "ill": rng.choice(["no", "yes"], 300)}
    schema = tacit.Schema(
        tacit.Real("x", 0, 1), tacit.Categorical("ill", ["no", "yes"]), neighbours="replace_one"
    )
    model = tacit.LogisticRegression("ill", ["x"])

    def fitted(seed=1):
        some = tacit.Wall(
            data, schema, budget=tacit.Budget(1, 1e-5), ledger=tmp_path / "fit.ledger"
        )
        posterior = tacit.fit(model, some, tacit.Budget(1, 1e-5), name="illness", seed=seed)
        return posterior, some.remaining

    first, left = fitted()
    again, still = fitted()
    assert left == still
    assert first.summary().equals(again.summary())
    assert not fitted(seed=2)[0].summary().equals(first.summary())  # draws are free

"""Leases under a name: what was given before is given again, and nothing else."""

import pickle

import numpy as np
import pytest

import tacit
from tacit.spec.maps import NumbaMap
from tacit.wall._replay import ReplayedLease

SCHEMA = tacit.Schema(tacit.Real("x", 0, 1), neighbours="replace_one")
PLAN = tacit.Plan(tacit.Steps(3, tacit.Gaussian(noise_multiplier=2.0)), delta=1e-6)


def scaled(row, state, out):
    out[0] = row[0] * state[0]


def question(at):
    map_ = NumbaMap(scaled)
    return tacit.BoundedSum(map_, "x", size=1, clip=1, state=np.array([float(at)]))


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
    assert asked(again) == answers
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

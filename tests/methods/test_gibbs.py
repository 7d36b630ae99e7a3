"""Private Gibbs sampling with a model of the test's own: questions and order, its price."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import tacit
from tacit.methods import PrivateGibbs, suits
from tacit.methods.gibbs import transitions
from tacit.methods.method import Task
from tacit.methods.run import run
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.mechanisms import Exponential
from tests.conftest import without_note


@dataclass(frozen=True)
class Given:
    """What a posterior would be made of, and the release that it is certified by."""

    releases: tuple
    sweeps: tuple = ()

    def diagnosed(self):
        return self


class Hidden:
    """Two states over a small panel; its posteriors are what it was given."""

    def state_chain(self, *, truncation, sweeps):
        panel = Panel("region", "month", ("a",))
        return StateChain(panel, 2, 0.5, 2.0, truncation=truncation, sweeps=sweeps)

    def chain_posterior(self, sweeps):
        return Given((sweeps[-1].release,), tuple(sweeps))

    def posterior(self, release, **sampling):
        return Given((release,))


SCHEMA = tacit.Schema(
    tacit.Categorical("region", ["r0", "r1"]),
    tacit.Integer("month", 1, 3),
    tacit.Categorical("a", ["no", "yes"]),
    neighbours="replace_one",
)
DATA = {
    "region": ["r0", "r0", "r1", "r1", "r1"],
    "month": [1, 2, 1, 3, 3],
    "a": ["yes", "", "no", "no", "yes"],
}


class Recorder:
    """A wall that remembers what was asked."""

    def __init__(self, budget=(50, "1e-3")):
        self.wall = tacit.Wall(DATA, SCHEMA, budget=tacit.Budget(*budget), ledger=":memory:")
        self.asked = []

    schema = property(lambda self: self.wall.schema)
    remaining = property(lambda self: self.wall.remaining)

    def quote(self, query, mechanism):
        return self.wall.quote(query, mechanism)

    def prepay(self, plan, *, name=None):
        self.plan, self.lease = plan, self.wall.prepay(plan, name=name)
        return self

    def release(self, query, *rest, **options):
        answers = self.wall if rest else self.lease
        self.asked.append((query, answers.release(query, *rest, **options)))
        return self.asked[-1][1]


@pytest.mark.parametrize(("epsilon", "delta"), [(2, 0), (5, "1e-6"), (40, "1e-6")])
def test_all_sweeps_together_cost_what_was_asked(epsilon, delta):
    home = Recorder()
    method = tacit.methods.PrivateGibbs(epsilon, delta, truncation=0.2, sweeps=6)
    kept = run(method, Hidden(), home, seed=1).sweeps
    assert home.plan.count == 12
    spent = 50 - float(home.remaining.epsilon)
    assert 0.99 * epsilon < spent <= epsilon
    assert float(home.remaining.delta) == pytest.approx(1e-3 - float(delta))
    assert home.lease.steps_left == 0
    assert len(kept) == 3  # the second half
    assert suits(PrivateGibbs, Hidden())


def test_states_and_profiles_are_drawn_in_turn_given_each_other():
    home = Recorder()
    method = tacit.methods.PrivateGibbs(30, truncation=0.2, sweeps=4)
    kept = run(method, Hidden(), home, seed=1).sweeps
    queries = [query for query, _ in home.asked]
    assert [type(query) for query in queries] == [StateProfiles, StatePaths] * 4
    for i in range(0, 8, 2):
        (profiles, drawn), (paths, seen) = home.asked[i : i + 2]
        assert (profiles.prior, profiles.truncation, profiles.states) == (0.5, 0.2, 2)
        np.testing.assert_array_equal(paths.profiles[0], drawn.table("profile of a").value)
        assert paths.transition.shape == (2, 2)
        if i + 2 < 8:
            following = home.asked[i + 2][0].assignment
            np.testing.assert_array_equal(following.ravel(), seen.value)
    for sweep, (paths, seen) in zip(kept, home.asked[5::2]):
        assert sweep.release is seen
        np.testing.assert_array_equal(sweep.path.ravel(), seen.value)
        np.testing.assert_array_equal(sweep.transition, paths.transition)


def test_only_the_plans_epsilon_sets_the_temperature():
    home = Recorder()
    found = run(tacit.methods.PrivateGibbs(3, truncation=0.2, sweeps=3), Hidden(), home, seed=1)
    each = float(home.plan.steps[0].mechanism.epsilon)
    assert each == pytest.approx(0.5, rel=1e-4)
    span = 2 * np.log(0.9 / 0.1)
    for query, release in home.asked:
        if isinstance(query, StateProfiles):
            assert release.noise[0].scale == pytest.approx(span / each)
        else:
            assert 1 <= release.noise[0].scale <= span / each * (1 + 1e-9)
    # The certificate names the temperatures of what is kept: the last two sweeps of three.
    states = [r.noise[0].scale for q, r in home.asked[2:] if isinstance(q, StatePaths)]
    ends = f"from {min(states):.4g} to {max(states):.4g} for states"
    (named,) = [a for a in found.releases[0].certificate.assumptions if "tempered" in a]
    assert named.endswith(f"T = {span / each:.4g} for profiles, and {ends}")


def test_transitions_are_dirichlet_given_public_paths():
    """Means of 4,000 draws, five standard errors: 1e-6."""
    path = np.array([[0, 0, 1], [0, 1, 1], [1, 1, 1]])
    rng = np.random.default_rng(2)
    drawn = [transitions(path, 2, 2.0, rng) for _ in range(4000)]
    start = np.array([s for s, _ in drawn])
    move = np.array([m for _, m in drawn])
    np.testing.assert_allclose(start.sum(axis=1), 1)
    for values, (a, b) in (
        (start[:, 0], (4, 3)),
        (move[:, 0, 0], (3, 4)),  # 0 to 0 once, 0 to 1 twice
        (move[:, 1, 1], (5, 2)),  # 1 to 1 three times
    ):
        sd = (a * b / ((a + b) ** 2 * (a + b + 1))) ** 0.5
        assert values.mean() == pytest.approx(a / (a + b), abs=5 * sd / 4000**0.5)


def test_the_whole_chain_behind_the_wall_is_one_question():
    method = tacit.methods.PrivateGibbs(1, "1e-5", truncation=0.2, sweeps=7, assume_converged=True)
    task = Task(Hidden(), SCHEMA)
    query = method.ask(method.start(task))
    ((once,), _) = vars(method.plan(task)).values()
    mechanism = once.mechanism
    assert query == Hidden().state_chain(truncation=0.2, sweeps=7)
    assert mechanism == Exponential(1, "1e-5")
    home = Recorder()
    (release,) = run(method, Hidden(), home, name="chain", seed=1).releases
    again = home.wall.release(query, mechanism, name="chain")  # replayed for nothing
    temperature = 2 * np.log(0.9 / 0.1)
    *stated, target = release.certificate.assumptions
    assert target.endswith(f"likelihood^(1/T), T = {temperature:.4g}")
    certificate = replace(release.certificate, assumptions=tuple(stated))
    assert without_note(again) == replace(release, certificate=certificate)
    assert home.remaining.epsilon == 49
    assert "total variation" in " ".join(release.certificate.assumptions)
    assert tacit.methods.PrivateGibbs(1, truncation=0.2, assume_converged=True).sweeps == 200


@pytest.mark.parametrize("option", [{"draws": 9}, {"chains": 2}])
def test_refusals_cost_nothing(option):
    home = Recorder()
    with pytest.raises(tacit.errors.ModelError):
        run(tacit.methods.PrivateGibbs(1, truncation=0.2, sweeps=2), Hidden(), home, **option)
    assert home.remaining.epsilon == 50


def test_what_cannot_be_drawn_is_refused_before_any_charge():
    home = Recorder()
    for truncation in (None, 0, 1.0, 1.5e-4):  # the last is too small for two levels
        method = tacit.methods.PrivateGibbs(1, truncation=truncation, sweeps=2)
        with pytest.raises(tacit.errors.QueryError, match="truncation"):
            run(method, Hidden(), home)
    assert home.remaining.epsilon == 50
    with pytest.raises(tacit.errors.ModelError):
        tacit.methods.PrivateGibbs(1, truncation=0.2, sweeps=0)

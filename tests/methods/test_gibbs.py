"""Private Gibbs sampling with a model of the test's own: questions and order, its price."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import tacit
from tacit.methods import PrivateGibbs, suits
from tacit.methods.method import Task
from tacit.methods.run import run
from tacit.models.hmm_gibbs import StateBlocks, sweep_of, transitions
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.mechanisms import Exponential
from tests.conftest import without_note


@dataclass(frozen=True)
class Given:
    """What a posterior would be made of, and the release that it is certified by."""

    releases: tuple
    sweeps: tuple = ()


class Hidden:
    """Two states over a small panel; its posteriors are what it was given."""

    def state_chain(self, *, truncation, sweeps):
        panel = Panel("region", "month", ("a",))
        return StateChain(panel, 2, 0.5, 2.0, truncation=truncation, sweeps=sweeps)

    def gibbs(self, schema, *, truncation):
        return StateBlocks(self.state_chain(truncation=truncation, sweeps=1), schema)

    def gibbs_posterior(self, release, kept):
        return Given((release,), tuple(sweep_of(release, values, ("a",)) for values in kept))

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
    least, most = f"{min(states):.4g}", f"{max(states):.4g}"
    ends = f"{least if least == most else f'from {least} to {most}'} for states"
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


# Latent classes and fields


CLASSES = tacit.NaiveBayesMixture(2, ["region", "a"])
FIELD = tacit.MarkovRandomField([("region", "a"), ("a", "month")])


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("scan", ["parallel", "systematic", "random"])
def test_a_scan_says_which_blocks_are_drawn_together(scan, delta):
    """One update a sweep in parallel, else one a block; all cost what was asked."""
    home = Recorder()
    how = PrivateGibbs(4, delta, truncation=0.2, sweeps=20, scan=scan)
    posterior = run(how, CLASSES, home, seed=1)
    names = ("(weights)", "region", "a")
    drawn = [query.drawn for query, _ in home.asked]
    match scan:
        case "parallel":
            assert drawn == [names] * 20
        case "systematic":
            assert drawn == [(name,) for name in names] * 20
        case "random":
            assert len(drawn) == 60
            assert 1 < len(set(drawn[:20])) <= 3
            assert drawn != [(name,) for name in names] * 20
    assert 3.96 < 50 - float(home.remaining.epsilon) <= 4
    for (before, release), (after, _) in zip(home.asked, home.asked[1:]):
        tables = dict(zip(before.columns, before.probabilities), **{"(weights)": before.weights})
        tables |= {block.name: release.table(block.name).value for block in release.blocks}
        np.testing.assert_array_equal(after.weights, tables["(weights)"])
        for name, table in zip(after.columns, after.probabilities):
            np.testing.assert_array_equal(table, tables[name])
    assert posterior.draws["weights"].shape == (1, 10, 2)
    assert posterior.noise == "tempered"
    assert {"ess", "r_hat"} <= set(posterior.summary().columns)
    assert posterior.warnings  # ten draws
    assert "T = " in str(posterior.certificate)
    assert "wider than the posterior" in str(posterior.certificate)


def test_block_after_block_is_cooler_where_there_is_a_delta():
    """Ranges of a joint draw add up, and those of its parts in quadrature."""
    scales = {}
    for scan, delta in product((None, "parallel", "systematic"), (0, "1e-6")):
        home = Recorder()
        run(PrivateGibbs(4, delta, truncation=0.2, sweeps=40, scan=scan), CLASSES, home, seed=1)
        scales[scan, delta] = home.asked[0][1].noise[0].scale
    assert scales["parallel", 0] == pytest.approx(scales["systematic", 0], rel=1e-3)
    ratio = scales["parallel", "1e-6"] / scales["systematic", "1e-6"]
    assert ratio == pytest.approx(3**0.5, rel=0.05)
    assert scales[None, 0] == scales["parallel", 0]
    assert scales[None, "1e-6"] == scales["systematic", "1e-6"]


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_a_log_potential_is_drawn_given_the_others(scan):
    home = Recorder()
    posterior = run(PrivateGibbs(4, truncation=0.2, sweeps=2, scan=scan), FIELD, home, seed=1)
    assert len(home.asked) == 2 * (4 + 6)
    heats = {release.noise[0].scale for _, release in home.asked}
    assert len(heats) == 1  # one target
    assert f"T = {heats.pop():.4g} for " in str(posterior.certificate)
    shapes = [posterior.draws[name].shape for name in posterior.draws]
    assert shapes == [(1, 1, 2, 2), (1, 1, 2, 3)] * 2
    np.testing.assert_allclose(posterior.draws["p(region,a)"].sum(), 1)


def test_the_scores_of_a_log_potential_are_log_likelihoods():
    """Against the sum over all rows there can be; and nothing is cut off."""
    blocks, rng = FIELD.gibbs(SCHEMA, truncation=0.1), np.random.default_rng(1)
    for at in range(len(blocks.names)):
        theta = rng.choice(blocks.grid, len(blocks.names))
        moved = np.tile(theta, (len(blocks.grid), 1))
        moved[:, at] = blocks.grid
        scores = moved @ np.eye(len(theta))[blocks.field.cell].sum(axis=1).T
        log = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        inside = (blocks.field.cell == at).any(axis=1)
        for rows, score in zip((inside, ~inside), blocks.scores(theta, at)):
            expected = log[:, rows] - log[:, rows].min(axis=0)
            np.testing.assert_allclose(expected, score[:, None] + 0 * expected, atol=1e-12)
            assert score.max() <= blocks.clip


def test_a_row_is_found_in_its_cell():
    """What the wall adds up for each block, of rows whose numbers begin at 1, and missing ones."""
    blocks = FIELD.gibbs(SCHEMA, truncation=0.1)
    public = tacit.Public(DATA, SCHEMA)
    values = blocks.start(np.random.default_rng(0))
    rows = {("a", "month"): [("yes", 1), ("no", 1), ("no", 3), ("yes", 3)]}
    rows["region", "a"] = [("r0", "yes"), ("r1", "no"), ("r1", "no"), ("r1", "yes")]
    for at, name in enumerate(blocks.names):
        query = blocks.query(values, (name,))
        found = public.release(query.scores, tacit.Exact()).value
        inside, outside = blocks.scores(values["theta"], at)
        clique = blocks.cells[at][0]
        each = [f"{','.join(clique)}[{','.join(map(str, row))}]" for row in rows[clique]]
        expected = each.count(name) * inside + (4 - each.count(name)) * outside
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_sampled_is_refused_before_anything_is_paid():
    wide = [tacit.Categorical(f"x{j}", range(9)) for j in range(5)]
    many = tacit.Schema(*wide, neighbours="replace_one")
    pairs = [(f"x{j}", f"x{j + 1}") for j in range(4)]
    for held, model, options, words in (
        (SCHEMA, FIELD, {"scan": "parallel"}, "depend on one another"),
        (SCHEMA, Hidden(), {"scan": "parallel"}, "depend on one another"),
        (SCHEMA, CLASSES, {"assume_converged": True}, "with an HMM alone"),
        (SCHEMA, CLASSES, {"truncation": None}, "Expected truncation"),
        (SCHEMA, FIELD, {"truncation": 2}, "Expected truncation"),
        (many, tacit.MarkovRandomField(pairs), {}, "at most 20000 combinations"),
    ):
        method = PrivateGibbs(1, **{"truncation": 0.1, **options})
        with pytest.raises(tacit.TacitError, match=words):
            method.plan(Task(model, held))
    for options in ({"scan": "hogwild"}, {"scan": "random", "assume_converged": True}):
        with pytest.raises(tacit.errors.ModelError, match="scan"):
            PrivateGibbs(1, truncation=0.1, **options)


def test_no_block_is_refused_after_the_charge():
    """The classes' weights could be drawn with this truncation, and the second column could not."""
    many = tacit.Categorical("m", range(30))
    held = tacit.Schema(tacit.Categorical("x", ["a", "b"]), many, neighbours="replace_one")
    wall = tacit.Wall({"x": ["a"], "m": [3]}, held, budget=tacit.Budget(5, 0.1), ledger=":memory:")
    how = PrivateGibbs(1, "1e-6", truncation=0.002, sweeps=2)  # block after block
    with pytest.raises(tacit.errors.QueryError, match="Nothing was read or spent"):
        tacit.fit(tacit.NaiveBayesMixture(2, ["x", "m"]), wall, how)
    assert wall.remaining.epsilon == 5


def test_topics_are_drawn_and_a_run_under_a_name_is_replayed(tmp_path):
    """At temperature 1 two kinds of documents come apart; a second run asks for nothing."""
    words = tacit.Tokens("words", ["u", "v", "x", "y"], max_length=6)
    held = tacit.Schema(words, neighbours="replace_one")
    texts = csr_matrix([[3, 3, 0, 0]] * 60 + [[0, 0, 3, 3]] * 60)
    wall = tacit.Wall(texts, held, budget=tacit.Budget(10**5), ledger=tmp_path / "l.ledger")
    how, model = PrivateGibbs(10**4, truncation=0.1, sweeps=12), tacit.LDA(2, alpha=0.5, eta=1.0)
    with pytest.warns(tacit.errors.InferenceWarning):
        found = [tacit.fit(model, wall, how, name="topics", progress=False) for _ in range(2)]
    assert 0.99e4 < 10**5 - float(wall.remaining.epsilon) <= 10**4
    first, again = found
    np.testing.assert_array_equal(first.topics, again.topics)
    shares = first.topics[:, :2].sum(axis=1)
    assert sorted(shares.round()) == [0, 1]
    assert "topics of words are assigned behind the wall" in str(first.certificate)
    assert first.perplexity(texts) < 2.5

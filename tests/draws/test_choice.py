"""Choices by the exponential mechanism: their law, what one unit can change, what is refused.

Statistical tests have a false-alarm rate of 1e-6; the bounded range is computed, not sampled.
"""

from decimal import Decimal
from itertools import combinations_with_replacement

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

import tacit
from tacit.accounting.calibrate import grid_units
from tacit.accounting.draws import choice_range
from tacit.draws.choice import resolve_choice
from tacit.public import seeded_entropy
from tacit.sources.data import open_data
from tacit.wall.answers import calibrated, read
from tacit.wall.statistics.statistic import Statistic
from tests.conftest import without_note

ALARM = 1e-6
CLIP = 1.5


# How much a row of each level speaks for each option: once beyond the clip.
TABLE = np.array([[0.0, 1.5, 0.4], [9.0, 0.0, 0.0], [0.7, 0.3, np.pi / 3]])
LEVELS = ["a", "b", "c"]


def schema(neighbours="replace_one", rows=None):
    unit = None if rows is None else "who"
    column = tacit.Categorical("x", LEVELS)
    return tacit.Schema(column, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


def choice(weights=None, table=TABLE, clip=CLIP, **options):
    votes = np.ascontiguousarray(table.T), np.array([0])
    given = {"size": table.shape[1], "clip": clip, "geometry": "box", "state": votes} | options
    return tacit.queries.Choice(
        tacit.queries.BoundedSum(tacit.queries.Kernel("table.scores"), "x", **given), weights
    )


DATA = {"x": ["a", "b", "c", "", "c"]}


def wall(neighbours="replace_one", data=DATA, budget=(100, 0.1)):
    held = schema(neighbours)
    return tacit.Wall(data, held, budget=tacit.Budget(*budget), ledger=":memory:")


def log_law(resolved, steps, temperature):
    """What the options' log-probabilities should be, from the wall's integers."""
    grid = resolved.scores.exact()[0].grid
    log = np.asarray(steps) * grid / temperature + np.array(resolved.query.log_weights)
    return log - logsumexp(log)


def fits(chosen, log):
    """The p-value of a chi-square test."""
    expected = np.exp(log) * len(chosen)
    assert expected.min() > 5
    seen = np.bincount(chosen, minlength=len(log))
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(log) - 1)


# Its law


@pytest.mark.parametrize("weights", [None, (0.0, 1.0, -1.0)])
def test_options_are_drawn_by_score_over_temperature_plus_weight(weights):
    query = choice(weights)
    resolved = resolve_choice(query, schema())
    statistic = read(open_data(DATA, schema()), resolved, ())
    calibration = calibrated(resolved, tacit.queries.Exponential(1.5))
    noise = calibration.noise
    assert noise[0].scale == pytest.approx(2 * CLIP / 1.5)
    words = seeded_entropy("8")
    chosen = [int(resolved.sample(statistic, noise, words)[0]) for _ in range(4000)]
    # by hand: a + b + 2 c, b's nine cut at the clip, the missing row nothing
    scores = np.array([1.5 + 2 * 0.7, 1.5 + 2 * 0.3, 0.4 + 2 * np.pi / 3])
    log = scores / noise[0].scale + (0 if weights is None else np.array(weights))
    assert fits(chosen, log - logsumexp(log)) > ALARM
    # the same at half the temperature does not fit
    log = 2 * scores / noise[0].scale + (0 if weights is None else np.array(weights))
    assert fits(chosen, log - logsumexp(log)) < ALARM


def test_exact_is_temperature_one_and_public_alone():
    release = tacit.Public(DATA, schema(), seed=1).release(choice(), tacit.Exact())
    assert (release.noise[0].scale, release.blocks[0].shape) == (1.0, ())
    with pytest.raises(tacit.errors.BudgetError, match="Public"):
        wall().release(choice(), tacit.Exact())


# What one unit can change, exactly


def neighbours_of(units, kinds, relation):
    """All data sets that differ from this one, a sorted tuple of units, by one unit."""
    out = set()
    for i in range(len(units)):
        rest = units[:i] + units[i + 1 :]
        if relation == "add_remove":
            out.add(rest)
        else:
            out |= {tuple(sorted((*rest, kind))) for kind in kinds}
    return out


def table_of(units):
    """Units given as strings of levels, '-' a missing value, side by side in one table."""
    rows = [(i, level) for i, unit in enumerate(units) for level in unit]
    return {"x": ["" if v == "-" else v for _, v in rows], "who": [i for i, _ in rows]}


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [None, 2])
def test_log_probabilities_move_within_epsilon(relation, rows):
    """All data sets of up to four units, one or two rows each, some without a value."""
    kinds = ["a", "b", "-"] if rows is None else ["a", "b", "ab", "a-", "bb"]
    most = 4 if rows is None else 2
    held = schema(relation, rows)
    # The second option is far behind: whoever speaks for it moves its probability most.
    resolved = resolve_choice(choice((0.0, -9.0), TABLE[:, :2]), held)
    calibration = calibrated(resolved, tacit.queries.Exponential(1))
    (law,) = calibration.noise
    epsilon = float(calibration.cost.epsilon)
    logs = {}
    for n in range(most + 1):
        for units in combinations_with_replacement(sorted(kinds), n):
            statistic = read(open_data(table_of(units), held), resolved, ())
            assert statistic.integers.dtype == np.int64
            logs[units] = log_law(resolved, statistic.integers, law.scale)
    worst = 0.0
    for units, log in logs.items():
        for other in neighbours_of(units, kinds, relation):
            moved = log - logs[other]
            assert moved.max() - moved.min() <= epsilon * (1 + 1e-9)
            assert np.abs(moved).max() <= epsilon * (1 + 1e-9)
            worst = max(worst, np.abs(moved).max())
    assert worst > 0.95 * epsilon


def test_the_range_counts_units_not_rows_or_options():
    for options in (2, 50):
        query = choice(table=np.zeros((3, options)))
        for rows in (None, 5):
            for relation, factor in (("add_remove", 1), ("replace_one", 2)):
                resolved = resolve_choice(query, schema(relation, rows))
                assert resolved.span == pytest.approx(factor * CLIP, rel=1e-9)
                assert resolved.span >= factor * CLIP
                assert resolved.span == choice_range(query.scores.bounds[0], resolved.schema)


def test_the_charge_is_epsilon_or_what_temperature_one_costs():
    home = wall(budget=(10, 0))
    release = home.release(choice(), tacit.queries.Exponential(1))
    assert release.certificate.epsilon == 1
    assert release.n == 5
    assert wall("add_remove").release(choice(), tacit.queries.Exponential(1)).n is None
    (event,) = release.certificate.events
    assert event["range"] == pytest.approx(3)
    assert home.remaining.epsilon == 9
    capped = home.quote(choice(), tacit.queries.Exponential(8))
    assert capped.noise[0].scale == 1
    assert 3 <= float(capped.cost.epsilon) < 3.0001
    assert float(capped.cost.epsilon) >= resolve_choice(choice(), schema()).span


# Extremes


def pick(steps, weights, seed=0, temperature=1.0):
    query = choice(weights, np.zeros((3, len(weights))))
    resolved = resolve_choice(query, schema())
    words = seeded_entropy(str(seed))
    noise = resolved.at_temperature(temperature)
    return int(resolved.sample(Statistic(np.array(steps), 1), noise, words)[0])


def test_scores_that_are_far_apart_or_close_raise_nothing():
    grid = resolve_choice(choice(), schema()).scores.exact()[0].grid
    far = round(1e6 / grid)
    for best in range(3):
        steps = np.where(np.arange(3) == best, far, 0)
        for seed in range(5):
            assert pick(steps, (0.0,) * 3, seed) == best
            assert pick(-10 * np.where(np.arange(3) == best, 0, far), (0.0,) * 3, seed) == best
            weights = tuple(np.where(np.arange(3) == best, 1e6, -1e6))
            assert pick([0, 0, 0], weights, seed) == best
    assert pick([2**62, -(2**62), 0], (0.0,) * 3) == 0
    # hot enough that 1e6 is worth 1e-3: all three are drawn
    steps = [far, 0, 0]
    assert {pick(steps, (0.0,) * 3, seed, 1e9) for seed in range(60)} == {0, 1, 2}


def test_scores_that_are_a_billionth_apart_are_a_coin():
    grid = resolve_choice(choice(), schema()).scores.exact()[0].grid
    near = max(1, round(1e-9 / grid))
    chosen = [pick([near, 0], (0.0, 0.0), seed) for seed in range(400)]
    assert fits(chosen, np.log([0.5, 0.5])) > ALARM
    assert pick([0], (0.0,)) == 0  # one option is no choice


def test_many_options_take_no_more_than_their_number():
    """A single good one among ten thousand is proposed in the end, in one sitting."""
    table = np.zeros((3, 10_000))
    table[:, 7] = 1.0
    query = choice(np.where(np.arange(10_000) == 7, 1e3, 0.0), table)
    assert wall().release(query, tacit.queries.Exponential(1)).value[0] == 7


def test_no_data_make_it_fail():
    for data in ({"x": []}, {"x": [None] * 4}, {"x": ["?"] * 3}):
        for relation in ("add_remove", "replace_one"):
            release = wall(relation, data).release(choice(), tacit.queries.Exponential(1))
            assert release.value[0] in (0, 1, 2)

    def strange(row, state):
        odd = jnp.array([jnp.nan, jnp.inf, -1e30])
        return jnp.where(row[0] == 1, 0.5, odd)

    scores = tacit.queries.BoundedSum(strange, "x", size=3, clip=1, geometry="box")
    resolved = resolve_choice(tacit.queries.Choice(scores), schema())
    steps = read(open_data(DATA, schema()), resolved, ()).integers
    assert np.all(steps == grid_units(0.5, resolved.scores.exact()[0].grid))  # the row of b alone


# Refusals


@pytest.mark.parametrize(
    "make",
    [
        lambda: choice(geometry="nonnegative"),
        lambda: choice(geometry="free"),
        lambda: choice(geometry="simplex"),
        lambda: choice((0.0, 0.0)),
        lambda: choice((0.0,) * 4),
        lambda: choice((0.0, float("nan"), 0.0)),
        lambda: choice((0.0, float("inf"), 0.0)),
        lambda: choice((0.0, -float("inf"), 0.0)),
        lambda: choice((0.0, 2e6, 0.0)),
        lambda: tacit.queries.Choice("x"),
        lambda: tacit.queries.Choice(tacit.queries.Counts("x")),
        lambda: choice(size=10**5 + 1),
    ],
)
def test_senseless_choices_are_refused(make):
    with pytest.raises(tacit.errors.QueryError):
        make()


@pytest.mark.parametrize(
    "mechanism", [tacit.Laplace(1), tacit.Gaussian(1, 1e-6), tacit.Exact()], ids=str
)
def test_other_mechanisms_cost_nothing(mechanism):
    home = wall()
    with pytest.raises(tacit.errors.BudgetError):
        home.release(choice(), mechanism)
    assert home.remaining.epsilon == 100


def test_a_saved_choice_keeps_what_was_chosen_and_can_be_asked_again(tmp_path):
    home = wall()
    query = choice((0.0, 1.0, -1.0))
    release = home.release(query, tacit.queries.Exponential(1), name="which")
    assert without_note(home.release(query, tacit.queries.Exponential(1), name="which")) == release
    assert home.remaining.epsilon == 99
    for file in ("r.json", "r.npz"):
        release.save(tmp_path / file)
        loaded = tacit.Release.load(tmp_path / file)
        assert loaded == release
        assert loaded.query.log_weights == (0.0, 1.0, -1.0)
        again = home.release(loaded.query, tacit.queries.Exponential(1), name="which")
        assert without_note(again) == release
    assert home.remaining.epsilon == 99


def test_the_walls_choices_are_not_seeded():
    flat = choice(table=np.zeros((3, 3)))
    lease = wall().prepay(
        tacit.queries.Plan(tacit.queries.Steps(60, tacit.queries.Exponential(1)), delta=1e-6)
    )
    runs = [[int(lease.release(flat).value[0]) for _ in range(30)] for _ in range(2)]
    assert runs[0] != runs[1]  # alike with chance 3^-30
    first, again = (
        tacit.Public(DATA, schema(), seed=3).release(flat, tacit.queries.Exponential(1))
        for _ in range(2)
    )
    assert first == again


# In a lease


def test_a_lease_sets_the_temperature_by_its_plan():
    plan = tacit.queries.Plan(
        tacit.queries.Steps(2, tacit.queries.Exponential(0.5)),
        tacit.queries.Steps(1, tacit.queries.Exponential(2)),
        delta=0,
    )
    home = wall()
    lease = home.prepay(plan)
    assert home.remaining.epsilon == 97
    scales = [lease.release(choice()).noise[0].scale for _ in range(3)]
    assert scales == pytest.approx([6, 6, 1.5], rel=1e-9)
    wide = tacit.queries.Plan(tacit.queries.Steps(3, tacit.queries.Exponential(1)), delta=0)
    lease = wall("add_remove").prepay(wide)
    scales = [lease.release(choice(clip=c)).noise[0].scale for c in (1.5, 15, 0.1)]
    assert scales == pytest.approx([1.5, 15, 1], rel=1e-9)


def test_choices_of_a_lease_have_the_same_law():
    lease = tacit.Public(DATA, schema(), seed=5).prepay(
        tacit.queries.Plan(tacit.queries.Steps(3000, tacit.queries.Exponential(1.5)), delta=1e-6)
    )
    weights = (0.0, 1.0, -1.0)
    chosen = [int(lease.release(choice(weights)).value[0]) for _ in range(3000)]
    resolved = resolve_choice(choice(weights), schema())
    steps = read(open_data(DATA, schema()), resolved, ()).integers
    assert fits(chosen, log_law(resolved, steps, 2.0)) > ALARM


def test_refused_steps_are_not_used_up():
    draws = wall().prepay(
        tacit.queries.Plan(tacit.queries.Steps(3, tacit.queries.Exponential(1)), delta=0)
    )
    noisy = wall().prepay(
        tacit.queries.Plan(
            tacit.queries.Steps(3, tacit.Gaussian(noise_multiplier=2.0)),
            tacit.queries.Steps(1, tacit.Laplace(1)),
            delta=1e-6,
        )
    )
    total = choice().scores
    for lease, query in ((draws, total), (draws, tacit.queries.Counts("x")), (noisy, choice())):
        left = lease.steps_left
        with pytest.raises(tacit.errors.QueryError):
            lease.release(query)
        assert lease.steps_left == left
    for _ in range(3):
        noisy.release(total)
    with pytest.raises(tacit.errors.QueryError, match="Exponential"):
        noisy.release(choice())
    assert noisy.steps_left == 1
    draws.release(choice())
    assert draws.steps_left == 2


def test_exponential_steps_take_everyone_and_no_delta_of_their_own():
    for make in (
        lambda: tacit.queries.Steps(
            1, tacit.queries.Exponential(1), tacit.subsampling.Poisson(0.5)
        ),
        lambda: tacit.queries.Steps(1, tacit.queries.Exponential(1, 1e-6)),
    ):
        with pytest.raises(tacit.errors.BudgetError):
            make()
    plan = tacit.queries.Plan(
        tacit.queries.Steps(400, tacit.queries.Exponential("0.1")), delta=Decimal("1e-5")
    )
    cost, by = tacit.accounting.plan_epsilon(plan, "replace_one")
    assert cost == pytest.approx(4.73, abs=0.01)
    assert "bounded range" in by

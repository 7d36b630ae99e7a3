"""Draws from a log-likelihood: their law, what one unit can change, what is refused.

Statistical tests have a false-alarm rate of 1e-6; the bounded range is computed, not sampled.
"""

from functools import lru_cache
from itertools import combinations_with_replacement

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, kstest

import tacit
from tacit import queries
from tacit.draws.density import resolve_density
from tacit.public import seeded_entropy
from tacit.sources.data import open_data
from tacit.spec.queries import query_from_dict
from tacit.spec.wire import digest, from_json, to_json
from tacit.wall.answers import calibrated, read
from tacit.wall.statistics.statistic import Statistic

ALARM = 1e-6


def far(row, theta):
    """L1 loss: how far a row is from each parameter."""
    return -4 * jnp.abs(row[0] - theta).sum()


def near(row, theta):
    """A smooth log-likelihood of two parameters, neither round nor in the middle."""
    return -((row[0] - theta[0]) ** 2) - 2 * (row[0] * theta[0] + 0.3 - theta[1]) ** 2


def near_gradients(row, theta):
    short = row[0] * theta[0] + 0.3 - theta[1]
    return jnp.stack([2 * (row[0] - theta[0]) - 4 * row[0] * short, 4 * short])


def wild(row, theta):
    """Beyond every bound, and not always a number."""
    x, at = row[0], theta[0]
    places = [x > 0.9, x > 0.4, x > 0, x > -0.5]
    odd = [
        jnp.where(at > 0, jnp.nan, 1e12),
        jnp.where(at > 0.5, jnp.inf, -jnp.inf),
        1e300 * at,
        -1e-300 / at,
    ]
    return jnp.select(places, odd, at * 1e3)


def wild_gradients(row, theta):
    return jnp.stack([wild(row, theta), jnp.nan * row[0]])


@lru_cache
def traced(function, parameters):
    """A program in double precision, so that what is compared is the law and not the rounding."""
    with jax.enable_x64(True):
        return queries.trace(function, 1, np.zeros(parameters))


def schema(neighbours="replace_one", rows=None):
    unit = None if rows is None else "who"
    column = tacit.Real("x", -1, 1)
    return tacit.Schema(column, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


THETA = np.array([-1.0, -0.3, 0.2, 1.0])
DATA = {"x": [-0.7, 0.1, 0.25, 0.3, 0.9, None]}


def among_points(of_row=far, width=2.0, weights=None, **options):
    points = queries.Points(THETA, weights)
    return queries.DensityDraw(traced(of_row, 1), "x", points, width=width, **options)


def chain(region, of_row=near, gradients=near_gradients, **options):
    given = {"width": 8.0, "lift": 6.0, "steps": 30} | options
    bounded = {"size": region.size, "clip": 20.0, "state": np.zeros(region.size)}
    steered = gradients and queries.BoundedSum(traced(gradients, region.size), "x", **bounded)
    return queries.DensityDraw(traced(of_row, region.size), "x", region, gradient=steered, **given)


def fits(seen, chances):
    """The p-value of a chi-square test of counts."""
    expected = chances / chances.sum() * seen.sum()
    assert expected.min() > 5
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1)


# The exact law among points


@pytest.mark.parametrize("weights", [None, (0.0, 1.0, -1.0, 0.5)])
@pytest.mark.parametrize(("relation", "both"), [("replace_one", 2), ("add_remove", 1)])
def test_points_are_drawn_by_the_cut_log_likelihood_over_temperature(weights, relation, both):
    query = among_points(weights=weights, draws=1000)
    resolved = resolve_density(query, schema(relation))
    release = tacit.Public(DATA, schema(relation), seed=3).release(query, tacit.Exact())
    assert release.noise[0].scale == 1
    single = resolve_density(among_points(weights=weights), schema(relation))
    temperature = calibrated(single, queries.Exponential(1.5)).noise[0].scale
    assert temperature == pytest.approx(both * 2.0 / 1.5)
    statistic = read(open_data(DATA, schema(relation)), resolved, ())
    words = seeded_entropy("8")
    noise = resolved.at_temperature(temperature)
    drawn = np.concatenate([resolved.sample(statistic, noise, words) for _ in range(6)])
    # by hand: each row against its own best point, at most 2 worse; the missing row nothing
    logs = -4 * np.abs(np.array(DATA["x"][:-1])[:, None] - THETA)
    scores = np.maximum(logs - logs.max(axis=1, keepdims=True) + 2, 0).sum(axis=0)
    for scale, fit in ((temperature, True), (temperature / 2, False)):
        chances = np.exp(scores / scale + (0 if weights is None else np.array(weights)))
        assert (fits(np.bincount(drawn, minlength=4), chances) > ALARM) == fit


def test_what_a_row_adds_to_all_points_alike_costs_nothing():
    """Log-likelihoods are known up to a constant: one of a million changes no whole number."""

    def moved(row, theta):
        return far(row, theta) + 1e6 * row[0]

    plain, other = (
        read(open_data(DATA, schema()), resolve_density(among_points(f), schema()), ()).integers
        for f in (far, moved)
    )
    grid = 2.0**-29
    np.testing.assert_allclose((plain - other) * grid, 0, atol=1e-8)


# What one unit can change, whatever the program returns


def neighbours_of(units, kinds, relation):
    out = set()
    for i in range(len(units)):
        rest = units[:i] + units[i + 1 :]
        if relation == "add_remove":
            out.add(rest)
        else:
            out |= {tuple(sorted((*rest, kind))) for kind in kinds}
    return out


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("of_row", [far, wild], ids=lambda f: f.__name__)
def test_log_probabilities_move_within_epsilon(relation, rows, of_row):
    public = schema(relation, rows)
    resolved = resolve_density(among_points(of_row), public)
    calibration = calibrated(resolved, queries.Exponential(1))
    temperature, grid = calibration.noise[0].scale, resolved.scores.exact()[0].grid
    values = (-1.0, -0.2, 0.3, 0.7, 1.0)
    kinds = [(i,) for i in range(5)] if rows is None else [(0, 0), (4, 4), (2, 3), (0,)]

    def log_law(units):
        cells = [(i, values[v]) for i, unit in enumerate(units) for v in unit]
        table = {"x": [float(v) for _, v in cells], "who": [i for i, _ in cells]}
        steps = read(open_data(table, public), resolved, ()).integers
        log = steps * grid / temperature
        return log - logsumexp(log)

    sets = list(combinations_with_replacement(sorted(kinds), 2))
    known = {units: log_law(units) for units in sets}
    worst = 0.0
    for units in sets:
        for other in neighbours_of(units, kinds, relation):
            if other not in known:
                known[other] = log_law(other)
            worst = max(worst, np.abs(known[units] - known[other]).max())
    assert 0.1 < worst <= 1 + 1e-9


@pytest.mark.parametrize("of_row", [near, wild], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [None, 3])
def test_a_units_say_for_a_place_lies_within_the_width(of_row, rows):
    """So the score's range is the width for each row, and twice that where a unit is replaced."""
    public = schema(rows=rows)
    query = chain(queries.Box((-1, -1), (1, 1)), of_row, None, width=1.5, lift=0.5)
    resolved = resolve_density(query, public)
    most = 1.5 * (rows or 1)
    assert resolved.span == pytest.approx(2 * most)
    for x in (-1.0, -0.2, 0.3, 0.7, 1.0):
        table = {"x": [x] * (rows or 1), "who": [1] * (rows or 1)}
        loaded = read(open_data(table, public), resolved, ())
        said = [
            resolved.score(np.array(place, float), loaded.data)
            for place in [(-1, -1), (0, 0), (0.7, 0.1), (1, 1), (1, -1)]
        ]
        assert min(said) >= 0
        assert max(said) <= most


def test_the_score_does_not_depend_on_the_order_of_rows():
    query = chain(queries.Ball(2, 1.0))
    resolved = resolve_density(query, schema())
    x = np.random.default_rng(0).uniform(-1, 1, 200)
    place = np.array([0.3, 0.4])
    scores = {
        resolved.score(place, read(open_data({"x": v}, schema()), resolved, ()).data)
        for v in (x, x[::-1], np.sort(x))
    }
    assert len(scores) == 1


# Chains


def log_scores(resolved, data, places):
    loaded = read(open_data(data, resolved.schema), resolved, ())
    return np.array([resolved.score(place, loaded.data) for place in places])


BOX, BALL = queries.Box((-1, -0.5), (1, 1.5)), queries.Ball(2, 1.0)


# Either region and either chain once; the other pairs of them are slow.
@pytest.mark.parametrize(
    ("region", "gradients"),
    [
        pytest.param(BOX, near_gradients, id="box-gradient"),
        pytest.param(BALL, None, id="ball-walk"),
        pytest.param(BOX, None, id="box-walk", marks=pytest.mark.slow),
        pytest.param(BALL, near_gradients, id="ball-gradient", marks=pytest.mark.slow),
    ],
)
@pytest.mark.no_cover
def test_a_chain_in_two_dimensions_has_the_law_of_a_fine_grid(region, gradients):
    """And not that of three times the temperature."""
    x = np.random.default_rng(5).uniform(-1, 1, 60) * 0.8 + 0.2
    draws, steps = 600, 100 if gradients is None else 12
    query = chain(region, gradients=gradients, steps=steps, draws=draws, prior=0.8)
    resolved = resolve_density(query, schema())
    loaded = read(open_data({"x": x}, schema()), resolved, ())
    words = seeded_entropy("11")
    drawn = resolved.sample(loaded, resolved.at_temperature(3.0), words)
    theta = region.parameters(drawn.reshape(draws, 2) * 2.0**-40)
    edges = [np.linspace(-1, 1, 61), np.linspace(-1, 1.5, 61)]
    middles = [(e[1:] + e[:-1]) / 2 for e in edges]
    grid = np.stack(np.meshgrid(*middles, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = (
        (np.linalg.norm(grid, axis=1) <= 1)
        if isinstance(region, queries.Ball)
        else (grid[:, 1] >= -0.5)
    )
    scores = log_scores(resolved, {"x": x}, grid[inside])
    for temperature, fit in ((3.0, True), (9.0, False)):
        log = np.full(len(grid), -np.inf)
        log[inside] = scores / temperature
        log -= 0.5 * (grid**2).sum(axis=1) / 0.64
        mass = np.exp(log - log.max()).reshape(60, 60)
        seen, chances = cells_of_equal_chance(mass, edges, theta)
        assert sum(seen) >= draws - 2
        assert (fits(np.array(seen), np.array(chances)) > ALARM) == fit


def cells_of_equal_chance(mass, edges, theta):
    """Draws and masses in sixths of the first parameter, thirds of the second in each."""
    below = np.cumsum(mass.sum(axis=1)) / mass.sum()
    columns = np.searchsorted(below, np.arange(1, 6) / 6) + 1
    seen, chances = [], []
    for span in np.split(np.arange(60), columns):
        part = np.cumsum(mass[span].sum(axis=0)) / mass[span].sum()
        cuts = np.searchsorted(part, [1 / 3, 2 / 3]) + 1
        for rows in np.split(np.arange(60), cuts):
            low, high = edges[0][[span[0], span[-1] + 1]], edges[1][[rows[0], rows[-1] + 1]]
            here = (theta[:, 0] >= low[0]) & (theta[:, 0] < low[1])
            here &= (theta[:, 1] >= high[0]) & (theta[:, 1] < high[1])
            seen.append(here.sum())
            chances.append(mass[np.ix_(span, rows)].sum())
    return seen, chances


def test_a_chain_in_one_dimension_has_the_law_of_a_fine_grid():
    """Against the edge of its interval, with a kink, by Kolmogorov and Smirnov."""
    region = queries.Box((-0.5,), (1.0,))
    x = np.array([0.8, 0.9, 0.95, 0.1, 0.6])
    query = chain(region, far, None, steps=80, draws=600)
    resolved = resolve_density(query, schema())
    loaded = read(open_data({"x": x}, schema()), resolved, ())
    words = seeded_entropy("12")
    drawn = resolved.sample(loaded, resolved.at_temperature(2.0), words) * 2.0**-40
    share = (np.arange(2000) + 0.5) / 2000
    scores = log_scores(resolved, {"x": x}, region.parameters(share[:, None]))
    for temperature, fit in ((2.0, True), (6.0, False)):
        below = np.cumsum(np.exp((scores - scores.max()) / temperature))
        law = lambda v: np.interp(v, share, below / below[-1])  # noqa: B023, E731
        assert (kstest(drawn, law).pvalue > ALARM) == fit


def logistic(row, theta):
    return -jnp.log1p(jnp.exp(-row[0] * theta[0]))


BINARY = tacit.Categorical("y", ["no", "yes"])
# For the kernel: one number, taken as it is, and no constant.
ENCODING = np.zeros(1), np.array([0]), np.array([0]), np.zeros(1), np.ones(1)


@pytest.mark.parametrize("road", ["program", "kernel"])
def test_a_logistic_regression_on_a_ball_costs_twice_its_radius_over_the_temperature(road):
    """Nothing is cut: the range of a row's log-likelihood is exactly the radius."""
    radius = 3.0
    lift = radius - np.log(2) + np.log1p(np.exp(-radius))
    query = chain(queries.Ball(1, radius), logistic, None, width=radius, lift=lift)
    if road == "kernel":
        query = queries.DensityDraw(
            queries.Kernel("logistic.log_likelihood"), ("x", "y"), queries.Ball(1, radius),
            width=radius, lift=lift, constants=ENCODING,
        )  # fmt: skip

    def both_columns(relation):
        return tacit.Schema(tacit.Real("x", -1, 1), BINARY, neighbours=relation)

    for relation, both in (("replace_one", 2), ("add_remove", 1)):
        resolved = resolve_density(query, both_columns(relation))
        assert calibrated(resolved, queries.Exponential(0.5)).noise[0].scale == pytest.approx(
            both * radius / 0.5
        )
    resolved = resolve_density(query, both_columns("replace_one"))
    places = np.linspace(-radius, radius, 7)[:, None]
    said = log_scores(resolved, {"x": [1.0], "y": ["yes"]}, places)
    np.testing.assert_allclose(
        said - said[0], np.log1p(np.exp(radius)) - np.log1p(np.exp(-places[:, 0])), atol=1e-7
    )


def test_a_kernel_and_a_program_draw_from_the_same_scores():
    """Among points too, and a row that a kernel is not given adds nothing."""
    described = tacit.Schema(tacit.Real("x", -1, 1), BINARY, neighbours="replace_one")
    data = {"x": [0.3, -0.9, 1.0, None, 0.5], "y": ["yes", "yes", "yes", "yes", ""]}
    points, options = queries.Points(THETA), {"width": 0.4}
    program = queries.DensityDraw(traced(logistic, 1), "x", points, **options)
    kernel = queries.DensityDraw(
        queries.Kernel("logistic.log_likelihood"),
        ("x", "y"),
        points,
        constants=ENCODING,
        **options,
    )
    found = []
    for query, some in ((program, {"x": data["x"][:4]}), (kernel, data)):
        held = schema() if query is program else described
        found.append(read(open_data(some, held), resolve_density(query, held), ()).integers)
    assert found[0].max() > 2**28
    np.testing.assert_allclose(*found, rtol=1e-7, atol=3)


# What the certificate says, and what is refused


def wall(data=DATA, neighbours="replace_one"):
    held = schema(neighbours)
    return tacit.Wall(data, held, budget=tacit.Budget(100, 0.1), ledger=":memory:")


def test_a_chain_says_what_it_assumes_and_points_assume_nothing():
    held = wall()
    exact = held.release(among_points(), queries.Exponential(1)).certificate
    assert not any("float" in text or "chain" in text for text in exact.assumptions)
    query = chain(queries.Ball(2, 1.0))
    for delta, near_it in ((0, "had converged"), (1e-4, "total variation of 2.69e-05")):
        said = " ".join(held.release(query, queries.Exponential(1, delta)).certificate.assumptions)
        assert near_it in said
        assert "after 30 steps" in said
        assert "no epsilon holds" in said
        assert "float draw" in said


def test_several_draws_cost_what_was_offered_and_a_delta_makes_them_cheaper():
    query = chain(queries.Ball(2, 1.0), draws=20)
    plain, with_delta = (
        calibrated(resolve_density(query, schema()), queries.Exponential(4, delta))
        for delta in (0, 1e-6)
    )
    assert with_delta.noise[0].scale < plain.noise[0].scale
    assert plain.noise[0].scale == pytest.approx(20 * 16 / 4)
    assert float(with_delta.cost.delta) == 1e-6
    assert "after 315 steps" in plain.assumptions[0]
    # half of delta is for the draws, half for the distance of the chain from its law
    assert f"{0.5e-6 / (1 + np.exp(4)):.3g}" in with_delta.assumptions[0]


@pytest.mark.parametrize("region", [queries.Points(THETA), queries.Box((-1, -1), (1, 1))])
def test_a_release_can_be_saved_and_read(region):
    query = among_points() if isinstance(region, queries.Points) else chain(region, prior=2.0)
    release = wall().release(query, queries.Exponential(1))
    again = tacit.Release.from_json(release.to_json())
    assert digest(again.query.to_dict()) == digest(query.to_dict())
    text = to_json(query.to_dict())
    assert digest(query_from_dict(from_json(text)).to_dict()) == digest(query.to_dict())
    value = release.table(release.blocks[0].name).value
    np.testing.assert_array_equal(again.query.region.parameters(value), region.parameters(value))
    asked = wall().release(again.query, queries.Exponential(1))
    assert asked.certificate.events == release.certificate.events


def test_draws_stay_within_their_region_whatever_the_program_does():
    data = {"x": np.linspace(-1, 1, 50)}
    for region in (queries.Box((-1, -1), (1, 1)), queries.Ball(2, 2.0)):
        for gradients in (None, wild_gradients):
            query = chain(region, wild, gradients, width=1.0, lift=0.5)
            release = wall(data).release(query, queries.Exponential(50))
            at = region.parameters(release.table("theta").value)[0]
            assert np.isfinite(at).all()
            assert np.abs(at).max() <= 2
            assert isinstance(region, queries.Box) or np.linalg.norm(at) <= 2


def test_a_lease_has_no_such_draws():
    plan = queries.Plan(queries.Steps(1, queries.Exponential(1)), delta=1e-6)
    with pytest.raises(tacit.errors.QueryError, match="in a lease"):
        wall().prepay(plan).release(among_points())


@pytest.mark.parametrize(
    "make",
    [
        lambda: queries.Points([]),
        lambda: queries.Points([[np.nan]]),
        lambda: queries.Points([1.0, 2.0], [0.0]),
        lambda: queries.Points([1.0, 2.0], [0.0, -np.inf]),
        lambda: queries.Box((0, 1), (1,)),
        lambda: queries.Box((1,), (0,)),
        lambda: queries.Box((0,), (np.inf,)),
        lambda: queries.Ball(0, 1.0),
        lambda: queries.Ball(2, np.inf),
        lambda: queries.Ball(2, True),
        lambda: among_points(width=0),
        lambda: among_points(width=np.nan),
        lambda: among_points(draws=0),
        lambda: among_points(prior=1.0),
        lambda: among_points(lift=3.0),
        lambda: chain(queries.Ball(2, 1.0), steps=0),
        lambda: chain(queries.Ball(2, 1.0), prior=-1.0),
        lambda: queries.DensityDraw(far, "x", queries.Ball(2, 1.0), width=1.0),
        lambda: queries.DensityDraw(traced(far, 2), "x", (0, 1), width=1.0),
        lambda: queries.DensityDraw(queries.Kernel(""), "x", queries.Ball(2, 1.0), width=1.0),
    ],
)
def test_draws_that_make_no_sense(make):
    with pytest.raises(tacit.errors.QueryError):
        make()


# Priors


def log_prior(theta, _):
    return -0.5 * (theta**2).sum()


def test_a_prior_is_a_program_too():
    """In single precision, as a program is traced unless JAX is told otherwise."""
    query = queries.DensityDraw(
        queries.trace(far, 1, np.zeros(2)), "x", queries.Ball(2, 1.0),
        width=8.0, prior=queries.trace(log_prior, 2, None), steps=20,
    )  # fmt: skip
    resolved = resolve_density(query, schema())
    value, gradient = resolved.log_prior(np.array([0.5, -1.0]))
    assert value == pytest.approx(-0.625)
    np.testing.assert_allclose(gradient, [-0.5, 1.0])
    loaded = read(open_data(DATA, schema()), resolved, ())
    assert isinstance(loaded, Statistic)
    assert resolved.sample(loaded, resolved.exact(), seeded_entropy("1")).shape == (2,)
    # single precision agrees with double
    at = np.array([0.5, -0.3])
    double = chain(queries.Ball(2, 1.0), far, None, lift=4.0)
    exact = resolve_density(double, schema()).score(at, loaded.data)
    assert resolved.score(at, loaded.data) == pytest.approx(exact, abs=1e-5)


def test_a_prior_cannot_call_back():
    """It is called where the chain is, which is secret."""
    heard = []

    def telling(theta, _):
        jax.debug.callback(heard.append, theta)
        return log_prior(theta, _)

    with pytest.raises(tacit.errors.QueryError, match="side effect"):
        queries.trace(telling, 2, None)
    assert not heard


@pytest.mark.parametrize(
    "make",
    [
        lambda: chain(queries.Ball(2, 1.0), prior=log_prior),
        lambda: chain(queries.Ball(2, 1.0), prior=queries.trace(log_prior, 3, None)),
        lambda: chain(queries.Ball(2, 1.0), prior=queries.trace(lambda t, _: t, 2, None)),
        lambda: chain(queries.Ball(2, 1.0), prior=queries.trace(lambda t, s: t @ s, 2, np.ones(2))),
        lambda: queries.DensityDraw(traced(near_gradients, 2), "x", BALL, width=1.0),
        lambda: queries.DensityDraw(
            queries.trace(lambda r, _: r[0], 1, None), "x", BALL, width=1.0
        ),
        lambda: queries.DensityDraw(queries.Kernel("columns.values"), "x", BALL, width=1.0),
    ],
)
def test_programs_of_another_form_are_refused_before_any_charge(make):
    home = wall()
    with pytest.raises(tacit.errors.QueryError):
        home.release(make(), queries.Exponential(1))
    assert home.remaining.epsilon == 100

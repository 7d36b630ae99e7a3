"""Draws through the wall: what is charged, what comes out. False-alarm rate of each test: 1e-6."""

from decimal import Decimal

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import ks_2samp, kstest

import tacit
from tacit.accounting.draws import draw_range
from tacit.draws.conjugate import rate_weights, resolve_draw, to_grid
from tacit.draws.draw import uniforms
from tacit.draws.mean_sd import mean_sd_weights
from tacit.methods.method import Task
from tacit.spec.draws import GRID
from tacit.wall.noise import os_entropy
from tests.conftest import without_note

LAW = tacit.queries.TruncatedDirichlet("x", (1, 1, 1), truncation=0.1)
DATA = {"x": ["a"] * 6 + ["b"] * 3 + ["", "other"]}


def schema(neighbours="replace_one", **options):
    column = tacit.Categorical("x", ["a", "b", "c"], default=options.pop("default", None))
    return tacit.Schema(column, neighbours=neighbours, **options)


def wall(budget=10, **options):
    described = schema(**options)
    return tacit.Wall(DATA, described, budget=tacit.Budget(budget, 0.1), ledger=":memory:")


def test_a_draw_is_on_the_grid_inside_the_truncation():
    release = wall(100).release(
        tacit.queries.ConjugateDraw(LAW, draws=500), tacit.queries.Exponential(50)
    )
    block, value, noise = release.table("p")
    assert block.shape == (500, 3)
    assert noise.family == "draw"
    assert noise.grid == GRID == 2.0**-40
    assert noise.variance is None
    assert np.all(value >= 0.1)
    assert np.all(release.integers.reshape(500, 3).sum(axis=1) == 2**40)
    assert release.n == 11


def test_the_charge_is_epsilon_or_less():
    for neighbours, factor in (("replace_one", 2), ("add_remove", 1)):
        span = factor * np.log(0.8 / 0.1)
        home = wall(neighbours=neighbours)
        release = home.release(tacit.queries.ConjugateDraw(LAW), tacit.queries.Exponential(1))
        assert release.noise[0].scale == pytest.approx(span, rel=1e-9)
        assert release.certificate.epsilon == 1
        assert "float draw" in " ".join(release.certificate.assumptions)
        capped = home.quote(tacit.queries.ConjugateDraw(LAW), tacit.queries.Exponential(9))
        assert capped.noise[0].scale == 1
        assert span <= float(capped.cost.epsilon) < span * (1 + 1e-5)
        assert home.remaining.epsilon == 9


def test_several_draws_share_the_budget():
    query = tacit.queries.ConjugateDraw(LAW, draws=20)
    home = wall()
    one = home.quote(tacit.queries.ConjugateDraw(LAW), tacit.queries.Exponential(1)).noise[0].scale
    plain = home.quote(query, tacit.queries.Exponential(1)).noise[0].scale
    composed = home.quote(query, tacit.queries.Exponential(1, 1e-6))
    assert plain == pytest.approx(20 * one)
    assert composed.noise[0].scale < 0.9 * plain
    assert composed.cost == tacit.Budget(1, 1e-6)
    assert composed.variance is None


@pytest.mark.parametrize(
    ("query", "mechanism"),
    [
        (tacit.queries.ConjugateDraw(LAW), tacit.Laplace(1)),
        (tacit.queries.ConjugateDraw(LAW), tacit.Gaussian(1, 1e-6)),
        (tacit.queries.ConjugateDraw(LAW), tacit.Exact()),
        (tacit.queries.Counts("x"), tacit.queries.Exponential(1)),
    ],
)
def test_wrong_pairs_cost_nothing(query, mechanism):
    home = wall()
    with pytest.raises(tacit.errors.BudgetError):
        home.release(query, mechanism)
    assert home.remaining.epsilon == 10


def test_a_prior_must_fit_the_levels():
    law = tacit.queries.TruncatedDirichlet("x", (1, 1), truncation=0.1)
    with pytest.raises(tacit.errors.QueryError, match="3 numbers"):
        wall().quote(tacit.queries.ConjugateDraw(law), tacit.queries.Exponential(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: tacit.queries.TruncatedDirichlet("x", (1, 1), 0.5),
        lambda: tacit.queries.TruncatedDirichlet("x", (1, 1), 0),
        lambda: tacit.queries.TruncatedDirichlet("x", (1, 1), None),
        lambda: tacit.queries.TruncatedDirichlet("x", (1, 1), float("nan")),
        lambda: tacit.queries.TruncatedDirichlet("x", (1,), 0.1),
        lambda: tacit.queries.TruncatedDirichlet("x", (1, 0), 0.1),
        lambda: tacit.queries.TruncatedDirichlet(3, (1, 1), 0.1),
        lambda: tacit.queries.ConjugateDraw("x"),
        lambda: tacit.queries.ConjugateDraw(LAW, draws=0),
        lambda: tacit.queries.ConjugateDraw(LAW, draws=True),
        lambda: tacit.queries.ConjugateDraw(LAW, temper_prior=1),
    ],
)
def test_senseless_draws_are_refused(make):
    with pytest.raises(tacit.errors.QueryError):
        make()


def test_missing_values_and_rows_beyond_the_bound_add_nothing():
    """At temperature 1 the draws are of the posterior of the counts (6, 3, 0)."""
    query = tacit.queries.ConjugateDraw(
        tacit.queries.TruncatedDirichlet(tacit.queries.Is("x", "b"), (2, 1), 0.01), 1000
    )
    public = tacit.Public(DATA, schema(), seed=4)
    drawn = public.release(query, tacit.Exact()).table("p").value[:, 1]
    low, high = betainc(4, 8, [0.01, 0.99])  # three b, six not, and the prior
    assert kstest(drawn, lambda v: (betainc(4, 8, v) - low) / (high - low)).pvalue > 1e-6
    many = {"x": ["a"] * 50, "who": [1] * 50}
    bounded = schema(unit="who", max_rows_per_unit=2)
    drawn = tacit.Public(many, bounded, seed=5).release(
        tacit.queries.ConjugateDraw(LAW, 1000), tacit.Exact()
    )
    assert drawn.table("p").value[:, 0].mean() < 0.65  # 50 rows would give more than .75
    assert draw_range(LAW, bounded) == pytest.approx(2 * draw_range(LAW, schema()), rel=1e-15)


def test_public_draws_can_be_seeded_and_the_walls_cannot():
    query = tacit.queries.ConjugateDraw(LAW, 5)
    one, again, other = (
        tacit.Public(DATA, schema(), seed=s).release(query, tacit.queries.Exponential(1))
        for s in (1, 1, 2)
    )
    assert one == again
    assert one != other
    home = wall()
    first, second = (home.release(query, tacit.queries.Exponential(1)) for _ in range(2))
    assert not np.array_equal(first.integers, second.integers)


def test_a_name_replays_and_a_file_keeps_the_draw(tmp_path):
    home, query = wall(), tacit.queries.ConjugateDraw(LAW, 2, temper_prior=True)
    release = home.release(query, tacit.queries.Exponential(1), name="draw")
    assert without_note(home.release(query, tacit.queries.Exponential(1), name="draw")) == release
    assert home.remaining.epsilon == 9
    for file in ("r.json", "r.npz"):
        release.save(tmp_path / file)
        loaded = tacit.Release.load(tmp_path / file)
        assert loaded == release
        assert loaded.query == query


@pytest.mark.parametrize("counts", [(0, 0), (10**6, 0), (10**9, 3), (1, 10**9)])
def test_no_data_make_it_fail_or_warn(counts):
    from tacit.testing import simulated_release

    column = tacit.Categorical("x", ["a", "b"], default="a")
    described = tacit.Schema(column, neighbours="replace_one")
    for prior in ((1e-6, 1e-6), (1e6, 0.5)):
        law = tacit.queries.TruncatedDirichlet("x", prior, truncation=0.05)
        for mechanism in (tacit.Exact(), tacit.queries.Exponential(1)):
            query = tacit.queries.ConjugateDraw(law, draws=20)
            release = simulated_release(described, query, mechanism, counts, sum(counts))
            assert np.all((release.value >= 0.05) & (release.value <= 0.95))


def test_the_grid_keeps_rows_inside():
    for levels, truncation in ((2, 0.4999995), (1000, 0.000999999), (3, 1 / 7)):
        rng = np.random.default_rng(levels)
        inside = rng.dirichlet(np.full(levels, 0.01), size=200)
        steps = to_grid(truncation + (1 - levels * truncation) * inside, truncation)
        assert np.all(steps.sum(axis=1) == 2**40)
        assert steps.min() >= truncation * 2**40


def test_uniforms_stay_inside_and_keep_their_bits():
    ones = uniforms(lambda n: np.full(n, 2**32 - 1, np.uint32), 3)
    zeros = uniforms(lambda n: np.zeros(n, np.uint32), 3)
    assert np.all(ones < 1)
    assert np.all(zeros > 0)
    drawn = uniforms(os_entropy, 50_000)
    assert kstest(drawn, "uniform").pvalue > 1e-6
    assert kstest(drawn * 2**40 % 1, "uniform").pvalue > 1e-6


def test_the_ledger_says_what_was_drawn():
    release = wall().release(
        tacit.queries.ConjugateDraw(LAW, 3), tacit.queries.Exponential(Decimal("0.5"))
    )
    (event,) = release.certificate.events
    assert event["noise"] == "draw"
    assert event["draws"] == 3
    assert event["range"] == pytest.approx(2 * np.log(8))
    assert event["query"]["law"]["truncation"] == 0.1
    assert release.certificate.accountant == "bounded range, pure epsilon"


# What an adversary tried


def binary(ones: int, n: int = 1000) -> dict[str, np.ndarray]:
    return {"x": np.array([1] * ones + [0] * (n - ones))}


def test_a_narrow_interval_says_nothing():
    """A share of the way is drawn, so that rounding around a large mean cannot show."""
    schema = tacit.Schema(tacit.Integer("x", 0, 1, default=0), neighbours="replace_one")
    law = tacit.queries.BoundedNormal("x", sd=1.3, prior=(0.0, 1.0), low=0.0, high=1e-4)
    query = tacit.queries.ConjugateDraw(law, draws=400)
    for seed, ones in enumerate((22, 23, 500)):
        public = tacit.Public(binary(ones), schema, seed=seed)
        share = public.release(query, tacit.queries.Exponential(1)).table("mean").value
        # a law that is flat to one part in a hundred: KS at 1e-6
        assert kstest(share, "uniform").pvalue > 1e-6
        assert len(np.unique(share)) == len(share)


@pytest.mark.parametrize(
    "law",
    [
        tacit.queries.BoundedNormal("x", 1.3, (0.0, 1.0), 0.0, 1e-20),
        tacit.queries.BoundedNormal("x", 1.3, (0.0, 1.0), 1e15, 1e15 + 1),
        tacit.queries.BoundedNormal("x", 1e-30, (0.0, 1.0), 0.0, 1.0),
        tacit.queries.BoundedNormal("x", 1.0, (0.0, 1e-30), 0.0, 1.0),
        tacit.queries.BoundedNormal("x", 1.0, (1e30, 1.0), 0.0, 1.0),
        tacit.queries.BoundedNormal("x", 1.0, (0.0, 1e-3), -50.0, 50.0),
    ],
)
def test_scales_far_from_the_columns_are_refused_before_any_charge(law):
    schema = tacit.Schema(tacit.Integer("x", 0, 1, default=0), neighbours="replace_one")
    wall = tacit.Wall(binary(3), schema, budget=tacit.Budget(1), ledger=":memory:")
    with pytest.raises(tacit.errors.QueryError):
        wall.release(tacit.queries.ConjugateDraw(law), tacit.queries.Exponential(0.5))
    assert wall.remaining.epsilon == 1


def test_collinear_features_do_not_raise():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 50)
    columns = [tacit.Real(name, -1, 1, default=0) for name in ("x", "z", "y")]
    schema = tacit.Schema(*columns, neighbours="replace_one")
    law = tacit.queries.BallRegression("y", ("x", "z"), sd=1e-4, scale=1.0, radius=1.0)
    query = tacit.queries.ConjugateDraw(law, temper_prior=True)
    for z in (x, np.append(x[:-1], -x[-1])):
        public = tacit.Public({"x": x, "z": z, "y": x}, schema, seed=1)
        coef = public.release(query, tacit.queries.Exponential(1, 1e-6)).table("coef").value
        assert np.sum(coef**2) <= 1


TABLES = tacit.queries.TruncatedTables((("x",), ("x", "y")), prior=0.5, truncation=0.05)


def network(neighbours="replace_one"):
    y = tacit.Categorical("y", ["no", "yes"])
    return tacit.Schema(tacit.Categorical("x", ["a", "b", "c"]), y, neighbours=neighbours)


def test_tables_of_a_network_are_drawn_together():
    """Each vector has the law of its own counts: at temperature 1 a truncated Beta or Dirichlet."""
    data = {"x": ["a"] * 6 + ["b"] * 3 + ["", "c"], "y": ["no"] * 4 + ["yes"] * 6 + [""]}
    query = tacit.queries.ConjugateDraw(TABLES, draws=1000)
    release = tacit.Public(data, network(), seed=3).release(query, tacit.Exact())
    assert [block.name for block in release.blocks] == ["x", "x & y"]
    assert [block.shape for block in release.blocks] == [(1000, 3), (1000, 3, 2)]
    marginal, given = (release.table(name).value for name in ("x", "x & y"))
    for drawn in (marginal, given):
        assert drawn.min() >= 0.05
        np.testing.assert_array_equal(drawn.sum(axis=-1), 1.0)
    # y in a: four no, two yes; in b: three yes; in c: its only row has no y
    for level, (no, yes) in enumerate(((4, 2), (0, 3), (0, 0))):
        a, b = 0.5 + yes, 0.5 + no
        low, high = betainc(a, b, [0.05, 0.95])
        law = lambda v: (betainc(a, b, v) - low) / (high - low)  # noqa: B023, E731
        assert kstest(given[:, level, 1], law).pvalue > 1e-6
    assert marginal[:, 0].mean() > marginal[:, 1].mean() > marginal[:, 2].mean()


@pytest.mark.parametrize(("neighbours", "factor"), [("replace_one", 2), ("add_remove", 1)])
def test_all_tables_share_one_temperature_and_one_price(neighbours, factor):
    data = {"x": ["a"], "y": ["no"]}
    described = network(neighbours)
    home = tacit.Wall(data, described, budget=tacit.Budget(10), ledger=":memory:")
    query = tacit.queries.ConjugateDraw(TABLES)
    release = home.release(query, tacit.queries.Exponential(2))
    span = factor * (np.log(0.9 / 0.05) + np.log(0.95 / 0.05))
    assert [law.scale for law in release.noise] == pytest.approx([span / 2] * 2, rel=1e-9)
    assert home.remaining.epsilon == 8
    assert tacit.Release.from_dict(release.to_dict()) == release


@pytest.mark.parametrize(
    ("law", "says"),
    [
        (lambda: tacit.queries.TruncatedTables((), 1.0, 0.05), "families"),
        (lambda: tacit.queries.TruncatedTables("x", 1.0, 0.05), "families"),
        (lambda: tacit.queries.TruncatedTables((("x", "x"),), 1.0, 0.05), "once"),
        (lambda: tacit.queries.TruncatedTables((("x",), ("y", "x")), 1.0, 0.05), "one family"),
        (lambda: tacit.queries.TruncatedTables((("x",),), 0.0, 0.05), "prior"),
        (lambda: tacit.queries.TruncatedTables((("x",),), 1.0, None), "truncation"),
        (lambda: tacit.queries.TruncatedTables((("x",),), 1.0, 0.4), "1/3"),
        (lambda: tacit.queries.TruncatedTables((("z",),), 1.0, 0.05), "'z'"),
        (lambda: tacit.queries.TruncatedTables((("x", "y"), ("y", "x")), 1.0, 0.05), "once"),
    ],
)
def test_senseless_tables_cost_nothing(law, says):
    home = tacit.Wall({"x": [], "y": []}, network(), budget=tacit.Budget(9), ledger=":memory:")
    with pytest.raises(tacit.TacitError, match=says):
        home.release(tacit.queries.ConjugateDraw(law()), tacit.queries.Exponential(1))
    assert home.remaining.epsilon == 9


def test_a_network_of_other_families_is_refused():
    model = tacit.NaiveBayes("x", ["y"])
    home = tacit.Public({"x": ["a"], "y": ["no"]}, network(), seed=1)
    how = tacit.OnePosteriorSample(1, draws=3, truncation=0.05)
    posterior = tacit.fit(model, home, how, draws=3, chains=1, noise="plugin")
    assert list(posterior.draws) == ["p(x)", "p(y|x)"]
    (release,) = posterior.releases
    np.testing.assert_array_equal(posterior.flat("p(y|x)"), release.table("x & y").value)
    with pytest.raises(tacit.errors.ModelError, match="answers"):
        tacit.BayesNet({"x": [], "y": []}).posterior(release)
    with pytest.raises(tacit.errors.ModelError, match=r"truncation=0\.05"):
        tacit.fit(model, home, tacit.OnePosteriorSample(1))


@pytest.mark.parametrize("family", ["poisson", "exponential"])
def test_rates_are_drawn_near_the_posterior_at_temperature_one(family):
    """Against the exact posterior of the same rows, whose likelihood knows the cap too."""
    rng = np.random.default_rng(2)
    if family == "poisson":
        model, column = tacit.GammaPoisson("x", prior=(2, 1)), tacit.Integer("x", 0, 9)
        data = {"x": rng.poisson(4, 300)}
    else:
        model, column = tacit.GammaExponential("x", prior=(2, 9)), tacit.Real("x", 0, 9)
        data = {"x": rng.exponential(4, 300)}
    home = tacit.Public(data, tacit.Schema(column, neighbours="replace_one"), seed=1)
    query = tacit.OnePosteriorSample(1, truncation=(0.05, 10), draws=1000).query(
        Task(model, home.schema)
    )
    release = home.release(query, tacit.Exact())
    drawn = model.posterior(release, noise="plugin", draws=1000, chains=1)
    exact = tacit.fit(model, home, tacit.Exact(), seed=2, draws=2000)
    assert kstest(drawn.flat(), exact.flat()).pvalue > 1e-6
    with pytest.raises(tacit.errors.ModelError, match="answers"):
        tacit.GammaPoisson("y").posterior(release)


@pytest.mark.parametrize(
    ("law", "says"),
    [
        (("x", "poisson", (1.0, 1.0), 2.0, 1.0), "low=2.0 < high=1.0"),
        (("x", "poisson", (1.0, 1.0), 0.0, 1.0), "low"),
        (("x", "poisson", (1.0,), 0.1, 1.0), "prior"),
        (("x", "poisson", (1e12, 1.0), 0.1, 1.0), "1e-6 to 1e6"),
        (("x", "poisson", (1.0, -1.0), 0.1, 1.0), "prior"),
        (("x", "normal", (1.0, 1.0), 0.1, 1.0), "family"),
        (("below", "exponential", (1.0, 1.0), 0.1, 1.0), "from 0"),
        (("x", "exponential", (1.0, 1.0), 0.1, 1e11), "nearer"),
    ],
)
def test_senseless_rates_cost_nothing(law, says):
    columns = tacit.Integer("x", 0, 9), tacit.Real("below", -1, 1)
    described = tacit.Schema(*columns, neighbours="replace_one")
    empty = {"x": [], "below": []}
    home = tacit.Wall(empty, described, budget=tacit.Budget(9), ledger=":memory:")
    with pytest.raises(tacit.TacitError, match=says):
        home.release(
            tacit.queries.ConjugateDraw(tacit.queries.BoundedRate(*law)),
            tacit.queries.Exponential(1),
        )
    assert home.remaining.epsilon == 9


def test_no_large_number_rounds_a_row_to_more_than_is_charged():
    """The law that the wall draws from, a billion rows and one of them replaced.

    Rates are so alike that little is charged. Weights that are not taken relative to one point
    are rounded in steps that a row moves by half as much again as is charged.
    """
    schema = tacit.Schema(tacit.Integer("x", 0, 1), neighbours="replace_one")
    low, n = 500_407.9, 10**9
    law = tacit.queries.BoundedRate("x", "poisson", (1.0, 1.0), low, low * (1 + 1.01e-6))
    query = tacit.queries.ConjugateDraw(law)
    (noise,) = resolve_draw(query, schema).calibrate(tacit.queries.Exponential(1)).noise

    def probabilities(ones):
        scaled = 2.0 * (ones - n / 2)  # to [-1, 1]
        moments = np.array([[n, scaled], [scaled, n]])
        weights = rate_weights(query, moments, noise.scale, schema)
        p = np.exp((weights - weights.max()).astype(np.longdouble))
        return p / p.sum()

    price = tacit.Public({"x": []}, schema).price(query, tacit.queries.Exponential(1))
    loss = np.abs(np.log(probabilities(n // 2) / probabilities(n // 2 + 1))).max()
    assert float(loss) <= float(price.epsilon)


def test_tables_that_cannot_be_counted_are_refused_before_they_are_paid_for():
    names = [f"p{i}" for i in range(70)]
    columns = [tacit.Categorical(name, ["only"], default="only") for name in names]
    schema = tacit.Schema(
        *columns, tacit.Categorical("y", ["a", "b"], default="a"), neighbours="replace_one"
    )
    data = {name: ["only"] for name in names} | {"y": ["a"]}
    wall = tacit.Wall(data, schema, budget=tacit.Budget(1), ledger=":memory:")
    family = (*names, "y")
    law = tacit.queries.TruncatedTables((family,), 1.0, 0.1)
    counts = tacit.queries.Counts([family])
    for query, how in (
        (tacit.queries.ConjugateDraw(law), tacit.queries.Exponential(0.5)),
        (counts, tacit.Laplace(0.5)),
    ):
        with pytest.raises(tacit.errors.QueryError, match="at most 60 columns"):
            wall.release(query, how)
    assert wall.remaining.epsilon == 1


BOTH = tacit.queries.BoundedMeanSd("x", (0.2, 2.0, 0.3, 3.0), (0.0, 1.0), (0.2, 1.0))


def both(neighbours="replace_one"):
    return tacit.Schema(tacit.Real("x", 0, 1, default=0.5), neighbours=neighbours)


def test_a_mean_and_an_sd_are_drawn_from_the_posterior_at_temperature_one():
    """Against the conjugate law of the same rows, kept between the same ends by rejection."""
    rows = np.linspace(0.1, 0.8, 30)
    home = tacit.Public({"x": rows}, both(), seed=3)
    release = home.release(tacit.queries.ConjugateDraw(BOTH, draws=1000), tacit.Exact())
    mean = release.table("mean").value
    sd = 0.2 * 5 ** release.table("sd").value
    rng, n = np.random.default_rng(5), len(rows)
    kappa, centre = n + 2, (rows.sum() + 2 * 0.2) / (n + 2)
    beta = 3 * 0.3**2 + (rows**2).sum() + 2 * 0.2**2 - kappa * centre**2
    variance = beta / 2 / rng.standard_gamma((n + 3) / 2, 40_000)
    means = centre + np.sqrt(variance / kappa) * rng.standard_normal(40_000)
    kept = (variance >= 0.04) & (variance <= 1) & (means >= 0) & (means <= 1)
    # points are 1/4096 and a third of a percent apart
    assert ks_2samp(mean, means[kept]).pvalue > 1e-6
    assert ks_2samp(sd, np.sqrt(variance[kept])).pvalue > 1e-6


@pytest.mark.parametrize(("neighbours", "temper"), [("replace_one", False), ("add_remove", True)])
def test_no_neighbours_of_many_rows_lose_more_than_is_charged(neighbours, temper):
    """The wall's own weights, of few rows and of a billion, at all corners and between."""
    query = tacit.queries.ConjugateDraw(BOTH, temper_prior=temper)
    described = both(neighbours)
    calibration = resolve_draw(query, described).calibrate(tacit.queries.Exponential(0.5))
    scale, charged = calibration.noise[0].scale, float(calibration.cost.epsilon)
    rows = [np.array([1.0, u, u * u]) for u in (-1.0, 0.25, 1.0)]

    def log_law(n, total, squares):
        moments = np.array([[n, total], [total, squares]])
        log = mean_sd_weights(query, moments, scale, described)
        log -= log.max()
        return (log - np.log(np.exp(log).sum()))[::32, ::256]

    worst = 0.0
    for many in (0, 10**9):
        for kind in rows[:: 2 if many else 3]:  # no rows are of one kind
            laws = [log_law(*(many * kind + row)) for row in rows]
            rest = [log_law(*(many * kind))] if neighbours == "add_remove" else laws
            worst = max(*(np.abs(a - b).max() for a in laws for b in rest), worst)
    # against a law that is all at one end, nearly all that is charged
    assert 0.95 * charged < worst <= charged


@pytest.mark.parametrize(
    ("law", "says"),
    [
        (("x", (0.2, 2.0, 0.3), (0.0, 1.0), (0.2, 1.0)), "4 numbers for prior"),
        (("x", (0.2, 0.0, 0.3, 1.0), (0.0, 1.0), (0.2, 1.0)), "rows of 1e-6"),
        (("x", (0.2, 1e9, 0.3, 1.0), (0.0, 1.0), (0.2, 1.0)), "rows of 1e-6"),
        (("x", (9.0, 2.0, 0.3, 1.0), (0.0, 1.0), (0.2, 1.0)), "prior's mean"),
        (("x", (0.2, 2.0, 1e-3, 1e6), (0.0, 2.0), (0.2, 1.0)), "within the bounds"),
        (("x", (0.2, 2.0, 0.3, 1.0), (0.0, 1e-4), (0.2, 1.0)), "apart"),
        (("x", (0.2, 2.0, 0.3, 1.0), (0.0, 1.0), (1e-9, 1.0)), "one end"),
        (("x", (0.2, 2.0, 0.3, 1.0), (0.0, 1.0), (0.2, 0.2)), "rising ends"),
        (("x", (0.2, 2.0, 0.3, 1.0), (0.0, 1.0), (0.2, np.inf)), "finite"),
    ],
)
def test_senseless_means_and_sds_cost_nothing(law, says):
    home = tacit.Wall({"x": [0.5]}, both(), budget=tacit.Budget(9), ledger=":memory:")
    with pytest.raises(tacit.errors.QueryError, match=says):
        home.release(
            tacit.queries.ConjugateDraw(tacit.queries.BoundedMeanSd(*law)),
            tacit.queries.Exponential(1),
        )
    assert home.remaining.epsilon == 9

"""Logistic regressions through the wall. False-alarm rate of each statistical test: 1e-6."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import kstest, norm

import tacit
from tacit.accounting import logistic as cost
from tacit.draws import logistic as _logistic
from tacit.draws.logistic import gradient, in_blocks, minimum, resolve_logistic
from tacit.laws.uniform import normals_from_bits as normals
from tacit.models.logistic_regression import theta_of
from tacit.public import seeded_entropy
from tacit.sources.data import open_data
from tacit.spec.design import Design
from tacit.spec.logistic import least_ridge, ridge_of
from tacit.wall.answers import read
from tacit.wall.noise import os_entropy
from tests.conftest import without_note

COLUMNS = (
    tacit.Real("x", -1, 1),
    tacit.Categorical("ward", ["a", "b", "c"]),
    tacit.Categorical("y", ["no", "yes"]),
)
SCHEMA = tacit.Schema(*COLUMNS, neighbours="replace_one")
LAW = tacit.queries.Logistic("y", ("x", "ward"), precision=0.5)
QUERIES = [
    (tacit.queries.LogisticDraw(LAW), tacit.queries.Exponential(1, "1e-5")),
    (tacit.queries.LogisticMinimum(LAW, "objective"), tacit.Gaussian(1, "1e-5")),
    (tacit.queries.LogisticMinimum(LAW, "output"), tacit.Gaussian(1, "1e-5")),
]


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    yes = rng.random(n) < expit(3 * x - 0.5)
    return {
        "x": x,
        "ward": rng.choice(["a", "b", "c"], n),
        "y": np.where(yes, "yes", "no"),
    }


def wall(data, schema=SCHEMA):
    return tacit.Wall(data, schema, budget=tacit.Budget(100, "0.1"), ledger=":memory:")


@pytest.mark.parametrize(("query", "mechanism"), QUERIES, ids=str)
def test_a_release_is_paid_for_saved_and_read_back(query, mechanism, tmp_path):
    home = wall(table(300))
    release = home.release(query, mechanism, name="r")
    assert home.remaining.epsilon == 99
    assert without_note(home.release(query, mechanism, name="r")) == release
    release.save(tmp_path / "r.json")
    theta = theta_of(tacit.Release.load(tmp_path / "r.json"))
    assert theta.shape == (1, 5)
    assert np.all(np.isfinite(theta))
    assert release.n == 300
    assert release.integers.dtype == np.int64
    stamped = " ".join(release.certificate.assumptions)
    assert ("no error bar" in stamped) == isinstance(query, tacit.queries.LogisticMinimum)
    if isinstance(query, tacit.queries.LogisticDraw):
        assert release.certificate.events[0]["temper"] == 1 / release.noise[0].scale < 1


def test_mechanisms_that_do_not_fit_are_refused_before_any_charge():
    home = wall(table(5))
    for query, wrong in (
        (QUERIES[0][0], tacit.Gaussian(1, 1e-5)),
        (QUERIES[1][0], tacit.queries.Exponential(1, 1e-5)),
        (QUERIES[2][0], tacit.Laplace(1)),
        (QUERIES[0][0], tacit.Exact()),
    ):
        with pytest.raises(tacit.errors.BudgetError, match=r"Expected tacit|only tacit\.Public"):
            home.release(query, wrong)
    three = tacit.queries.LogisticDraw(tacit.queries.Logistic("ward", ("x",), 1.0))
    with pytest.raises(tacit.errors.QueryError, match="two levels"):
        home.release(three, tacit.queries.Exponential(1, 1e-5))
    assert home.remaining.epsilon == 100


@pytest.mark.parametrize(("query", "mechanism"), QUERIES, ids=str)
def test_add_remove_needs_a_public_limit_and_hides_the_number(query, mechanism):
    with pytest.raises(tacit.errors.QueryError, match="max_units"):
        wall(table(5), tacit.Schema(*COLUMNS, neighbours="add_remove")).release(query, mechanism)
    limited = tacit.Schema(*COLUMNS, neighbours="add_remove", max_units=100)
    for rows in (0, 60, 400):  # more than declared is no error
        release = wall(table(rows), limited).release(query, mechanism)
        assert release.n is None
        assert theta_of(release).shape == (1, 5)


@pytest.mark.parametrize(("query", "mechanism"), QUERIES, ids=str)
def test_cells_never_fail(query, mechanism):
    strange = {
        "x": ["nan", "1e308", "", "0.5", "-0.0", "inf", "0.1"],
        "ward": ["a", "b", "c", "zzz", "", "a", "b"],
        "y": ["yes", "no", "yes", "maybe", "no", "yes", "yes"],
    }
    release = wall(strange).release(query, mechanism)
    assert release.n == 7
    vectors = read(
        open_data(strange, SCHEMA),
        resolve_logistic(query, SCHEMA),
        (tacit.spec.release.Noise("draw", 1.0, 1.0),),
    )
    assert len(vectors.integers) == 1  # the complete one
    empty = {name: [] for name in strange}
    assert np.all(np.isfinite(theta_of(wall(empty).release(query, mechanism))))


def test_rows_are_vectors_of_norm_at_most_one_and_signed_by_the_target():
    noise = (tacit.spec.release.Noise("draw", 1.0, 1.0),)
    data = {"x": [1, 1, -1], "ward": ["a", "a", "b"], "y": ["yes", "no", "yes"]}
    found = read(open_data(data, SCHEMA), resolve_logistic(QUERIES[0][0], SCHEMA), noise)
    assert np.all(np.linalg.norm(found.integers, axis=1) <= 1)
    assert np.allclose(found.integers[0], -found.integers[1])
    assert np.linalg.norm(found.integers[0]) > 0.999


def test_the_minimum_is_where_the_gradient_vanishes():
    rng = np.random.default_rng(3)
    for rows, size, ridge, tilt in ((0, 3, 1.0, 0), (1, 2, 1e-3, 5), (3000, 20, 1.0, 300)):
        v = rng.normal(size=(rows, size))
        v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1)
        b = tilt * rng.normal(size=size)
        theta = minimum(v, ridge, b, 1e-7)
        exact = ridge * theta + b - v.T @ expit(-v @ theta)
        assert np.linalg.norm(exact) < 1e-7


def moved(rest, one, other, ridge):
    """How far the minimum goes, times the regularizer: one row more, and one in another's place."""
    data = [np.vstack([rest, *more]) for more in ([], [one[None]], [other[None]])]
    data = [v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1) for v in data]
    none, here, there = (minimum(v, ridge, np.zeros(v.shape[1]), 1e-8) for v in data)
    return ridge * np.linalg.norm(here - none), ridge * np.linalg.norm(here - there)


def test_one_row_moves_the_minimum_by_no_more_than_its_gradient_allows():
    rng = np.random.default_rng(4)
    for _ in range(200):
        size = rng.integers(1, 4)
        rest = rng.normal(size=(rng.integers(0, 60), size))
        one, other = rng.normal(size=(2, size))
        more, replaced = moved(rest, one, other, 10 ** rng.uniform(-2, 1))
        assert more <= 1
        assert replaced <= 2
    # Rows of one kind, and two that surprise and are nearly opposite to each other.
    rest = np.tile([-1.0, 0.0], (20_000, 1))
    more, replaced = moved(rest, np.array([0.5, 0.866]), np.array([0.5, -0.866]), 2.0)
    assert 0.8 < more <= 1
    assert 1.6 < replaced <= 2


def test_rounding_errors_of_a_gradient_are_below_their_bound():
    """Against arithmetic with 60 digits."""
    rng = np.random.default_rng(5)
    v = rng.normal(size=(3000, 7))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    theta = rng.normal(size=7) * 20
    computed = gradient(in_blocks(v), theta[:, None])[:, 0]
    with mpmath.workdps(60):
        exact = [mpmath.mpf(0)] * 7
        for row in v:
            at = mpmath.fsum(
                mpmath.mpf(float(a)) * mpmath.mpf(float(b)) for a, b in zip(row, theta)
            )
            pull = 1 / (1 + mpmath.exp(at))
            exact = [e - pull * mpmath.mpf(float(a)) for e, a in zip(exact, row)]
        off = [float(mpmath.mpf(float(c)) - e) for c, e in zip(computed, exact)]
    bound = cost.gradient_error(3000, 7, float(np.linalg.norm(theta)))
    assert np.linalg.norm(off) < bound < 1e-8


def test_normal_numbers_are_right_to_their_bound_also_at_the_ends():
    words = seeded_entropy("ends")(10 * 400).copy().reshape(10, 400)
    words[:2, :100] = 0  # the first 64 bits of the radius: far out, or near the middle
    words[:4, 100:150] = 0
    words[:6, 150:160] = 2**32 - 1
    found = normals(lambda _: words.ravel(), 400)
    with mpmath.workdps(100):
        for i in range(400):
            bits = [int(w) for w in words[:, i]]
            u = sum(mpmath.mpf(b) / mpmath.mpf(2) ** (32 * (j + 1)) for j, b in enumerate(bits[:8]))
            half = (u + mpmath.mpf(2) ** -257) / 2
            last = bits[8] << 32 | bits[9]
            height = -mpmath.log(half) if last & 1 else -mpmath.log(1 - half)
            angle = 2 * mpmath.pi * (last >> 1) / mpmath.mpf(2) ** 63
            exact = mpmath.sqrt(2 * height) * mpmath.cos(angle)
            assert abs(float(exact - mpmath.mpf(float(found[i])))) < 2.0**-42
    assert kstest(normals(os_entropy, 50_000), norm.cdf).pvalue > 1e-6


def test_without_rows_a_draw_is_from_the_prior():
    query = tacit.queries.LogisticDraw(LAW, draws=1000)
    drawn = theta_of(
        tacit.Public({n: [] for n in ("x", "ward", "y")}, SCHEMA).release(query, tacit.Exact())
    )
    assert kstest(drawn.ravel() * math.sqrt(0.5), norm.cdf).pvalue > 1e-6


@pytest.mark.parametrize("temper_prior", [False, True])
def test_draws_have_the_tempered_posterior(temper_prior):
    """Against quadrature, for a constant and a coefficient; the last steps are short enough."""
    schema = tacit.Schema(COLUMNS[0], COLUMNS[2], neighbours="replace_one")
    law = tacit.queries.Logistic("y", ("x",), precision=5.0)
    query = tacit.queries.LogisticDraw(law, draws=1000, temper_prior=temper_prior)
    data = {name: cells for name, cells in table(200, seed=2).items() if name != "ward"}
    home = tacit.Public(data, schema)
    mechanism = tacit.queries.Exponential(40, "1e-2")
    drawn = theta_of(home.release(query, mechanism))
    temperature = home.quote(query, mechanism).noise[0].scale
    assert temperature > 1.5
    x = np.column_stack([np.ones(200), data["x"]]) / math.sqrt(2)
    v = x * np.where(data["y"] == "yes", 1, -1)[:, None]
    ends = np.linspace(-9, 9, 300)
    a, b = np.meshgrid(ends, ends, indexing="ij")
    grid = np.stack([a.ravel(), b.ravel()])
    log = -np.logaddexp(0, -(v @ grid)).sum(axis=0) / temperature
    log -= 2.5 * (grid**2).sum(axis=0) / (temperature if temper_prior else 1)
    p = np.exp(log - log.max()).reshape(a.shape)
    for axis in (0, 1):
        masses = p.sum(axis=1 - axis) / p.sum()
        cdf = np.cumsum(masses) - masses / 2  # up to each point, half of its cell included
        assert kstest(drawn[:, axis], lambda t, c=cdf: np.interp(t, ends, c)).pvalue > 1e-6


def test_output_noise_has_the_law_that_the_release_says():
    query, mechanism = tacit.queries.LogisticMinimum(LAW, "output"), tacit.Gaussian(1, "1e-5")
    home = tacit.Public(table(200), SCHEMA)
    exact = theta_of(
        home.release(tacit.queries.LogisticMinimum(LAW, "output", 10.0), tacit.Exact())
    )
    sigma = home.quote(query, mechanism).noise[0].scale
    ridge = ridge_of(query, 200, 5, sigma)
    quiet = tacit.queries.LogisticMinimum(LAW, "output", ridge)
    centre = theta_of(home.release(quiet, tacit.Exact()))
    drawn = np.concatenate([theta_of(home.release(query, mechanism)) for _ in range(60)])
    assert kstest(((drawn - centre) * ridge / sigma).ravel(), norm.cdf).pvalue > 1e-6
    assert np.linalg.norm(exact) > 0


def test_a_random_gradient_explains_the_minimum():
    """From theta back to the gradient: normal with the sd that the release says."""
    query, mechanism = tacit.queries.LogisticMinimum(LAW, "objective"), tacit.Gaussian(1, "1e-5")
    home = tacit.Public(table(200), SCHEMA)
    noise = home.quote(query, mechanism).noise
    ridge = ridge_of(query, 200, 5, noise[0].scale)
    resolved = resolve_logistic(query, SCHEMA)
    v = read(open_data(table(200), SCHEMA), resolved, noise).integers
    gradients = []
    for _ in range(60):
        theta = theta_of(home.release(query, mechanism))[0]
        gradients.append((v.T @ expit(-v @ theta) - ridge * theta) / noise[0].scale)
    assert kstest(np.ravel(gradients), norm.cdf).pvalue > 1e-6


def test_what_hides_rounding_is_small_beside_the_law_itself():
    """30,000 rows and 108 coefficients: below a hundredth of a posterior's deviation."""
    law = tacit.queries.Logistic("y", ("x",), precision=0.05)
    draw = tacit.queries.LogisticDraw(law)
    paid = cost.calibrate_logistic_draw(tacit.queries.Exponential(1, "1e-5"), draw, SCHEMA, 108)
    temper, most = 1 / paid.noise[0].scale, 0.05 + 30_000 / 4 / paid.noise[0].scale
    sizes = cost.step_sizes(0.05, most, 30_000, 108)
    off = cost.state_error(sizes, 0.05, temper, 30_000, 108, 300.0)
    mu = 2 * temper / math.sqrt(0.05) / 64
    hidden = cost.rounding_noise(off, mu, paid.noise[0].grid, 108).scale
    assert hidden < 0.01 / math.sqrt(most)
    assert Fraction(hidden) / Fraction(paid.noise[0].grid) >= 2**28


def test_public_data_with_a_seed_repeat():
    for query, mechanism in QUERIES:
        one, two = (tacit.Public(table(50), SCHEMA, seed=7) for _ in range(2))
        assert one.release(query, mechanism) == two.release(query, mechanism)


def test_several_rows_of_a_unit_count_and_cost_as_many():
    described = tacit.Schema(*COLUMNS, unit="who", max_rows_per_unit=2, neighbours="replace_one")
    data = {**table(40), "who": np.arange(40) // 4}
    for query, mechanism in QUERIES:
        home = wall(data, described)
        release = home.release(query, mechanism)
        assert release.n == 10
        alone = wall(table(40)).quote(query, mechanism).noise[0].scale
        assert release.noise[0].scale > 1.9 * alone


def hard(rng):
    """Losses that are nearly straight, of rows of all lengths, hardly regularised."""
    rows, size = int(10 ** rng.uniform(1, 3.5)), int(rng.integers(1, 6))
    v = rng.normal(size=(rows, size)) * 10 ** rng.uniform(-7, 1, (rows, 1))
    v /= np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1)
    return v, least_ridge(rows, size) * 10 ** rng.uniform(0, 2)


def test_a_minimum_is_found_whatever_the_rows_are(monkeypatch):
    """Whether it was found would tell of them. Steps that backtrack on the gradient stall here."""
    monkeypatch.setattr(_logistic, "_ROUNDS", 2000)
    rng = np.random.default_rng(5)
    for _ in range(150):
        v, ridge = hard(rng)
        theta = minimum(v, ridge, np.zeros(v.shape[1]), cost.TOLERANCE / 2)
        assert np.linalg.norm(ridge * theta - v.T @ expit(-v @ theta)) <= cost.TOLERANCE / 2


def test_more_rows_than_were_declared_are_no_error():
    schema = tacit.Schema(*COLUMNS, neighbours="add_remove", max_units=2)
    for query, mechanism in QUERIES:
        release = wall(table(3000), schema).release(query, mechanism)
        assert np.all(np.isfinite(theta_of(release)))


def test_a_domain_too_narrow_to_divide_by_is_refused():
    with pytest.raises(tacit.TacitError, match="further apart"):
        Design.of(["x"], tacit.Schema(tacit.Real("x", 0, 1e-310), neighbours="replace_one"))


def test_a_limit_that_the_proof_needs_is_listed_and_what_it_forbids_is_refused_before_payment():
    columns = tacit.Categorical("y", ["no", "yes"]), tacit.Real("x", -1, 1)
    law = tacit.queries.Logistic("y", ("x",), precision=1.0)
    data = {"y": ["no", "yes"] * 20, "x": [0.1, -0.3] * 20}
    for noise in ("objective", "output"):
        query = tacit.queries.LogisticMinimum(law, noise)
        listed = []
        for options in (
            {"neighbours": "replace_one"},
            {"neighbours": "add_remove", "max_units": 50},
        ):
            described = tacit.Schema(*columns, **options)
            wall = tacit.Wall(data, described, budget=tacit.Budget(9, 1e-4), ledger=":memory:")
            certificate = wall.release(query, tacit.Gaussian(1, 1e-6)).certificate
            listed.append(any("16 times" in text for text in certificate.assumptions))
        assert listed == [False, True]
        described = tacit.Schema(*columns, neighbours="add_remove", max_units=10**12)
        wall = tacit.Wall(data, described, budget=tacit.Budget(9, 1e-4), ledger=":memory:")
        with pytest.raises(tacit.errors.QueryError, match="fewer than"):
            wall.release(query, tacit.Gaussian(1, 1e-6))
        assert wall.remaining.epsilon == 9


@pytest.mark.parametrize("kind", ["draw", "objective"])
def test_more_rounding_than_noise_can_hide_is_refused_before_payment(kind):
    names = tuple(f"x{i}" for i in range(100))
    columns = tacit.Categorical("y", ["no", "yes"]), *(tacit.Real(name, -1, 1) for name in names)
    data = {"y": ["no", "yes"], **{name: [0.1, -0.3] for name in names}}
    if kind == "draw":
        law, units = tacit.queries.Logistic("y", names, precision=1e-6), 10**6
        query, mechanism = (
            tacit.queries.LogisticDraw(law, temper_prior=True),
            tacit.queries.Exponential(".001", 1e-9),
        )
    else:
        law, units = tacit.queries.Logistic("y", names, precision=1e6), 100
        query = tacit.queries.LogisticMinimum(law, "objective", regularizer=1e-4)
        mechanism = tacit.Gaussian(10, 1e-9)
    described = tacit.Schema(*columns, neighbours="add_remove", max_units=units)
    home = tacit.Wall(data, described, budget=tacit.Budget(90, 1e-4), ledger=":memory:")
    with pytest.raises(tacit.errors.BudgetError, match="Expected less noise"):
        home.release(query, mechanism)
    assert home.remaining.epsilon == 90

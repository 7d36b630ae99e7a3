"""The bounds behind logistic regressions, against closed forms, brute force and exact deltas."""

import math

import numpy as np
import pytest
from scipy.special import expit

import tacit
from tacit.accounting import gaussian_delta, gaussian_mu
from tacit.accounting import logistic as cost


def schema(neighbours="replace_one", rows=1, **options):
    columns = [tacit.Real("x", -1, 1), tacit.Categorical("y", ["no", "yes"])]
    unit = {} if rows == 1 else {"unit": "who", "max_rows_per_unit": rows}
    return tacit.Schema(*columns, neighbours=neighbours, **unit, **options)


LAW = tacit.queries.Logistic("y", ("x",), precision=0.25)


def langevin_mu(gradient, curvature, sizes):
    """mu of the last state of a Langevin chain with these step sizes, as the proof has it.

    The potential is `curvature`-strongly convex; neighbours move its gradient by `gradient`.
    """
    kept = np.cumprod(np.append(1.0, 1 - curvature * sizes[:0:-1]))[::-1]
    return gradient * (kept * sizes).sum() / math.sqrt((kept**2 * 2 * sizes).sum())


@pytest.mark.parametrize("step", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("count", [1, 2, 30, 400])
def test_equal_steps_give_the_published_formula(step, count):
    gradient, curve = 1.7, 1.1
    c, noise = 1 - step * curve, math.sqrt(2 / step)
    known = gradient / noise * math.sqrt((1 - c**count) / (1 + c**count) * (1 + c) / (1 - c))
    assert langevin_mu(gradient, curve, np.full(count, step)) == pytest.approx(known, rel=1e-12)


def test_quadratics_attain_the_bound_whatever_the_steps():
    """Two chains on m x^2 / 2 and m x^2 / 2 + G x are normal with one variance: mu is exact."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        gradient, curve = rng.uniform(0.1, 3, 2)
        sizes = rng.uniform(0, 1, rng.integers(1, 60)) / curve
        mean = variance = 0.0
        for step in sizes:
            mean = (1 - step * curve) * mean + step * gradient
            variance = (1 - step * curve) ** 2 * variance + 2 * step
        bound = langevin_mu(gradient, curve, sizes)
        assert bound == pytest.approx(mean / math.sqrt(variance), rel=1e-12)
        assert bound < gradient / math.sqrt(curve)


def test_step_sizes_contract_and_end_short():
    for rows, temper, curve in ((1, 1.0, 1.0), (30_000, 0.02, 0.01), (10**6, 1.0, 0.01)):
        most = curve + temper * rows / 4
        sizes = cost.step_sizes(curve, most, rows, 50)
        assert sizes.max() <= 2 / (curve + most)
        assert np.all(np.diff(sizes) <= 0)
        assert 100 < len(sizes) <= 10_000


def test_temperature_is_that_of_the_gaussian_profile():
    """3.6: beta = mu sqrt(lambda) / 2 under replace_one; draws share mu by their root."""
    query, mu = tacit.queries.LogisticDraw(LAW), gaussian_mu(1.0, 1e-5)
    paid = cost.calibrate_logistic_draw(tacit.queries.Exponential(1, "1e-5"), query, schema(), 2)
    assert 1 / paid.noise[0].scale == pytest.approx(mu * 0.5 / 2, rel=2e-4)
    assert 1 / paid.noise[0].scale < mu * 0.5 / 2
    several = tacit.queries.LogisticDraw(LAW, draws=4)
    more = cost.calibrate_logistic_draw(tacit.queries.Exponential(1, "1e-5"), several, schema(), 2)
    assert more.noise[0].scale == pytest.approx(2 * paid.noise[0].scale, rel=1e-6)
    flat = tacit.queries.LogisticDraw(LAW, temper_prior=True)
    tempered = cost.calibrate_logistic_draw(tacit.queries.Exponential(1, "1e-5"), flat, schema(), 2)
    assert tempered.noise[0].scale == pytest.approx(paid.noise[0].scale ** 2, rel=1e-9)
    units = cost.calibrate_logistic_draw(
        tacit.queries.Exponential(1, "1e-5"), query, schema(rows=3), 2
    )
    assert units.noise[0].scale == pytest.approx(3 * paid.noise[0].scale, rel=1e-9)


def test_a_strong_prior_needs_no_tempering_and_costs_less():
    law = tacit.queries.Logistic("y", ("x",), precision=1e4)
    query = tacit.queries.LogisticDraw(law)
    paid = cost.calibrate_logistic_draw(tacit.queries.Exponential(1, "1e-5"), query, schema(), 2)
    assert paid.noise[0].scale == 1
    spent = float(paid.cost.epsilon)
    assert spent < 0.1
    assert gaussian_delta(0.02 * (1 + 1e-4), spent) <= 1.0001e-5


def test_rows_beyond_the_declared_limit_fade_out():
    """Under add_remove one row more moves all weights; by brute force over its number."""
    for most in (1, 3, 50):
        described = schema("add_remove", max_units=most)
        counts = np.arange(0, 12 * most)
        weights = np.array([cost.row_weight(described, most, int(n)) for n in counts])
        assert np.all(weights[counts <= most] == 1)
        moved = (weights[:-1] - weights[1:]) * counts[:-1] + weights[1:]
        assert moved.max() <= cost.gradient_gap(described)
        assert (weights * counts).max() <= cost.weighed_rows(described, most)
        assert weights[-1] == 0


def exact_delta(here, there, ridge, sigma, epsilon, pulled=0):
    """delta of a minimum in one dimension, from its density by change of variables.

    So many rows at -1 are in both data sets.
    """
    edge = (12 * sigma + len(here) + 2 + pulled) / ridge
    theta = np.linspace(-edge, edge, 1_000_001)

    def density(rows):
        pulls = [expit(-v * theta) for v in rows]
        back = expit(theta)
        random = sum((c * v for c, v in zip(pulls, rows)), -ridge * theta - pulled * back)
        volume = ridge + sum(c * (1 - c) * v**2 for c, v in zip(pulls, rows))
        volume = volume + pulled * back * (1 - back)
        return np.exp(-0.5 * (random / sigma) ** 2) * volume / (sigma * math.sqrt(2 * math.pi))

    p, q = density(here), density(there)
    assert np.trapezoid(p, theta) == pytest.approx(1, abs=1e-6)
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), theta))


PAIRS = {
    "replace_one": [((1,), (-1,)), ((1, -1, -1), (-1, -1, -1)), ((-1, 1, 1), (0.5, 1, 1))],
    "add_remove": [((1,), ()), ((), (1,)), ((1, -1, -1, -1), (-1, -1, -1)), ((-1,) * 4, (-1,) * 3)],
}


@pytest.mark.parametrize("neighbours", PAIRS)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("regularizer", [None, 1.0, 20.0])
def test_objective_perturbation_keeps_its_delta_exactly(neighbours, epsilon, regularizer):
    query = tacit.queries.LogisticMinimum(LAW, "objective", regularizer)
    delta = 1e-3
    paid = cost.calibrate_minimum(
        tacit.Gaussian(epsilon, delta), query, schema(neighbours, max_units=9), 1
    )
    sigma = paid.noise[0].scale
    ridge = regularizer or 0.3 * sigma
    found = [exact_delta(*pair, ridge, sigma, epsilon) for pair in PAIRS[neighbours]]
    assert max(found) <= delta


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_where_a_row_has_its_full_gradient_the_claim_is_nearly_attained(epsilon):
    """4,000 rows at -1 pull theta to where a row at 1 is a surprise; add_remove."""
    query, delta = tacit.queries.LogisticMinimum(LAW, "objective", 20.0), 1e-3
    paid = cost.calibrate_minimum(
        tacit.Gaussian(epsilon, delta), query, schema("add_remove", max_units=9), 1
    )
    sigma = paid.noise[0].scale
    for pair in (((1,), ()), ((), (1,))):
        assert 0.4 * delta < exact_delta(*pair, 20.0, sigma, epsilon, pulled=4000) <= delta
    # Its noise, for a neighbour that has the row in another place: the other mistake people make.
    assert exact_delta((1,), (-1,), 20.0, sigma / 2, epsilon, pulled=4000) > delta


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_two_rows_nearly_opposite_to_each_other_keep_delta_in_the_plane(epsilon):
    """Where both rows surprise: gradients differ by 1.66. The noise of add_remove is caught."""
    ridge, delta, pulled = 20.0, 1e-3, 100_000
    query = tacit.queries.LogisticMinimum(LAW, "objective", ridge)

    def found(neighbours):
        described = schema(neighbours, max_units=9)
        paid = cost.calibrate_minimum(tacit.Gaussian(epsilon, delta), query, described, 2)
        sigma = paid.noise[0].scale
        # A row's change of (b_1, b_2) is small, so these ranges hold all mass that matters.
        x = np.linspace(-7.2, -5.9, 3001)[:, None]
        y = np.linspace(-1, 1, 1501)[None, :] * (9 * sigma + 2) / ridge
        back = expit(x)

        def density(u, v):
            c = expit(-(u * x + v * y))
            first = -ridge * x - pulled * back + c * u
            second = -ridge * y + c * v
            bend, curve = pulled * back * (1 - back), c * (1 - c)
            volume = (ridge + bend + curve * u * u) * (ridge + curve * v * v) - (curve * u * v) ** 2
            log = -(first**2 + second**2) / (2 * sigma**2)
            return np.exp(log) * volume / (2 * math.pi * sigma**2)

        p, q = density(0.5, 0.866), density(0.5, -0.866)
        cell = (x[1, 0] - x[0, 0]) * (y[0, 1] - y[0, 0])
        assert p.sum() * cell == pytest.approx(1, abs=1e-5)
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)

    assert delta / 50 < found("replace_one") <= delta
    assert found("add_remove") > 3 * delta


def test_without_the_regularizer_or_with_less_noise_delta_is_broken():
    """The two slips: no Delta term, and the noise of add_remove at a neighbour that is further."""
    paid = cost.calibrate_minimum(
        tacit.Gaussian(2, 1e-3), tacit.queries.LogisticMinimum(LAW, "objective", 20.0), schema(), 1
    )
    sigma = paid.noise[0].scale
    assert exact_delta((1,), (), 0.01, sigma, 2.0) > 1e-3  # whatever the relation
    pull = (1, -1), (-1, -1)
    assert exact_delta(*pull, 20.0, sigma / 4, 2.0) > 1e-3


def test_the_noise_of_a_random_gradient_is_nearly_that_of_a_gaussian_and_far_below_kifers():
    delta = 1e-5
    query = tacit.queries.LogisticMinimum(LAW, "objective", 1e3)
    for epsilon in (0.1, 1.0, 4.0):
        paid = cost.calibrate_minimum(tacit.Gaussian(epsilon, delta), query, schema(), 1)
        sigma, plain = paid.noise[0].scale, 2 / gaussian_mu(epsilon, delta)
        kifer = 2 * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
        assert plain < sigma < 1.03 * plain
        assert sigma < 0.5 * kifer


def test_any_set_of_rows_may_be_what_moved():
    assert cost.objective_delta(3.0, 0.5, 1) == gaussian_delta(1 / 3, 0.5)
    twice = 2 * gaussian_delta(1 / 3, 0.5) + gaussian_delta(2 / 3, 0.5)
    assert cost.objective_delta(3.0, 0.5, 2) == pytest.approx(twice)


def test_output_noise_is_for_the_gradient_of_the_rows_that_change():
    query = tacit.queries.LogisticMinimum(LAW, "output")
    mu = gaussian_mu(1.0, 1e-5)
    for neighbours, rows, gap in (
        ("replace_one", 1, 2),
        ("add_remove", 1, 1),
        ("replace_one", 4, 8),
    ):
        described = schema(neighbours, rows=rows, max_units=5)
        paid = cost.calibrate_minimum(tacit.Gaussian(1, "1e-5"), query, described, 2)
        assert gap / mu < paid.noise[0].scale < 1.001 * gap / mu


@pytest.mark.parametrize(
    ("mechanism", "match"),
    [
        (tacit.Gaussian(noise_multiplier=1.0, delta=1e-5), "noise_multiplier"),
        (tacit.Gaussian(100, 1e-5), "at most 50"),
        (tacit.Gaussian(1, 1e-30), "at least 1E-15"),
        (tacit.Gaussian("0.01", 1e-5), "regularizer=1.0 of"),
    ],
)
def test_what_the_proofs_do_not_cover_is_refused(mechanism, match):
    query = tacit.queries.LogisticMinimum(LAW, "objective", 1.0)
    with pytest.raises(tacit.errors.BudgetError, match=match):
        cost.calibrate_minimum(mechanism, query, schema(), 2)
    with pytest.raises(tacit.errors.BudgetError, match="delta=1e-6"):
        cost.calibrate_logistic_draw(
            tacit.queries.Exponential(1), tacit.queries.LogisticDraw(LAW), schema(), 2
        )
    with pytest.raises(tacit.errors.BudgetError, match="20 or less"):
        cost.calibrate_minimum(
            tacit.Gaussian(30, 1e-5),
            tacit.queries.LogisticMinimum(LAW, "objective"),
            schema(rows=21),
            2,
        )

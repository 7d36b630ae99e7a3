"""Ranges, gradients and privacy profiles of draws of means and coefficients, by brute force.

Nothing here is random but the search for bad neighbours, and that is seeded. The profiles are
integrals of (p - e^epsilon q)+ over the very densities that the wall draws from: a wrong use of
the theorem about strongly log-concave laws would show.
"""

import math
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from tacit.accounting.draws import calibrate_draw, draw_gradient, draw_range
from tacit.accounting.gaussian import gaussian_delta, gaussian_epsilon
from tacit.draws.conjugate import normal_law, regression_law
from tacit.spec.columns import Real
from tacit.spec.draws import BallRegression, BoundedNormal, ConjugateDraw
from tacit.spec.errors import BudgetError
from tacit.spec.mechanisms import Exponential
from tacit.spec.moments import scale_of
from tacit.spec.schema import Schema

RELATIONS = ("replace_one", "add_remove")
INTERVALS = [(0.0, 1.0), (-1.0, 3.0), (0.2, 0.4), (5.0, 6.0), (-3.0, 0.5), (-7.0, -6.5)]


def mean_and_sd(query, moments, temperature, schema) -> tuple[float, float]:
    """The wall's law of a draw, as a normal law of the mean."""
    gradient, curve = normal_law(query, moments, temperature, schema)
    origin, unit = query.law.measure(temperature if query.temper_prior else 1.0)
    return origin + unit * gradient / curve, unit / curve**0.5


def mean_schema(neighbours, rows=1, low=0.0, high=1.0, default=None):
    unit, most = (None, None) if rows == 1 else ("who", rows)
    column = Real("x", low, high, default=default)
    return Schema(column, neighbours=neighbours, unit=unit, max_rows_per_unit=most)


def units_of(rows, values, theta, sd):
    """The log-likelihoods of all units: each row one of the values, or missing."""
    each = [np.zeros_like(theta)] + [-((x - theta) ** 2) / (2 * sd**2) for x in values]
    return [sum(unit) for unit in combinations_with_replacement(each, rows)]


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-2.0, 0.7)])
def test_the_range_is_the_largest_over_all_units(interval, bounds, rows):
    theta = np.unique(np.concatenate([np.linspace(*interval, 201), np.clip(bounds, *interval)]))
    units = units_of(rows, np.linspace(*bounds, 9), theta, sd=0.7)
    law = BoundedNormal("x", 0.7, (0.0, 1.0), *interval)
    worst = {
        "replace_one": max(np.ptp(one - other) for one in units for other in units),
        "add_remove": max(np.ptp(one) for one in units),
    }
    for relation, found in worst.items():
        claimed = draw_range(law, mean_schema(relation, rows, *bounds))
        assert found <= claimed
        assert found == pytest.approx(claimed, rel=1e-9)


def test_the_range_does_not_cancel_far_away():
    """Squares of 1e10 have errors of 1e4; the range is 2e10."""
    law = BoundedNormal("x", 1.0, (0.0, 1.0), 0.0, 1.0)
    claimed = draw_range(law, mean_schema("add_remove", low=1e10, high=1e10 + 2))
    assert claimed >= 1e10 + 2 - 0.5
    assert claimed == pytest.approx(1e10 + 1.5, rel=1e-11)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("interval", INTERVALS)
def test_the_gradient_is_the_largest_over_all_units(interval, rows):
    step = 1e-5
    theta = np.linspace(*interval, 101)
    rise = [
        (up - down) / (2 * step)
        for up, down in zip(
            units_of(rows, np.linspace(0, 1, 9), theta + step, 0.7),
            units_of(rows, np.linspace(0, 1, 9), theta - step, 0.7),
            strict=True,
        )
    ]
    law = BoundedNormal("x", 0.7, (0.0, 0.5), *interval)
    worst = {
        "replace_one": max(np.abs(one - other).max() for one in rise for other in rise),
        "add_remove": max(np.abs(one).max() for one in rise),
    }
    for relation, found in worst.items():
        gradient, curve = draw_gradient(law, mean_schema(relation, rows))
        assert found == pytest.approx(gradient, rel=1e-6)
        assert curve == 4.0


def regression_schema(neighbours, features, rows=1):
    unit, most = (None, None) if rows == 1 else ("who", rows)
    columns = [Real(f"x{i}", -1, 1) for i in range(features)] + [Real("y", -1, 1)]
    return Schema(*columns, neighbours=neighbours, unit=unit, max_rows_per_unit=most)


def regression_law_of(features, sd, scale, radius):
    return BallRegression("y", tuple(f"x{i}" for i in range(features)), sd, scale, radius)


@pytest.mark.parametrize("features", [1, 2, 5])
@pytest.mark.parametrize("radius", [0.3, 2.0])
def test_no_row_is_steeper_than_the_regressions_gradient(features, radius):
    rng, sd, tries, step = np.random.default_rng(features), 0.6, 4000, 1e-5
    z = rng.choice([-1.0, 1.0, 0.0], size=(2, tries, features + 1), p=[0.45, 0.45, 0.1])
    z[:, : tries // 4] = rng.uniform(-1, 1, size=(2, tries // 4, features + 1))
    z[:, :, 0] = 1
    v = rng.choice([-1.0, 1.0], size=(2, tries))
    w = rng.standard_normal((tries, features + 1))
    w[1::4], w[2::4] = z[0, 1::4], z[0, 2::4] - z[1, 2::4]  # along a row, or between two
    norm = np.linalg.norm(w, axis=1, keepdims=True)
    w *= radius * rng.choice([-1, 1, 0.5], size=(tries, 1)) / np.maximum(norm, 1e-9)

    def log(side, at):
        return -((v[side] - np.einsum("ni,ni->n", z[side], at)) ** 2) / (2 * sd**2)

    def steepest(change):
        moves = step * np.eye(features + 1)
        parts = [(change(w + move) - change(w - move)) / (2 * step) for move in moves]
        return np.linalg.norm(np.stack(parts, axis=1), axis=1).max()

    law = regression_law_of(features, sd, 1.5, radius)
    one = steepest(lambda at: log(0, at))
    pair = max(steepest(lambda at: log(0, at) - log(1, at)), one)
    for relation, found in (("add_remove", one), ("replace_one", pair)):
        gradient, curve = draw_gradient(law, regression_schema(relation, features))
        assert found <= gradient * (1 + 1e-6)
        assert found > (0.99 if relation == "add_remove" else 0.6) * gradient
        assert curve == pytest.approx(1 / 1.5**2)
        several = draw_gradient(law, regression_schema(relation, features, 3))[0]
        assert several == pytest.approx(3 * gradient)


def test_a_regression_needs_a_delta():
    law, schema = regression_law_of(2, 0.5, 1.0, 1.0), regression_schema("replace_one", 2)
    assert draw_range(law, schema) == math.inf
    with pytest.raises(BudgetError, match="delta=1e-6"):
        calibrate_draw(Exponential(1), ConjugateDraw(law), schema)


# Profiles


def excess(logs, log_weight, mu):
    """How far the profile, both ways round, lies above that of a Gaussian; and how near it comes.

    `logs` are two log densities without normalisers, on points with these log weights.
    """
    masses = []
    for log in logs:
        weight = np.exp(log + log_weight - (log + log_weight).max())
        masses.append(weight / weight.sum())
    above, near = -1.0, 0.0
    for epsilon in (0.0, mu, mu + mu**2 / 2, 3 * mu + mu**2 / 2):
        promised = gaussian_delta(mu, epsilon)
        for p, q in (masses, masses[::-1]):
            found = np.maximum(p - math.exp(epsilon) * q, 0).sum()
            above = max(above, found - promised)
            near = max(near, found / promised) if promised > 1e-9 else near
    return above, near


def mean_log_density(query, schema, rows, theta, temperature):
    """The exponent of the law that the wall draws from."""
    middle, half = scale_of(schema["x"])
    scaled = (np.asarray(rows, float) - middle) / half
    moments = np.array([[len(rows), scaled.sum()], [scaled.sum(), 0.0]])
    mean, sd = mean_and_sd(query, moments, temperature, schema)
    return -0.5 * ((theta - mean) / sd) ** 2


def mean_neighbours(relation, k):
    """Few rows and many at the bounds or between; a unit of k rows that moves, comes or goes."""
    for n, where in product((0, 1, 60), (0.0, 1.0)):
        base = [where] * n
        for x in (0.0, 0.5, 1.0):
            yield base, base + [x] * k  # a missing value is like none
            if relation == "replace_one":
                for other in (0.0, 1.0):
                    yield base + [x] * k, base + [other] * k


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("interval", [(0.0, 1.0), (-2.0, 3.0), (1.5, 2.0)])
@pytest.mark.parametrize("k", [1, 3])
def test_draws_of_a_mean_are_as_private_as_gaussian_noise(relation, interval, k):
    schema = mean_schema(relation, k)
    share = np.concatenate([np.linspace(0, 1, 1501), np.geomspace(1e-7, 1e-3, 60)])
    share = np.unique(np.concatenate([share, 1 - share]))
    theta = interval[0] + (interval[1] - interval[0]) * share
    width = np.gradient(theta)
    width[[0, -1]] /= 2
    closest = twin = 0.0
    within = (sum(interval) / 2, 0.06 * (interval[1] - interval[0]))  # the bounds are not felt
    for sd, prior, temper in product(
        (0.3, 2.0), (within, (0.5, 0.1), (3.0, 0.3), (0.5, 20.0)), (False, True)
    ):
        query = ConjugateDraw(BoundedNormal("x", sd, prior, *interval), temper_prior=temper)
        gradient, curve = draw_gradient(query.law, schema)
        for wanted in (0.3, 2.0):
            temperature = max(1.0, (gradient / math.sqrt(curve) / wanted) ** (2 if temper else 1))
            mu = gradient / math.sqrt(curve) / (math.sqrt(temperature) if temper else temperature)
            for pair in mean_neighbours(relation, k):
                logs = [mean_log_density(query, schema, rows, theta, temperature) for rows in pair]
                above, near = excess(logs, np.log(width), mu)
                assert above < 1e-5, (sd, prior, temper, mu, pair)
                closest, twin = (
                    max(closest, near),
                    max(twin, excess(logs, np.log(width), mu / 2)[0]),
                )
    # The neighbours are no straw men: half the gradient would be too little.
    assert closest > 0.3
    assert twin > 1e-3


def test_far_bounds_leave_two_normals_whose_distance_is_known():
    """Equal variances: mu is the distance in standard deviations, and the claim is its limit."""
    schema = mean_schema("replace_one")
    for prior_sd, n in ((0.02, 1), (0.02, 100), (0.02, 10_000)):
        query = ConjugateDraw(BoundedNormal("x", 1.0, (0.5, prior_sd), 0.0, 1.0))
        found = calibrate_draw(Exponential("0.01", 1e-9), query, schema)
        temperature = found.noise[0].scale
        assert "Gaussian" in found.accountant
        assert temperature > 1
        laws = []
        for x in (0.0, 1.0):
            total = (n - 1) * 0.0 + (2 * x - 1)  # the others in the middle
            moments = np.array([[n, total], [total, 0.0]])
            laws.append(mean_and_sd(query, moments, temperature, schema))
        (first, sd), (second, same) = laws
        assert sd == same
        exact = (second - first) / sd
        gradient, curve = draw_gradient(query.law, schema)
        claimed = gradient / math.sqrt(curve) / temperature
        assert exact <= claimed
        assert exact == pytest.approx(claimed * sd / prior_sd, rel=1e-9)
        assert gaussian_delta(exact, 0.01) <= 1e-9
        if n == 1:
            assert exact == pytest.approx(claimed, rel=1e-3)
            assert gaussian_delta(1.01 * exact, 0.01) > 1e-9


EVERYWHERE = (-math.inf, math.inf)


@pytest.mark.parametrize("interval", [EVERYWHERE, *INTERVALS])
def test_a_public_number_of_rows_makes_the_gradient_constant(interval):
    law = BoundedNormal("x", 0.7, (0.0, 0.5), *interval)
    gradient, curve = draw_gradient(law, mean_schema("replace_one", low=-2, high=0.7, default=0.0))
    assert gradient == pytest.approx(2.7 / 0.49)
    assert gradient >= 2.7 / 0.49
    assert curve == 4.0


@pytest.mark.parametrize(
    "options",
    [
        {"neighbours": "add_remove", "default": 0.5},
        {"neighbours": "replace_one"},
        {"neighbours": "replace_one", "rows": 2, "default": 0.5},
    ],
)
def test_nothing_bounds_a_mean_without_an_interval_unless_rows_are_public(options):
    law, schema = BoundedNormal("x", 0.7, (0.0, 0.5), *EVERYWHERE), mean_schema(**options)
    assert draw_range(law, schema) == math.inf
    assert draw_gradient(law, schema)[0] == math.inf
    for delta in (0, 1e-6):
        with pytest.raises(BudgetError, match=r"truncation=\(0, 1\), or a delta and.*default="):
            calibrate_draw(Exponential(1, delta), ConjugateDraw(law), schema)


def test_a_mean_without_an_interval_needs_a_delta():
    law, schema = (
        BoundedNormal("x", 0.7, (0.0, 0.5), *EVERYWHERE),
        mean_schema("replace_one", default=0),
    )
    with pytest.raises(BudgetError, match="delta=1e-6"):
        calibrate_draw(Exponential(1), ConjugateDraw(law), schema)


@pytest.mark.parametrize("temper", [False, True])
@pytest.mark.parametrize("draws", [1, 5])
@pytest.mark.parametrize(("sd", "prior_sd"), [(0.05, 0.02), (1.0, 0.02), (0.3, 1.0), (0.3, 50.0)])
def test_a_mean_without_an_interval_keeps_its_exact_profile(temper, draws, sd, prior_sd):
    """Two normal laws of the same variance: delta(epsilon) is known, at the worst neighbours."""
    schema = mean_schema("replace_one", low=-1.0, high=3.0, default=0.0)
    query = ConjugateDraw(BoundedNormal("x", sd, (0.3, prior_sd), *EVERYWHERE), draws, temper)
    epsilon, delta = 0.2, 1e-3
    found = calibrate_draw(Exponential(epsilon, delta), query, schema)
    assert "Gaussian" in found.accountant
    spent = float(found.cost.epsilon)

    def distance(temperature, n):
        moments = [np.array([[n, s], [s, 0.0]]) for s in (n - 2.0, n)]  # one low, or all high
        (one, width), (other, same) = (mean_and_sd(query, m, temperature, schema) for m in moments)
        assert width == same
        assert width <= query.law.measure(temperature if temper else 1.0)[1]
        return (other - one) / width * math.sqrt(draws)

    temperature = found.noise[0].scale
    mus = [distance(temperature, n) for n in (1, 2, 50, 10**6)]
    assert mus == sorted(mus, reverse=True)
    assert gaussian_delta(mus[0], spent) <= delta
    gradient, curve = draw_gradient(query.law, schema)
    claimed = gradient / math.sqrt(curve) * math.sqrt(draws) / temperature ** (0.5 if temper else 1)
    share = 1 + prior_sd**2 / sd**2 / (1 if temper else temperature)  # what a single row sharpens
    assert mus[0] == pytest.approx(claimed / math.sqrt(share), rel=1e-9)
    if share < 1.01:
        assert gaussian_delta(1.02 * mus[0], spent) > delta


@pytest.mark.parametrize("temper", [False, True])
@pytest.mark.parametrize("draws", [1, 4])
def test_temperatures_spend_what_was_offered(temper, draws):
    law, schema = regression_law_of(1, 0.5, 1.0, 1.0), regression_schema("replace_one", 1)
    query = ConjugateDraw(law, draws, temper_prior=temper)
    gradient, curve = draw_gradient(law, schema)
    found = calibrate_draw(Exponential(1, 1e-6), query, schema)
    temperature = found.noise[0].scale
    curve = curve / temperature if temper else curve
    mu = gradient / temperature / math.sqrt(curve) * math.sqrt(draws)
    assert 0.9999 < gaussian_epsilon(mu, 1e-6) <= 1
    assert found.cost.epsilon == 1
    cheap = calibrate_draw(Exponential(1000, 1e-6), query, schema)
    mu = gradient * math.sqrt(draws)
    assert cheap.noise[0].scale == 1
    assert float(cheap.cost.epsilon) == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-5)
    assert float(cheap.cost.epsilon) >= gaussian_epsilon(mu, 1e-6)


def test_the_lower_temperature_of_the_two_is_taken():
    schema = mean_schema("replace_one")
    for prior_sd, by in ((0.01, "Gaussian"), (100.0, "bounded range")):
        query = ConjugateDraw(BoundedNormal("x", 0.1, (0.5, prior_sd), 0.0, 1.0))
        found = calibrate_draw(Exponential(1, 1e-6), query, schema)
        assert by in found.accountant
        pure = calibrate_draw(Exponential(1), query, schema)
        assert found.noise[0].scale <= pure.noise[0].scale
        assert "pure" in pure.accountant


def disc(radius, rings=90, angles=90):
    """Points of a disc and the logarithms of their areas."""
    r = radius * (np.arange(rings) + 0.5) / rings
    angle = 2 * np.pi * (np.arange(angles) + 0.5) / angles
    x = np.stack([r[:, None] * np.cos(angle), r[:, None] * np.sin(angle)], axis=-1)
    return x.reshape(-1, 2), np.repeat(np.log(r), angles)


def row(u, v):
    return np.outer((1, u, v), (1, u, v))


def regression_log_density(query, moments, points, temperature):
    mean, precision = regression_law(query, moments, temperature)
    return points @ (precision @ mean) - 0.5 * np.einsum("ni,ij,nj->n", points, precision, points)


def regression_neighbours(relation, k, rng):
    corners = [row(u, v) for u in (-1, 1) for v in (-1, 1)]
    some = [*corners, row(0, 1), row(*rng.uniform(-1, 1, 2)), np.zeros((3, 3))]
    few = sum(row(*rng.uniform(-1, 1, 2)) for _ in range(4))
    many = 30 * (corners[1] + corners[2])
    bases = [0 * few, corners[0], 5 * corners[3], corners[0] + corners[1], few, many]
    for base in bases:
        for i, one in enumerate(some):
            if relation == "add_remove":
                yield base, base + k * one
                continue
            for other in some[i + 1 :]:
                yield base + k * one, base + k * other


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("radius", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("temper", [False, True])
def test_draws_of_coefficients_are_as_private_as_gaussian_noise(relation, radius, temper):
    """A constant and one feature; both ways round, at four epsilons."""
    closest = twin = 0.0
    # In the middle of the ball a row's gradient has nothing of its radius.
    ball = math.sqrt(2) * radius
    middle = 1 / (ball + 1) if relation == "add_remove" else 2 / (ball + 2)
    for sd, scale, k in (
        (1.0, radius / 9, 1),
        (0.2, 0.3, 1),
        (1.0, 1.0, 1),
        (1.0, 6.0, 2),
        (0.2, 6.0, 1),
    ):
        query = ConjugateDraw(regression_law_of(1, sd, scale, radius), temper_prior=temper)
        gradient, curve = draw_gradient(query.law, regression_schema(relation, 1, k))
        for wanted in (0.3, 2.0):
            temperature = max(1.0, (gradient / math.sqrt(curve) / wanted) ** (2 if temper else 1))
            mu = gradient / math.sqrt(curve) / (math.sqrt(temperature) if temper else temperature)
            spread = scale * math.sqrt(temperature if temper else 1.0)
            points, log_area = disc(min(radius, 9 * spread))
            rng = np.random.default_rng(7)
            for pair in regression_neighbours(relation, k, rng):
                logs = [regression_log_density(query, m, points, temperature) for m in pair]
                above, near = excess(logs, log_area, mu)
                assert above < 1e-5, (sd, scale, k, mu, pair)
                closest = max(closest, near)
                twin = max(twin, excess(logs, log_area, 0.9 * middle * mu)[0])
    assert closest > 0.05
    assert twin > 1e-3  # a gradient of less than that is not enough


def test_a_regression_without_a_ball_has_no_bound_for_all_n():
    """Why there is none: one row moves the posterior by ever more of its standard deviations."""

    def gradient(n):
        z, y = np.full(n, n**-0.5), np.ones(n)
        other_z, other_y = z.copy(), y.copy()
        other_z[0], other_y[0] = 1.0, -1.0
        precision = [1 + z @ z, 1 + other_z @ other_z]
        mean = [z @ y / precision[0], other_z @ other_y / precision[1]]
        return abs(mean[0] - mean[1]) * precision[0] ** 0.5

    assert [round(gradient(n), 1) for n in (100, 10**4, 10**6)] == [2.9, 24.0, 236.2]

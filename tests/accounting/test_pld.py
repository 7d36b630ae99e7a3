"""Privacy loss distributions against a second computation, dp-accounting and concrete data."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as theirs
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy.stats import norm

from tacit.accounting import epsilon, gaussian_epsilon
from tacit.accounting.pairs import Exchange, Pure, Ranged, add, opposite, remove, shift
from tacit.accounting.pld import discretise, pld_epsilon
from tests.accounting import independent

PAIRS = [
    shift(0.7),
    remove(0.8, 0.1),
    add(0.8, 0.1),
    opposite(0.8, 0.1),
    Exchange(0.8, 0.1),
    Pure(0.5),
    Ranged(0.5),
]


def one_step_delta(pair, epsilon, width=1e-3):
    """delta of one step at epsilon, by the masses of its grid."""
    first, masses, infinite = discretise(pair, width, 9.0)
    over = width * (first + np.arange(len(masses))) - epsilon
    return infinite + masses @ -np.expm1(-np.maximum(over, 0.0))


@pytest.mark.parametrize("geometry", ["free", "nonnegative", "simplex", "box"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("sampling", ["poisson", "wor"])
@pytest.mark.parametrize(("z", "rate", "steps"), [(1.0, 0.02, 100), (0.6, 0.3, 3)])
def test_a_second_computation_agrees(sampling, neighbours, geometry, z, rate, steps):
    mine = epsilon(
        noise_multiplier=z,
        steps=steps,
        sampling_rate=rate,
        delta=1e-5,
        neighbours=neighbours,
        sampling=sampling,
        geometry=geometry,
    )
    other = independent.epsilon(sampling, neighbours, geometry, z, rate, steps, 1e-5)
    assert mine == pytest.approx(other, rel=0.01)


@pytest.mark.parametrize(
    ("neighbours", "relation"),
    [
        ("add_remove", NeighboringRelation.ADD_OR_REMOVE_ONE),
        ("replace_one", NeighboringRelation.REPLACE_ONE),
    ],
)
@pytest.mark.parametrize(("z", "rate", "steps"), [(1.0, 0.01, 1000), (0.7, 0.2, 5), (5.0, 0.5, 10)])
def test_dp_accounting_agrees(neighbours, relation, z, rate, steps):
    pld = theirs.from_gaussian_mechanism(
        z,
        sampling_prob=rate,
        value_discretization_interval=1e-4,
        neighboring_relation=relation,
    )
    expected = pld.self_compose(steps).get_epsilon_for_delta(1e-5)
    mine = epsilon(
        noise_multiplier=z, steps=steps, sampling_rate=rate, delta=1e-5, neighbours=neighbours
    )
    assert mine == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("steps", [10, 1000, 32641, 10**6])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12, 1e-60])
def test_composed_gaussians_match_the_exact_profile_at_any_delta(steps, delta):
    exact = gaussian_epsilon(1.5, delta)
    found = pld_epsilon(((shift(1.5 / math.sqrt(steps)), steps),), delta)
    assert exact * (1 - 1e-9) <= found <= exact * 1.001


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_grid_keeps_all_mass_and_only_adds_to_delta(pair):
    first, masses, infinite = discretise(pair, 0.01, 9.0)
    losses = 0.01 * (first + np.arange(len(masses)))
    assert masses.min() >= 0
    assert masses.sum() + infinite == pytest.approx(1, abs=1e-12)
    # Masses under Q, too, add up to one: nothing moved up for free.
    assert masses @ np.exp(-losses) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_ten_single_steps_are_one_composition(pair):
    apart = pld_epsilon(((pair, 1),) * 10, 1e-5)
    assert apart == pytest.approx(pld_epsilon(((pair, 10),), 1e-5), rel=1e-6)


def test_randomised_response_composes_exactly():
    # 20 draws with losses +-1: the sum of binomial terms, and the grid adds nothing.
    more = 1 / (1 + math.exp(-1))
    top = pld_epsilon(((Pure(1.0), 20),), 1e-5)
    exact = sum(
        math.comb(20, k)
        * more**k
        * (1 - more) ** (20 - k)
        * max(0, -math.expm1(top - (2 * k - 20)))
        for k in range(21)
    )
    assert exact == pytest.approx(1e-5, rel=1e-6)
    assert top == pytest.approx(19.99, abs=0.01)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.1])
@pytest.mark.parametrize("rate", [1e-9, 1e-4, 0.5])
@pytest.mark.parametrize("kind", [remove, add, opposite, Exchange])
def test_what_doubles_cannot_resolve_is_bounded(kind, mu, rate):
    # Nearly Gaussian with the deviation of the loss: never less, and little where it matters.
    found = pld_epsilon(((kind(mu, rate), 10**4),), 1e-12)
    spread = 100 * rate * mu * (2 if kind is opposite else 1)
    expected = gaussian_epsilon(spread, 1e-12)
    assert found >= expected * 0.99
    if rate * mu > 1e-8 and rate > 1e-5:
        assert found <= expected * 1.1
    assert found < 1e-3 or rate * mu > 1e-8


def test_next_to_nothing_beside_something_is_next_to_nothing():
    alone = pld_epsilon(((remove(0.5, 0.1), 50),), 1e-6)
    for trifle in (Pure(1e-9), Ranged(1e-6), remove(1e-6, 0.5), Exchange(1.0, 1e-9)):
        both = pld_epsilon(((remove(0.5, 0.1), 50), (trifle, 1)), 1e-6)
        assert both == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("rate", [0.02, 0.4, 0.9])
@pytest.mark.parametrize("sigma", [0.5, 1.5])
@pytest.mark.parametrize("level", [-0.5, 0.0, 0.3, 1.5])
def test_the_worst_inner_product_is_the_smallest(rate, sigma, level):
    """The step of the proof for replace-one Poisson sampling: divergence falls in <u, u'>."""
    x = np.linspace(-8, 8, 321) * max(1, sigma)
    area = (x[1] - x[0]) ** 2
    left, right = np.meshgrid(x, x, indexing="ij")

    def law(cosine):
        return (1 - rate) * norm.pdf(left, 0, sigma) * norm.pdf(right, 0, sigma) + rate * norm.pdf(
            left, cosine, sigma
        ) * norm.pdf(right, math.sqrt(1 - cosine**2), sigma)

    p = law(1.0)
    divergences = [independent.hockey_stick(p, law(c), level, area) for c in np.linspace(-1, 1, 9)]
    assert np.all(np.diff(divergences) <= 1e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("geometry", ["free", "box"])
@pytest.mark.parametrize("sampling", ["poisson", "wor"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_no_concrete_neighbours_are_easier_to_tell_apart(neighbours, sampling, geometry, seed):
    """Every batch of a small data set enumerated: from below, the pair is never exceeded."""
    rng = np.random.default_rng(seed)
    z, low = rng.uniform(0.4, 2), (-1.0 if geometry == "free" else 0.0)
    units = rng.choice([low, 0.0, 1.0], 5) if seed % 2 else rng.uniform(low, 1, 5)
    other = units.copy()
    other[0] = rng.choice([low, 1.0])
    units[0] = -other[0] if geometry == "free" else 1 - other[0]
    if neighbours == "add_remove":
        units = units[1:]
    x = np.linspace(-6 - 9 * z, 6 + 9 * z, 20001)
    if sampling == "wor":
        rate = 2 / 5
        p, q = (independent.batch_density(x, some, 2, z) for some in (units, other))
    else:
        rate = 0.3
        p, q = (independent.poisson_density(x, some, rate, z) for some in (units, other))
    for target in (1e-1, 1e-2, 1e-4):
        claimed = epsilon(
            noise_multiplier=z,
            sampling_rate=rate,
            delta=target,
            neighbours=neighbours,
            sampling=sampling,
            geometry=geometry,
        )
        for one, two in ((p, q), (q, p)):
            assert independent.hockey_stick(one, two, claimed, x[1] - x[0]) <= target * (1 + 1e-6)


def test_batches_of_fixed_size_attain_their_bound():
    # All units at -1 but one at +1, or at -1 too: the curve is not loose at its first direction.
    z, x = 1.0, np.linspace(-20, 20, 40001)
    p = independent.batch_density(x, [1, -1, -1, -1, -1], 2, z)
    q = independent.batch_density(x, [-1, -1, -1, -1, -1], 2, z)
    claimed = one_step_delta(Exchange(2.0, 0.4), 1.0)
    attained = independent.hockey_stick(p, q, 1.0, x[1] - x[0])
    assert attained * (1 - 1e-6) <= claimed <= 1.001 * attained


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.5, 0.999])
@pytest.mark.parametrize("mu", [0.01, 1.0, 8.0])
def test_the_curve_without_replacement_is_stable(mu, rate):
    grid = np.array([0.0, 0.1, 1.0, 3.0, 10.0])
    found = np.array([one_step_delta(Exchange(mu, rate), e, 1e-2) for e in grid])
    assert np.all(np.diff(found) <= 0)
    assert np.all(found >= independent.exchange_curve(grid, mu, rate) * (1 - 1e-6))


def test_sampling_without_replacement_matches_dp_accountings_connected_dots():
    """The published curve, discretised and composed by dp-accounting alone."""
    from dp_accounting.pld import pld_pmf

    z, rate, steps, moved = 1.24, 0.05, 20, math.sqrt(2)

    def curve(level):
        e = abs(level)
        x = z**2 / moved * math.log((math.exp(e) - 1 + rate) / rate) + moved / 2
        one = norm.sf(x / z)
        delta = (1 - rate) * one + rate * norm.sf((x - moved) / z) - math.exp(e) * one
        return delta if level >= 0 else 1 - math.exp(level) + math.exp(level) * delta

    width, most = 1e-3, 8000
    deltas = np.array([curve(width * i) for i in range(-most, most + 1)])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        width, -most, most, np.maximum(deltas, 0.0)
    )
    expected = pmf.self_compose(steps).get_epsilon_for_delta(1e-4)
    mine = epsilon(
        noise_multiplier=z,
        steps=steps,
        sampling_rate=rate,
        delta=1e-4,
        neighbours="replace_one",
        sampling="wor",
        geometry="nonnegative",
    )
    assert mine == pytest.approx(expected, rel=0.005)

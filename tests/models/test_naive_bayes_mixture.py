"""Causes and classes that nobody recorded: their posterior given noisy sums.

Seeds of noise are fixed, on public data, so that nothing here fails by chance.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

import tacit
from tacit.infer.belief_networks import Parts, network_posterior
from tacit.infer.denoise import adding_up, class_sums
from tacit.spec.variational import FitSetting, VIPSSchedule


def one_class(levels, epsilon, neighbours="replace_one"):
    """Of 20 simulated tables: how often 90% intervals hold the common level's share; its means.

    Were they apart, 12 or fewer of 20 would be held once in 2,000. The prior is as sparse as the
    truth: one of 1 for each of 100 levels says that no level is common, with noise or without.
    """
    described = tacit.Schema(
        tacit.Categorical("x", list(range(levels)), default=0), neighbours=neighbours
    )
    model, truth, held, means = (
        tacit.NaiveBayesMixture(1, "x", prior=0.01),
        0.9 + 0.1 / levels,
        0,
        [],
    )
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random(3000) < 0.9, 0, rng.integers(0, levels, 3000))
        public = tacit.Public({"x": x}, described, seed=seed)
        how = tacit.VIPS(epsilon, 1e-6, n_units=3000)
        p = tacit.fit(model, public, how, seed=seed, draws=200, progress=False).flat("p(x)")[
            :, 0, 0
        ]
        low, high = np.quantile(p, [0.05, 0.95])
        held, means = held + (low <= truth <= high), [*means, p.mean()]
    return held, np.mean(means) - truth


@pytest.mark.parametrize(
    ("levels", "epsilon", "neighbours"),
    [
        (100, 1, "replace_one"),
        (100, 0.1, "replace_one"),
        (100, 1, "add_remove"),
        (2, 0.3, "replace_one"),
    ],
)
def test_many_empty_levels_take_nothing_from_a_common_one(levels, epsilon, neighbours):
    """Cut off at half a standard deviation, noise in empty levels left .32 of .9 at epsilon .1."""
    held, away = one_class(levels, epsilon, neighbours)
    assert held > 12
    assert abs(away) < 0.025


def test_steps_are_averaged_until_classes_are_found():
    """Ten steps of their own lost .33 per row to the truth here; without noise all steps count."""
    rng = np.random.default_rng((2, 3, 6, 3))
    weights, p = rng.dirichlet(np.full(3, 5.0)), rng.dirichlet(np.full(3, 0.7), (6, 3))
    z = rng.choice(3, 20_000, p=weights)
    codes = [(rng.random(z.size)[:, None] > q[z].cumsum(axis=1)[:, :-1]).sum(axis=1) for q in p]
    joint = weights * np.prod([q[:, code].T for q, code in zip(p, codes, strict=True)], axis=0)
    data = {f"f{j}": code for j, code in enumerate(codes)}
    columns = [tacit.Categorical(name, [0, 1, 2], default=0) for name in data]
    described = tacit.Schema(*columns, neighbours="replace_one")
    model, public = tacit.NaiveBayesMixture(3, list(data)), tacit.Public(data, described, seed=2)
    posterior = tacit.fit(model, public, tacit.VIPS(4, 1e-6), draws=50, chains=1, progress=False)
    lost = np.log(joint.sum(axis=1)).mean() - posterior.log_likelihood(data).mean()
    assert lost < 0.03
    assert model.variational(described, FitSetting(20_000, 0.0)).schedule == VIPSSchedule(100)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_numbers_add_up_and_are_not_negative(seed):
    rng = np.random.default_rng(seed)
    counts, sd = rng.integers(1, 30, rng.integers(1, 4)), 10.0 ** rng.uniform(-9, 9)
    first = np.cumsum([0, *counts[:-1]])
    values = rng.normal(0, 10.0 ** rng.uniform(-3, 6), (2, counts.sum())) + sd
    totals = 10.0 ** rng.uniform(-3, 6, (2, counts.size)) * rng.integers(0, 2, (2, counts.size))
    cells = adding_up(values, sd, first, totals)
    assert np.all(cells >= 0)
    np.testing.assert_allclose(np.add.reduceat(cells, first, axis=-1), totals, rtol=1e-6)


def test_large_numbers_stay_where_empty_ones_are_cleared():
    rng = np.random.default_rng(0)
    truth = np.concatenate([[500.0, 300.0, 200.0], np.zeros(300)])
    values = truth + rng.normal(0, 10, truth.size)
    cells = adding_up(values, 10.0, np.array([0]), np.array([1000.0]))
    np.testing.assert_allclose(cells[:3], values[:3], atol=5)
    assert cells[3:].sum() < 60  # where cut off alone they are 1,200


def test_a_sample_of_rows_need_not_add_up_to_all():
    values, noise = np.array([[100.0, 10_000.0]]), np.zeros((3, 1, 2))
    for n, rows in ((9_000, 10_100), (10_100, 10_100)):
        some, cells = class_sums(values, 0.1, np.array([0]), n, noise)
        np.testing.assert_allclose(some, rows)
        np.testing.assert_allclose(cells, np.tile(values, (3, 1, 1)))


def parts(hidden, squares=None, sd=0.0):
    size = len(hidden)
    squares = np.eye(size)[None] if squares is None else squares
    return Parts(np.array(hidden, float), np.zeros((len(squares), size)), squares, sd)


@pytest.mark.parametrize("scale", [0.1, 3.0, 100.0])
def test_log_odds_of_hidden_units_are_at_their_mode(scale):
    """By weights, 20 rounds from 0, log odds of .01 were -4.39, and sds 3 to 7 times too small."""
    n, on = 1e5, np.array([0, 10, 1000, 5e4, 99_990])
    network = network_posterior(parts([n, *on]), scale)
    for k, odds in enumerate(network.odds):
        mode = brentq(lambda x, k=k: on[k] - n * expit(x) - x / scale**2, -40, 40)
        assert odds == pytest.approx(mode, abs=1e-6)
        curvature = n * expit(mode) * expit(-mode) + scale**-2
        assert network.odds_sd[k] == pytest.approx(curvature**-0.5, rel=1e-6)


def test_noise_alone_tells_no_direction_from_another():
    """Eigenvalues of noise reach 2 sd sqrt(size), and in none of 50 matrices 1.3 times that."""
    rng, size, sd = np.random.default_rng(0), 12, 1000.0
    noise = np.triu(rng.normal(0, sd / 4, (50, size, size)))
    noise = noise + np.triu(noise, 1).swapaxes(1, 2)
    network = network_posterior(parts([1e6] + [5e5] * (size - 1), noise, sd), 3.0)
    precision = 1 / np.linalg.eigvalsh(network.covariance)
    assert np.all(precision.max(axis=1) < 1.3 * precision.min(axis=1))


def test_little_noise_leaves_as_many_steps_as_none():
    """At epsilon 100, 20 steps of 20,000 rows lost .01 more per row to the truth than 60."""
    described = tacit.Schema(
        *(tacit.Categorical(name, ["no", "yes"], default="no") for name in "abcd"),
        neighbours="replace_one",
    )
    model = tacit.SigmoidBeliefNetwork(2, list("abcd"))
    settings = [FitSetting(20_000, noise) for noise in (0.0, 0.2, 2, 50)]
    found = [model.variational(described, setting).schedule for setting in settings]
    steps = [VIPSSchedule(60), VIPSSchedule(60), VIPSSchedule(20), VIPSSchedule(8, growth=1.1)]
    assert found == steps

"""A linear model of released gradients: its posterior, against closed forms and other samplers."""

import numpy as np
import pytest

from tacit.infer.linearised import (
    Linearised,
    Observed,
    adapted,
    estimated,
    newton_step,
    overshot,
    walked_draws,
)
from tacit.spec.packing import packed_size, symmetric, upper
from tacit.spec.walks import Frame

SIZE, N = 3, 1000.0


def positive(seed, scale=1.0):
    root = np.random.default_rng(seed).normal(size=(SIZE, SIZE))
    return scale * (root @ root.T / SIZE + np.eye(SIZE))


def frame(seed=0):
    rng = np.random.default_rng(seed)
    return Frame(rng.normal(size=SIZE), rng.normal(size=(SIZE, SIZE)) + 2 * np.eye(SIZE))


def law(hessian_sd=0.0):
    gradient = np.random.default_rng(1).normal(0, 40, SIZE)
    return Linearised(frame(), gradient, positive(2, 500), positive(3, N), hessian_sd, level_sd=0.0)


def closed_form(made, mean, precision):
    """The posterior of psi by regression of the gradient on H psi, noise H + W, then in vectors."""
    basis, origin = made.frame.basis, made.frame.origin
    weight = np.linalg.inv(made.hessian + made.noise)
    total = made.hessian @ weight @ made.hessian + basis.T @ precision @ basis
    linear = made.hessian @ weight @ made.gradient + basis.T @ precision @ (mean - origin)
    covariance = np.linalg.inv(total)
    return origin + basis @ covariance @ linear, basis @ covariance @ basis.T


def test_draws_under_a_normal_prior_have_the_law_in_closed_form():
    """20,000 draws: means within 6 standard errors, covariances within 6%. False alarms 1e-6."""
    made, mean, precision = law(), np.ones(SIZE), positive(4, 30)
    centre, covariance = closed_form(made, mean, precision)
    draws = made.normal_draws(mean, precision, 20_000, np.random.default_rng(5))
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(draws.mean(axis=0) - centre) < 6 * sd / np.sqrt(20_000))
    assert np.abs((np.cov(draws.T) - covariance) / np.outer(sd, sd)).max() < 0.06


def test_privacy_noise_widens_and_is_left_out_by_the_plug_in():
    made, flat = law(), 1e-6 * np.eye(SIZE)
    sds = [
        made.normal_draws(np.zeros(SIZE), flat, 4000, np.random.default_rng(1), aware=aware).std(0)
        for aware in (True, False)
    ]
    assert np.all(sds[0] > 1.1 * sds[1])
    sure = made.frame.basis @ np.linalg.inv(made.hessian) @ made.frame.basis.T
    np.testing.assert_allclose(sds[1], np.sqrt(np.diag(sure)), rtol=0.08)


def test_an_uncertain_hessian_widens():
    flat = 1e-6 * np.eye(SIZE)
    sds = [
        law(sd).normal_draws(np.zeros(SIZE), flat, 4000, np.random.default_rng(1)).std(axis=0)
        for sd in (0.0, 0.4 * N)
    ]
    assert np.all(sds[1] > 1.1 * sds[0])


def test_nuts_agrees_with_the_closed_form():
    """4,000 draws of 16 chains, worth 400 or more: means within 0.3 sd, sds within 25%."""
    pytest.importorskip("jax")
    made, mean, precision = law(), np.ones(SIZE), positive(4, 30)
    centre, covariance = closed_form(made, mean, precision)

    def log_prior(vector):
        return -0.5 * (vector - mean) @ precision @ (vector - mean)

    draws, stuck = walked_draws(made, precision, log_prior, 4000, seed=1)
    assert not stuck
    sd = np.sqrt(np.diag(covariance))
    assert draws.shape == (4000, SIZE)
    assert np.all(np.abs(draws.mean(axis=0) - centre) < 0.3 * sd)
    np.testing.assert_allclose(draws.std(axis=0), sd, rtol=0.25)


def test_nuts_begins_where_the_prior_has_mass():
    """A direction without information, in which the gradient alone is off by a hundred."""
    jnp = pytest.importorskip("jax.numpy")
    hessian, noise = np.diag([N, N, 50.0]), np.diag([N, N, 1e8])
    gradient = np.array([3.0, -3.0, 5000.0])  # half a standard deviation
    made = Linearised(Frame(np.zeros(SIZE), np.eye(SIZE)), gradient, noise, hessian, 0.0, 0.0)
    draws, stuck = walked_draws(  # exp(100) is infinite in single precision
        made, np.eye(SIZE), lambda v: jnp.sum(v - jnp.exp(v)), 2000, seed=1
    )
    assert not stuck
    # The prior's own mean is -0.58 and its sd 1.28. 2,000 draws of 16 chains, worth 400 or more.
    assert abs(draws[:, 2].mean() + 0.58) < 0.35
    assert 1.0 < draws[:, 2].std() < 1.6


def test_gradients_at_several_points_are_one_by_their_precisions():
    """Of noiseless gradients s - H psi nothing is lost, wherever they were asked."""
    hessian, here = positive(3, N), frame()
    score = np.array([5.0, -3.0, 1.0])
    places = np.random.default_rng(6).normal(size=(4, SIZE))
    parts = [
        Linearised(here.moved(at), score - hessian @ at, variance * np.eye(SIZE), hessian, 0.0, 0.0)
        for at, variance in zip(places, (1.0, 4.0, 2.0, 8.0))
    ]
    one = Linearised.combined(parts, here)
    np.testing.assert_allclose(one.gradient, score, atol=1e-8)
    np.testing.assert_allclose(one.noise, np.eye(SIZE) / (1 + 1 / 4 + 1 / 2 + 1 / 8))


def observed(hessian, sd):
    value = np.concatenate([np.zeros(SIZE), upper(hessian) / SIZE**0.5, [N]])
    return Observed.of(frame(), value, sd)


def test_what_is_released_is_read_back():
    made = observed(positive(3, N), sd=7.0)
    np.testing.assert_allclose(made.hessian, positive(3, N))
    assert made.rows == N
    assert made.hessian_sd == pytest.approx(7.0 * SIZE**0.5)


@pytest.mark.parametrize("sd", [1e-3, 30.0, 1e5])
def test_noise_alone_does_not_lead_coordinates_astray(sd):
    """The curvature is 1 in truth; 200 noisy Hessians, none adapted to less than a half of it."""
    rng = np.random.default_rng(7)
    for _ in range(200):
        noise = symmetric(rng.normal(0, sd * SIZE**0.5, packed_size(SIZE)), SIZE)
        values = np.linalg.eigvalsh(adapted(observed(N * np.eye(SIZE) + noise, sd), N))
        assert values[0] > 0.24
    assert np.linalg.eigvalsh(adapted(observed(4 * N * np.eye(SIZE), 1e-3), N))[0] > 3.9


def test_a_hessian_that_noise_hides_is_taken_for_the_identity():
    sure, *sds = estimated([observed(positive(3, N), 1e-3)], N)
    np.testing.assert_allclose(sure, positive(3), rtol=1e-3)
    assert max(sds) < 1e-3
    hidden, sd, level_sd = estimated([observed(positive(3, N), 1e6)], N)
    np.testing.assert_allclose(hidden, np.eye(SIZE), atol=1e-3)
    assert sd == pytest.approx((0.3 / SIZE) ** 0.5, rel=1e-3)
    assert level_sd == pytest.approx(0.5, rel=1e-3)


def test_the_mean_curvature_is_known_before_its_shape():
    """Noise of 0.5 in each entry, over 21 of them: curvatures of 0.2 are seen as such on average.

    The mean over 8 directions has an error of 0.5 / sqrt(8) = 0.18; with 400 draws, 6 standard
    errors are 0.05. False alarms 1e-8.
    """
    size, rng, levels, moved = 8, np.random.default_rng(8), [], []
    for _ in range(400):
        noise = symmetric(rng.normal(0, 0.5 * N, packed_size(size)), size)
        value = upper(0.8 * N * np.eye(size) + noise) / size**0.5
        here = Frame(np.zeros(size), np.eye(size))
        seen = Observed.of(here, np.concatenate([np.zeros(size), value, [N]]), 0.5 * N / size**0.5)
        found, *_ = estimated([seen], N)
        levels.append(np.trace(found) / size)
        moved.append(np.trace(adapted(seen, N)) / size)
    shrunk = 0.5**2 / (0.5**2 + 0.5**2 / size)  # towards 1, by the prior of the level
    assert np.mean(levels) == pytest.approx(1 - shrunk * 0.2, abs=0.05)
    assert np.mean(moved) < 0.95


def test_a_step_past_the_mode_raises_the_curvature_along_it():
    """Gradients that clips hold at 30 N either side: the line through both has its root between."""
    before, turn = frame(1), np.diag([1.0, 2.0, 0.5])
    there = before.moved(np.array([1.5, 0.0, 0.0]), turn)
    side = np.array([30 * N, 0.0, 0.0])

    def seen(at, gradient, sd):
        return Observed(at, gradient, np.eye(SIZE), N, sd)

    def raised(first, second, sd=1e-9):
        return overshot(np.eye(SIZE), seen(before, first, sd), seen(there, turn @ second, sd), N)

    step = there.basis @ np.linalg.solve(raised(side, -side), turn @ -side / N)
    assert np.allclose(there.origin + step, before.vectors(np.array([0.75, 0.0, 0.0])))
    # What never went past, what noise explains, and what the Hessian knew.
    assert np.array_equal(raised(side, side / 2), np.eye(SIZE))
    assert np.array_equal(raised(side, -side, sd=15 * N), np.eye(SIZE))
    assert np.array_equal(raised(side / 60, -side / 60), np.eye(SIZE))


def flat_law(gradient, sd):
    """Curvature 1 for each of N records, in coordinates of a unit."""
    here, noise = Frame(np.zeros(SIZE), np.eye(SIZE)), sd**2 * np.eye(SIZE)
    return Linearised(here, gradient, noise, N * np.eye(SIZE), 0.0, 0.0)


def test_a_step_without_noise_is_newtons_and_one_of_noise_alone_is_short():
    mean, precision = np.ones(SIZE), 2.0 * np.eye(SIZE)
    gradient = np.array([300.0, -200.0, 0.0])
    step, known = newton_step(flat_law(gradient, 1e-6), mean, precision)
    # (gradient + precision (mean - 0)) / (N + precision), and a trace of the longest step.
    assert np.allclose(step, (gradient + 2.0) / (N + 2.0), rtol=1e-3)
    assert np.allclose(known, N * np.eye(SIZE))
    loud = 100 * N
    noise = loud * np.random.default_rng(1).standard_normal((200, SIZE))
    steps = [newton_step(flat_law(each, loud), 0 * mean, 1e-6 * precision)[0] for each in noise]
    assert np.mean(np.linalg.norm(steps, axis=1)) < 0.05  # Newton's are cut at 1.5


def test_steps_average_over_what_earlier_gradients_said():
    """Without a prior the weights of gradients are 1, 0.4, 0.16, ...: the second moves 1 / 1.4."""
    law, nothing = flat_law(np.array([100.0, 0.0, 0.0]), 1e-6), 1e-12 * np.eye(SIZE)
    first, known = newton_step(law, np.zeros(SIZE), nothing)
    second, again = newton_step(law, np.zeros(SIZE), nothing, known)
    assert second[0] / first[0] == pytest.approx(1 / 1.4, rel=1e-3)
    assert np.allclose(again, 1.4 * known)

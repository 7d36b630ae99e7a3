"""Sums of values far beyond their bounds: the law of the sum still adds up to one."""

import numpy as np
import pytest

import tacit
from tacit.infer.latent_sum import _log_mass
from tacit.infer.one_parameter import normal


@pytest.mark.parametrize("n", [31, 100, 1000, 10_000])
def test_the_law_of_a_sum_near_a_bound_adds_up_to_one(n):
    means = np.array([-750.0, -300, -50, 0, 10, 50, 100, 200, 400, 850])
    mass = _log_mass(normal(0, 100, 7.0), means, n, 256)
    assert np.abs(mass).max() < 0.1


@pytest.mark.parametrize("mean", [35, 50, 65])
def test_a_draw_of_a_mean_is_not_explained_by_a_mean_far_away(mean):
    schema = tacit.Schema(tacit.Real("x", 0, 100, default=50), neighbours="replace_one")
    rng = np.random.default_rng(0)
    public = tacit.Public({"x": rng.normal(mean, 7, 1000)}, schema, seed=3)
    model = tacit.NormalMean("x", sd=7)
    low, high = tacit.fit(model, public, tacit.OnePosteriorSample(1), seed=0).interval(0.999)
    assert low < mean < high
    assert high - low < 30

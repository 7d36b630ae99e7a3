"""Sums of values far beyond their bounds: the law of the sum still adds up to one."""

import numpy as np
import pytest
from scipy.special import logsumexp

import tacit
from tacit.infer.one_parameter import normal


@pytest.mark.parametrize("n", [31, 100, 1000, 10_000])
@pytest.mark.parametrize("mean", [-750.0, -300, -50, 0, 10, 50, 100, 200, 400, 850])
def test_the_law_of_a_sum_near_a_bound_adds_up_to_one(n, mean):
    family, at = normal(0, 100, 7.0), np.array([mean])
    centre, variance = family.moments(family.natural(at))
    reach = 15 * np.sqrt(n * variance)
    ends = np.maximum(n * centre - reach, 0), np.minimum(n * centre + reach, 100 * n)
    step = (ends[1] - ends[0]) / 2000
    s = ends[0] + (np.arange(2000) + 0.5)[None] * step
    mass = logsumexp(family.log_density(s, at, n)) + np.log(step[0])
    assert abs(mass) < 0.1


@pytest.mark.parametrize("mean", [35, 50, 65])
def test_a_draw_of_a_mean_is_not_explained_by_a_mean_far_away(mean):
    schema = tacit.Schema(tacit.Real("x", 0, 100, default=50), neighbours="replace_one")
    rng = np.random.default_rng(0)
    public = tacit.Public({"x": rng.normal(mean, 7, 1000)}, schema, seed=3)
    model = tacit.NormalMean("x", sd=7)
    low, high = tacit.fit(model, public, tacit.OnePosteriorSample(1), seed=0).interval(0.999)
    assert low < mean < high
    assert high - low < 30

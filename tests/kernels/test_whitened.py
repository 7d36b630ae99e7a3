"""Gradients and Hessians of a logistic regression, shortened without a look at the target."""

import numpy as np
import pytest
from scipy.special import expit

from tacit.kernels.whitened import whitened_score_and_hessian
from tacit.spec.packing import packed_size, symmetric

ENCODING = (
    np.zeros(3), np.arange(3), np.zeros(3, np.int64), np.zeros(3), np.ones(3),
)  # fmt: skip


def contribution(x, y, theta, basis, clip):
    out = np.zeros(3 + packed_size(3) + 1)
    whitened_score_and_hessian(np.array([*x, y]), (theta, basis, np.array([clip]), *ENCODING), out)
    return out


@pytest.mark.parametrize("clip", [1.2, 1.5, 2.0, 4.0, 1e6])
def test_a_narrow_clip_moves_no_estimate(clip):
    """At the true coefficients the expected gradient is 0, whatever is shortened."""
    rng = np.random.default_rng(1)
    theta, basis = rng.normal(size=3), 3 * rng.normal(size=(3, 3))
    for x in rng.uniform(-1, 1, (20, 3)):
        p = expit(theta @ x)
        yes, no = (contribution(x, y, theta, basis, clip) for y in (1.0, 0.0))
        assert np.allclose(p * yes[:3] + (1 - p) * no[:3], 0, atol=1e-12)
        assert np.array_equal(yes[3:], no[3:])
        assert yes[-1] == 1.0
        assert max(np.linalg.norm(yes), np.linalg.norm(no)) <= clip * (1 + 1e-12)
        # Gradient and Hessian have one weight.
        z = basis.T @ x
        weight = (yes - no)[:3] @ z / (z @ z)
        assert weight <= 1 + 1e-12
        expected = weight * p * (1 - p) * np.outer(z, z)
        assert np.allclose(symmetric(yes[3:-1], 3) * 3**0.5, expected)
        if clip == 1e6:
            assert weight == pytest.approx(1)

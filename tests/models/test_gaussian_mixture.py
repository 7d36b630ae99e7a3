"""Where a mixture of normals begins: near every component, wherever the bounds are."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import tacit
from tacit.infer.mixtures import (
    Frame,
    MixturePrior,
    clustered,
    slices_of,
    synthetic_rows,
)
from tacit.kernels.mixtures import BINS
from tacit.spec.variational import FitSetting


def groups(components, size, seed, *, narrow, n=20_000):
    """Groups at random places, four widths from each other or more, in some of [0, 100]^size."""
    rng = np.random.default_rng((seed, components, size))
    low, high, width = (40, 65, 1.5) if narrow else (10, 90, 4.5)
    apart = 0.0
    while apart < 4 * width:
        means = rng.uniform(low, high, (components, size))
        away = np.linalg.norm(means[:, None] - means, axis=-1)
        apart = away[np.triu_indices(components, 1)].min()
    z = rng.integers(components, size=n)
    x = means[z] + width * rng.standard_normal((n, size))
    return {f"x{j}": x[:, j] for j in range(size)}, means, width


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("components", "size"), [(3, 1), (4, 2), (5, 5)])
def test_every_group_is_found(components, size, seed, narrow):
    """From random places, a third of these ended with two groups in one component."""
    data, means, width = groups(components, size, seed, narrow=narrow)
    schema = tacit.Schema(*(tacit.Real(c, 0, 100) for c in data), neighbours="replace_one")
    model = tacit.GaussianMixture(components, list(data))
    public = tacit.Public(data, schema, seed=seed)
    for how in (tacit.VIPS(4, 1e-6), tacit.Exact()):
        posterior = tacit.fit(model, public, how, draws=20, chains=1, progress=False)
        away = np.abs(posterior.mean("means")[:, None] - means).max(axis=2)
        assert away[linear_sum_assignment(away)].max() < 0.5 * width


def test_a_single_component_needs_no_pilot_query():
    schema = tacit.Schema(tacit.Real("x", 0, 1), neighbours="replace_one")
    setting = FitSetting(100, 1)
    one, two = (tacit.GaussianMixture(k, "x").variational(schema, setting) for k in (1, 2))
    assert one.pilots == ()
    assert sum(query.share for query in two.pilots) == pytest.approx(0.25)


def test_a_frame_is_narrowed_and_turned_to_the_rows():
    rng = np.random.default_rng(0)
    counts = np.zeros((2, BINS))
    counts[0, 6:8], counts[1] = 500, 3  # the second is below the threshold
    frame = Frame.whole(2).narrowed(counts, 10.0)
    np.testing.assert_allclose(frame.centre, [-0.125, 0])
    np.testing.assert_allclose(frame.reach, [0.125, 1])
    x = rng.multivariate_normal([0.1, 0], [[0.04, 0.03], [0.03, 0.04]], 50_000)
    one = np.column_stack([np.ones(len(x)), x])
    turned = Frame.whole(2).turned(one.T @ one, 1.0)
    np.testing.assert_allclose(turned.centre, [0.1, 0], atol=0.01)
    np.testing.assert_allclose(np.abs(turned.axes), 0.5**0.5, atol=0.02)
    np.testing.assert_allclose(turned.reach, 3 * np.sqrt([0.07, 0.01]), rtol=0.02)
    # Covariances below the noise threshold rotate nothing.
    np.testing.assert_allclose(np.abs(Frame.whole(2).turned(one.T @ one, 1e4).axes).max(axis=0), 1)


def test_synthetic_rows_follow_the_histograms():
    rng, frame, slices = np.random.default_rng(0), Frame.whole(2), slices_of(2, 4.0)
    assert slices.tolist() == [2, 2]
    counts = np.zeros((4, 2, BINS))
    counts[1, 0, 2] = counts[1, 1, 12] = 900  # low in the first direction, high in the second
    rows = synthetic_rows(frame, slices, counts + rng.normal(0, 5, counts.shape), 5.0, rng)
    inside = (np.abs(rows - [-0.6875, 0.5625]) < 0.0626).all(axis=1)
    assert inside.mean() > 0.95
    noise = synthetic_rows(frame, slices, rng.normal(0, 5, counts.shape), 5.0, rng)
    assert np.all(np.abs(noise) <= 1)


def test_rows_that_are_all_one_are_no_error():
    rng = np.random.default_rng(0)
    found = clustered(np.ones((50, 2)), 3, 50.0, MixturePrior(1.0, 0.2), rng)
    assert np.all(np.isfinite(found.mean))

"""Draws of normal moments behind noise: against integration on a grid, against imagining every row,
and against the prior where the noise tells nothing.

Means of functions of the draws are compared, in units of their Monte Carlo errors from effective
sample sizes: beyond 5.5 of them once in 10^6 comparisons, a few dozen of which are made.
"""

import numpy as np
import pytest

import tacit
from tacit.infer.conjugate import NormalPrior, RegressionPrior, draw_normal
from tacit.infer.latent_moments import MomentsSeen, draw_moments, draw_rows
from tacit.infer.latent_sum import log_rows_prior
from tacit.posterior import load_arviz

FAR = 5.5
ONE = NormalPrior.of(np.array([0.1]), 3.0, np.array([0.15]), 6.0)
TWO = NormalPrior.of(np.array([0.1, -0.05]), 4.0, np.array([0.12, 0.1]), 12.0)
LINE = RegressionPrior(
    np.eye(2) / 0.8**2, 0.1, 12.0, NormalPrior.of(np.array([0.1]), 4.0, np.array([0.12]), 12.0)
)


def seen_from(prior, n, scale, heavy=True, secret=False, seed=0, most=None) -> MomentsSeen:
    """Noisy moments of n rows near the prior mean."""
    rng = np.random.default_rng(seed)
    size = prior.moments_density().factors[-1].shift.shape[0]
    rows = np.concatenate([np.ones((n, 1)), rng.normal(0.1, 0.12, (n, size - 1))], axis=1)
    noise = rng.laplace(size=(size, size)) if heavy else rng.standard_normal((size, size))
    noise = np.triu(noise) + np.triu(noise, 1).T
    value = rows.T @ rows + scale * noise
    if not secret:
        value[0, 0] = n
    scales = np.full((size, size), float(scale))
    most = most or (np.inf if secret else float(n))
    return MomentsSeen(value, scales, heavy, not secret, most, None)


def functions(matrix: np.ndarray) -> np.ndarray:
    """What is compared: entries, their sizes, and determinants, for (..., D + 1, D + 1)."""
    size = matrix.shape[-1]
    upper = np.triu_indices(size)
    entries = matrix[..., upper[0], upper[1]][..., 1:]
    _, log = np.linalg.slogdet(matrix)
    return np.concatenate([entries, entries**2, np.abs(entries) ** 0.5, log[..., None]], axis=-1)


def estimated(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and Monte Carlo error of each function; draws have shape (chain, draw, ., .)."""
    values = functions(draws)
    ess = np.array([float(load_arviz().ess(values[..., k])) for k in range(values.shape[-1])])
    return values.mean(axis=(0, 1)), values.std(axis=(0, 1)) / np.sqrt(ess)


def assert_alike(one: np.ndarray, other: np.ndarray) -> None:
    (a, error_a), (b, error_b) = estimated(one), estimated(other)
    z = (a - b) / np.sqrt(error_a**2 + error_b**2)
    assert np.all(np.abs(z) < FAR), z


def table_of(seen: MomentsSeen, prior: NormalPrior, n: np.ndarray, cells: int):
    """The density of the docstring with one column: matrices and weights, straight from it."""
    s = (np.arange(cells) + 0.5) / cells * 2 - 1
    v = (np.arange(cells) + 0.5) / cells
    n, s, v = np.meshgrid(n, s, v, indexing="ij")
    total = n * s
    # v = w^2 of the room above s^2 / n, where the density may have a pole
    square = n * (s**2 + (1 - s**2) * v**2)
    matrix = np.stack([np.stack([n, total], -1), np.stack([total, square], -1)], -2)
    log = np.log(n * n * (1 - s**2) * v)
    _, own = np.linalg.slogdet(matrix)
    _, with_prior = np.linalg.slogdet(matrix + prior.moments)
    log += 0.5 * (n - 3) * own - 0.5 * (n + prior.degrees) * with_prior
    for i, j in ((0, 1), (1, 1)) if seen.known else ((0, 0), (0, 1), (1, 1)):
        error = (seen.value[i, j] - matrix[..., i, j]) / seen.scale[i, j]
        log -= np.abs(error) if seen.heavy else error**2 / 2
    return matrix.reshape(-1, 2, 2), log.ravel(), n.ravel()


@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize(("n", "scale"), [(2, 0.5), (3, 0.5), (5, 3.0), (20, 0.3), (20, 30.0)])
def test_one_column_agrees_with_a_grid(n, scale, heavy):
    seen = seen_from(ONE, n, scale, heavy)
    found, error = estimated(draw_moments(seen, ONE, 4, 3000, 1))
    matrix, log, _ = table_of(seen, ONE, np.array([float(n)]), 700)
    weight = np.exp(log - log.max())
    wanted = (functions(matrix) * weight[:, None]).sum(axis=0) / weight.sum()
    assert np.all(np.abs(found - wanted) < FAR * error + 1e-3 * np.abs(wanted))


@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_one_column_and_a_secret_number_of_rows_agree_with_a_grid(scale):
    """The number of rows is integrated over, its normalising constants written out here again."""
    from scipy.special import gammaln

    seen = seen_from(ONE, 10, scale, secret=True, most=40.0)
    draws = draw_moments(seen, ONE, 4, 6000, 2)
    n = 2 + (np.arange(120) + 0.5) / 120 * 38
    matrix, log, n = table_of(seen, ONE, n, 110)
    kappa, nu = ONE.moments[0, 0], ONE.degrees
    # S^((n-3)/2) / sqrt(n) from the rows' volume, S = |M| / n; the same for prior and rows together
    log += -0.5 * (n - 3) * np.log(n) + 0.5 * (n + nu) * np.log(n + kappa)
    log += gammaln((nu + n) / 2) - gammaln((n - 1) / 2) - 0.5 * np.log(n * (n + kappa))
    log += log_rows_prior(None, 1)(n)
    weight = np.exp(log - log.max())
    wanted = (functions(matrix) * weight[:, None]).sum(axis=0) / weight.sum()
    found, error = estimated(draws)
    assert np.all(np.abs(found - wanted) < FAR * error + 5e-3 * np.abs(wanted))
    rows = float((n * weight).sum() / weight.sum())
    ess = float(load_arviz().ess(draws[:, :, 0, 0]))
    corner = draws[:, :, 0, 0]
    assert abs(corner.mean() - rows) < FAR * corner.std() / np.sqrt(ess) + 0.05


@pytest.mark.parametrize("heavy", [True, False])
@pytest.mark.parametrize(("n", "scale"), [(4, 0.5), (12, 1.0)])
@pytest.mark.parametrize("prior", [ONE, TWO, LINE], ids=["one", "two", "line"])
def test_moments_agree_with_imagining_every_row(prior, n, scale, heavy):
    """Priors keep rows within the box, so that it makes no difference to whom it belongs."""
    seen = seen_from(prior, n, scale, heavy)
    moments = draw_moments(seen, prior, 4, 4000, 3)
    rows = draw_rows(seen, prior, 100, 300, 4)[2::3]  # every third sweep
    assert_alike(moments, rows.reshape(100, 100, *rows.shape[1:]))


@pytest.mark.parametrize("prior", [ONE, TWO, LINE], ids=["one", "two", "line"])
def test_noise_that_tells_nothing_leaves_the_prior(prior):
    """Moments of rows that were drawn from the prior, one data set for each draw."""
    n, rng = 6, np.random.default_rng(8)
    seen = seen_from(prior, n, 1e5)
    size = len(seen.value)
    mean, root = draw_normal(np.zeros((20_000, size, size)), prior, rng)
    rows = mean[:, None] + rng.standard_normal((20_000, n, size - 1)) @ root.swapaxes(1, 2)
    rows = np.concatenate([np.ones((20_000, n, 1)), rows], axis=2)
    fresh = np.einsum("cni,cnj->cij", rows, rows)
    fresh = fresh[np.all(np.einsum("cii->ci", fresh) <= n, axis=1)]
    fresh = fresh[: len(fresh) // 4 * 4].reshape(4, -1, size, size)
    assert_alike(draw_moments(seen, prior, 4, 6000, 9), fresh)


def test_a_slice_wider_than_its_steps_is_still_fair():
    """Shearing by a column that is nearly constant has a slice hundreds of steps wide."""
    narrow = NormalPrior.of(np.zeros(2), 50.0, np.array([0.0004, 0.2]), 12.0)
    n, rng = 6, np.random.default_rng(8)
    seen = seen_from(narrow, n, 1e5)
    mean, root = draw_normal(np.zeros((20_000, 3, 3)), narrow, rng)
    rows = mean[:, None] + rng.standard_normal((20_000, n, 2)) @ root.swapaxes(1, 2)
    rows = np.concatenate([np.ones((20_000, n, 1)), rows], axis=2)
    fresh = np.einsum("cni,cnj->cij", rows, rows).reshape(4, -1, 3, 3)
    assert_alike(draw_moments(seen, narrow, 4, 6000, 9), fresh)


def test_few_places_for_rows():
    """Where nothing is known but how many rows there can be, their number has its prior."""
    seen = seen_from(TWO, 2, 1e5, secret=True, most=2.0)
    rows = draw_rows(seen, TWO, 200, 200, 5)[:, 0, 0].reshape(200, 200)
    log = log_rows_prior(None, 1)(np.arange(3.0))
    wanted = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    for n in range(3):
        here = (rows == n).astype(float)
        error = here.std() / np.sqrt(float(load_arviz().ess(here)))
        assert abs(here.mean() - wanted[n]) < FAR * error


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_little_noise_is_reached(noise):
    """Chains begin near what was seen, however small its noise."""
    rng = np.random.default_rng(0)
    n = 5000
    age = rng.normal(50, 10, n)
    bmi = 15 + 0.2 * age + rng.normal(0, 3, n)
    products = {"age": age, "bmi": bmi, "age*age": age**2, "age*bmi": age * bmi, "bmi*bmi": bmi**2}
    release = tacit.release_from_table(
        {"rows": n} | {name: float(values.sum()) for name, values in products.items()},
        schema=tacit.Schema(
            tacit.Real("age", 0, 100), tacit.Real("bmi", 10, 60), neighbours="add_remove"
        ),
        query=tacit.queries.Moments(["age", "bmi"], centred=False),
        noise=noise,
        scale=3.0,
    )
    posterior = tacit.LinearRegression("bmi", ["age"]).posterior(release, seed=1)
    slope = np.polyfit(age, bmi, 1)[0]
    assert posterior.mean("coef")[0] == pytest.approx(slope, abs=0.01)
    chains = posterior.draws["coef"][:, :, 0].mean(axis=1)
    assert np.ptp(chains) < 0.01

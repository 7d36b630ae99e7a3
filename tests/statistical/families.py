"""Truths from each model's own prior, moments of rows from them, and releases of these moments.

Rows of the one-parameter families beyond the bounds are drawn again, as the models have it; those
of normal data lie within theirs for any practical purpose. The wall's own noise is put on simulated
moments, without a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tacit
from tacit.infer.conjugate import NormalPrior, RegressionPrior, draw_regression
from tacit.infer.latent_moments import draw_matrices
from tacit.posterior import Posterior
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.testing import simulated_release

Truth = Mapping[str, float]
RELATIONS = ("replace_one", "add_remove")


@dataclass(frozen=True)
class FamilyCase:
    """A model, its columns, and a simulator: truth and n scaled rows (n, columns) for a seed."""

    model: Any
    columns: tuple[Any, ...]
    simulate: Callable[[np.random.Generator, int], tuple[Truth, np.ndarray]]
    settings: tuple[tuple[int, float], ...]

    def release(
        self, rows: np.ndarray, mechanism: Any, neighbours: str, query: Any = None
    ) -> Release:
        """The rows' moments with the wall's noise."""
        schema = tacit.Schema(*self.columns, neighbours=neighbours)
        query = self.model.query() if query is None else query
        values = moments(rows, query, counted=not query.rows_are_public(schema))
        return simulated_release(schema, query, mechanism, values, len(rows))


def moments(rows: np.ndarray, query: Any, *, counted: bool) -> list[float]:
    """The moments of scaled rows in the order of a release."""
    values = [float(len(rows))] * counted + list(rows.sum(axis=0))
    if query.degree == 2:
        d = rows.shape[1]
        values += [rows[:, i] @ rows[:, j] for i in range(d) for j in range(i, d)]
    return values


def variables(posterior: Posterior, truth: Truth) -> dict[str, np.ndarray]:
    """The draws of each number that the truth names, such as `mean[1]` or `correlation[0,1]`."""
    found = {}
    for name in truth:
        variable, _, place = name.partition("[")
        draws = posterior.draws[variable].reshape(-1, *posterior.draws[variable].shape[2:])
        index = tuple(int(i) for i in place.rstrip("]").split(",")) if place else ()
        found[name] = draws[(slice(None), *index)]
    return found


def _poisson(rng: np.random.Generator, n: int) -> tuple[Truth, np.ndarray]:
    rate = rng.gamma(3.0) / 0.6
    rows = _within(lambda size: rng.poisson(rate, size), n, 0, 10)
    return {"rate": rate}, rows / 5 - 1


def _exponential(rng: np.random.Generator, n: int) -> tuple[Truth, np.ndarray]:
    rate = rng.gamma(3.0) / 3.0
    rows = _within(lambda size: rng.exponential(1 / rate, size), n, 0, 3)
    return {"rate": rate}, rows / 1.5 - 1


def _normal_mean(rng: np.random.Generator, n: int) -> tuple[Truth, np.ndarray]:
    mean = rng.normal(0.5, 1.0)
    return {"mean": mean}, _within(lambda size: rng.normal(mean, 1.5, size), n, -2, 2) / 2


def _within(draw: Callable[[int], np.ndarray], n: int, low: float, high: float) -> np.ndarray:
    """n rows within the bounds: those beyond them have no value."""
    kept = np.empty(0)
    while len(kept) < n:
        rows = draw(4 * n + 10)
        kept = np.concatenate([kept, rows[(rows >= low) & (rows <= high)]])
    return kept[:n, None]


MEAN_ROWS, SD_ROWS = 5.0, 20.0


def _normal_truth(rng: np.random.Generator, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A mean and a covariance root from the prior with mean 0 and sd 1 (Wishart's construction)."""
    rows = rng.standard_normal((int(SD_ROWS) + d - 1, d)) / np.sqrt(SD_ROWS)
    root = np.linalg.cholesky(np.linalg.inv(rows.T @ rows))
    return root @ rng.standard_normal(d) / np.sqrt(MEAN_ROWS), root


WIDE = 10.0  # bounds, in standard deviations: rows beyond them do not occur


def _normal(d: int) -> Callable[[np.random.Generator, int], tuple[Truth, np.ndarray]]:
    def simulate(rng: np.random.Generator, n: int) -> tuple[Truth, np.ndarray]:
        mean, root = _normal_truth(rng, d)
        rows = mean + rng.standard_normal((n, d)) @ root.T
        covariance = root @ root.T
        sd = np.sqrt(np.diag(covariance))
        if d == 1:
            return {"mean": float(mean[0]), "sd": float(sd[0])}, rows / WIDE
        truth = {f"mean[{i}]": mean[i] for i in range(d)} | {f"sd[{i}]": sd[i] for i in range(d)}
        truth["correlation[0,1]"] = covariance[0, 1] / sd[0] / sd[1]
        return truth, rows / WIDE

    return simulate


SLOPES = 2.0  # prior standard deviation of the coefficients, in units of the residuals'


def _regression(rng: np.random.Generator, n: int) -> tuple[Truth, np.ndarray]:
    """Features from their normal prior, all columns within +-10, prior sd 1 everywhere."""
    mean, root = _normal_truth(rng, 1)
    features = mean + rng.standard_normal((n, 1)) @ root.T
    sigma = np.sqrt(SD_ROWS / rng.chisquare(SD_ROWS))
    constant, slope = SLOPES * sigma / WIDE * rng.standard_normal(2)  # of scaled columns
    target = WIDE * (constant + slope * features / WIDE) + sigma * rng.standard_normal((n, 1))
    truth = {"coef[0]": slope, "intercept": WIDE * constant, "sigma": sigma}
    return truth, np.concatenate([features, target], axis=1) / WIDE


@dataclass(frozen=True)
class InformedRegression:
    """LinearRegression with an informative prior of the features, which calibration needs.

    Its own prior of the features is so weak that features drawn from it exceed any bounds.
    """

    own: Any

    def query(self) -> tacit.queries.Moments:
        return self.own.query()

    def posterior(self, release: Release, **options: Any) -> Posterior:
        how = Sampling.of(options)  # type: ignore[arg-type]
        d = len(self.own.features)
        features = NormalPrior.of(np.zeros(d), MEAN_ROWS, np.full(d, 1 / WIDE), SD_ROWS)
        prior = RegressionPrior(np.eye(d + 1) / SLOPES**2, 1 / WIDE, SD_ROWS, features)
        found = draw_matrices(release, self.query(), prior, how)
        scaled, sigma = draw_regression(found, prior, np.random.default_rng(how.seed))
        draws = {"coef": scaled[:, 1:], "intercept": WIDE * scaled[:, 0], "sigma": WIDE * sigma}
        labels = {"coef": {"feature": self.own.features}}
        return Posterior.of(self.own, release, how, draws, labels=labels)


def _reals(*names: str) -> tuple[Any, ...]:
    return tuple(tacit.Real(name, -WIDE, WIDE, default=0) for name in names)


_FEW, _MANY = ((20, 1.0), (100, 0.2), (1000, 0.5)), ((30, 2.0), (200, 0.5), (1000, 0.5))
_SPREAD = {"prior_mean_rows": MEAN_ROWS, "prior_sd_rows": SD_ROWS}
FAMILIES: Mapping[str, FamilyCase] = {
    "GammaPoisson": FamilyCase(
        tacit.GammaPoisson("x", prior=(3.0, 0.6)),
        (tacit.Integer("x", 0, 10, default=0),),
        _poisson,
        _FEW,
    ),
    "GammaExponential": FamilyCase(
        tacit.GammaExponential("x", prior=(3.0, 3.0)),
        (tacit.Real("x", 0, 3, default=0),),
        _exponential,
        _FEW,
    ),
    "NormalMean": FamilyCase(
        tacit.NormalMean("x", sd=1.5, prior=(0.5, 1.0)),
        (tacit.Real("x", -2, 2, default=0),),
        _normal_mean,
        _FEW,
    ),
    "NormalModel": FamilyCase(
        tacit.NormalModel("x", prior_mean=0, prior_sd=1, **_SPREAD), _reals("x"), _normal(1), _MANY
    ),
    "MultivariateNormalModel": FamilyCase(
        tacit.MultivariateNormalModel(("x", "y"), prior_mean=(0, 0), prior_sd=(1, 1), **_SPREAD),
        _reals("x", "y"),
        _normal(2),
        _MANY,
    ),
    "LinearRegression": FamilyCase(
        InformedRegression(
            tacit.LinearRegression(
                "y", ["x"], prior_scale=SLOPES, prior_sd=1, prior_sd_rows=SD_ROWS
            )
        ),
        _reals("x", "y"),
        _regression,
        _MANY,
    ),
}


@dataclass(frozen=True)
class Calibrated:
    """For each number of the truth: hits of the 90% interval, and ranks from 0 to 99."""

    hits: dict[str, np.ndarray]
    ranks: dict[str, np.ndarray]
    widths: dict[str, np.ndarray]


def joined(parts: Sequence[Calibrated]) -> Calibrated:
    """Several runs as one."""
    return Calibrated(
        *(
            {key: np.concatenate([getattr(part, what)[key] for part in parts]) for key in one}
            for what, one in vars(parts[0]).items()
        )
    )


def calibrate(
    name: str,
    n: int,
    mechanism: Any,
    neighbours: str,
    repeats: int,
    seed: int = 0,
    noise: str = "aware",
) -> Calibrated:
    """Fit releases of simulated rows and find where the truth lies among the draws."""
    case = FAMILIES[name]
    rng = np.random.default_rng((seed, n))
    hits: dict[str, list[bool]] = {}
    ranks: dict[str, list[int]] = {}
    widths: dict[str, list[float]] = {}
    for repeat in range(repeats):
        truth, rows = case.simulate(rng, n)
        release = case.release(rows, mechanism, neighbours)
        # Chains of moments remember: keep every tenth draw, so that 99 of them are as if fresh.
        size = 99 if name in ("GammaPoisson", "GammaExponential", "NormalMean") else 990
        posterior = case.model.posterior(
            release, draws=size, chains=1, seed=seed * 10**6 + repeat, noise=noise
        )
        for key, draws in variables(posterior, truth).items():
            kept = draws[:: size // 99]
            rank = int((kept < truth[key]).sum())
            # 100 ranks are equally likely: 90 of them lie within the interval
            hits.setdefault(key, []).append(5 <= rank < 95)
            ranks.setdefault(key, []).append(rank)
            low, high = np.quantile(draws, [0.05, 0.95])
            widths.setdefault(key, []).append(float(high - low))
    return Calibrated(
        *({k: np.array(v) for k, v in found.items()} for found in (hits, ranks, widths))
    )

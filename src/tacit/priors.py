"""Another prior for a posterior that is already there: post-processing, free of privacy cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tacit.models import MODELS, model_from_description
from tacit.posterior import Posterior
from tacit.posterior.inference_data import pareto_weights
from tacit.spec.errors import ModelError
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles

_WORST = 0.7  # Pareto k above which importance sampling cannot be trusted (Vehtari et al. 2024)
_FEWEST = 25  # draws: PSIS fits a tail to the largest fifth of their weights, and needs 5 for it
_ALIKE = 1e-6  # logs of weights that differ by rounding at most


def with_prior(
    posterior: Posterior,
    log_prior: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    *,
    seed: int | None = None,
) -> Posterior:
    """Return the posterior under another prior, conjugate or not, from its release.

    Draws are weighted by new prior / old prior, the weights smoothed by Pareto (PSIS), and drawn
    again. A prior too far from the old one is refused: fit the release with a prior nearer to it.
    So are models whose posterior does not come from one release and a prior with a density:
    logistic regressions, models with hidden variables other than `HMM`, and `LogDensity`.

    Parameters
    ----------
    posterior
        What `tacit.fit` or `model.posterior` returned. More draws make for a better result.
    log_prior
        The new prior's log density, up to a constant, at a mapping from variables to draws (the
        variables are those of `posterior.draws`, without chains). -inf where the new prior has no
        mass.
    seed
        For drawing again.

    Examples
    --------
    >>> # a prior with two humps, which no Beta has
    >>> from scipy.stats import norm
    >>> def humps(draws):
    ...     p = draws["p"]
    ...     return np.logaddexp(norm.logpdf(p, 0.2, 0.05), norm.logpdf(p, 0.6, 0.05))
    >>> # tacit.with_prior(posterior, humps).summary()
    """
    if not callable(log_prior):
        raise ModelError(
            f"Expected log_prior to be a function of a dict of draws, got {log_prior!r}: for other "
            "options of the model's own prior write another_model.posterior(release)."
        )
    if "log_prior" in posterior.model:
        raise ModelError("Expected the posterior as it was fitted, before it got another prior.")
    name = posterior.model["model"]
    if not hasattr(MODELS.get(name), "log_prior"):
        raise ModelError(
            f"Expected a model that has the density of its prior, which {name} has not: fit it "
            "again with another prior."
        )
    if "log_evidence" in posterior.draws:
        raise ModelError(
            "Expected a posterior without log_evidence, which is that of the prior it was fitted "
            "with: fit it again with another prior."
        )
    (release,) = posterior.releases
    if isinstance(release.query, (StateChain, StatePaths, StateProfiles)):
        raise ModelError(
            "Expected a posterior from released counts, not from PrivateGibbs, whose release has "
            "no emissions to compare: fit it again with another prior."
        )
    model = model_from_description(posterior.model)
    flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in posterior.draws.items()}
    size = len(next(iter(flat.values())))
    new = np.asarray(log_prior(flat), dtype=float)
    if new.shape != (size,) or np.isnan(new).any() or np.isposinf(new).any():
        raise ModelError(
            f"Expected log_prior to return {size} numbers, one for each draw, each finite or -inf."
        )
    (inside,) = np.nonzero(np.isfinite(new))
    if len(inside) < _FEWEST:
        raise ModelError(
            f"Expected a log_prior that is finite at {_FEWEST} draws or more, and it is at "
            f"{len(inside)} of {size}: fit with more draws, or with a prior nearer to it."
        )
    probability = _weights(new[inside] - model.log_prior(flat, release)[inside])
    rng = np.random.default_rng(seed)
    pick = rng.choice(inside, size, p=probability)

    def again(draws: np.ndarray) -> np.ndarray:
        return draws.reshape(-1, *draws.shape[2:])[pick].reshape(draws.shape)

    return replace(
        posterior,
        model={**posterior.model, "log_prior": getattr(log_prior, "__name__", "another prior")},
        draws={name: again(draws) for name, draws in posterior.draws.items()},
        predicted={name: again(draws) for name, draws in posterior.predicted.items()},
    )


def _weights(ratio: np.ndarray) -> np.ndarray:
    """Importance weights that sum to one, given their logs; smoothed where they have a tail."""
    ratio = np.maximum(ratio - ratio.max(), -1e300)
    tail = math.ceil(min(len(ratio) / 5, 3 * math.sqrt(len(ratio))))  # as many as PSIS smooths
    weights = ratio
    if np.sort(ratio)[-tail - 1] < -_ALIKE:  # otherwise all of them are the largest: no tail
        with np.errstate(over="ignore"):  # its weights of many draws may be 1 / inf, rightly
            weights, worst = pareto_weights(ratio)
        if worst > _WORST:
            raise ModelError(
                f"Expected a prior nearer to that of the posterior (Pareto k {worst:.2f} > "
                f"{_WORST}): fit the release with another prior first, or with more draws."
            )
    probability = np.exp(weights - weights.max())
    return probability / probability.sum()

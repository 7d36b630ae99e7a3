"""Another prior for a posterior that is already there: post-processing, free of privacy cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tacit.models import MODELS, model_from_description
from tacit.posterior import Posterior, load_arviz
from tacit.spec.errors import ModelError

_WORST = 0.7  # Pareto k above which importance sampling cannot be trusted (Vehtari et al. 2024)


def with_prior(
    posterior: Posterior,
    log_prior: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    *,
    seed: int | None = None,
) -> Posterior:
    """Return the posterior under another prior, conjugate or not, from its release.

    Draws are weighted by new prior / old prior, the weights smoothed by Pareto (PSIS), and drawn
    again. A prior too far from the old one is refused: fit the release with a prior nearer to it.

    Parameters
    ----------
    posterior
        What `tacit.fit` or `model.posterior` returned. More draws make for a better result.
    log_prior
        The new prior's log density, up to a constant, at a mapping from variables to draws (the
        variables are those of `posterior.draws`, without chains).
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
    if "log_prior" in posterior.model:
        raise ModelError("Expected the posterior as it was fitted, before it got another prior.")
    name = posterior.model["model"]
    if not hasattr(MODELS.get(name), "log_prior"):
        raise ModelError(
            f"Expected a model that has the density of its prior, which {name} has not: fit it "
            "again with another prior."
        )
    (release,) = posterior.releases
    model = model_from_description(posterior.model)
    flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in posterior.draws.items()}
    size = len(next(iter(flat.values())))
    new = np.asarray(log_prior(flat), dtype=float)
    if new.shape != (size,) or np.isnan(new).any() or not np.isfinite(new).any():
        raise ModelError(f"Expected log_prior to return {size} numbers, one for each draw.")
    ratio = new - model.log_prior(flat, release)
    ratio = np.where(np.isfinite(ratio), ratio, -1e300)
    with np.errstate(over="ignore"):  # its weights of many draws may be 1 / inf, rightly
        weights, worst = load_arviz().psislw(ratio - ratio.max())
    if float(worst) > _WORST:
        raise ModelError(
            f"Expected a prior nearer to that of the posterior (Pareto k {float(worst):.2f} > "
            f"{_WORST}): fit the release with another prior first, or with more draws."
        )
    probability = np.exp(weights - weights.max())
    rng = np.random.default_rng(seed)
    pick = rng.choice(size, size, p=probability / probability.sum())

    def again(draws: np.ndarray) -> np.ndarray:
        return draws.reshape(-1, *draws.shape[2:])[pick].reshape(draws.shape)

    return replace(
        posterior,
        model={**posterior.model, "log_prior": getattr(log_prior, "__name__", "another prior")},
        draws={name: again(draws) for name, draws in posterior.draws.items()},
        predicted={name: again(draws) for name, draws in posterior.predicted.items()},
    )

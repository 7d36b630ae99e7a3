"""Posterior draws of cell probabilities given a released table of counts."""

from __future__ import annotations

import numpy as np

from tacit.infer.from_draw import sample_counts_from_draw
from tacit.infer.latent_counts import Rows, sample_counts
from tacit.infer.noise import Law
from tacit.spec.draws import ConjugateDraw
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling


def draw_probabilities(
    release: Release, name: str, prior: np.ndarray, sampling: Sampling
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return draws (draw, level) under a Dirichlet prior, and of the number of rows with a value.

    Levels are in the order of the table; the generator is in its state after these draws.
    """
    rng = np.random.default_rng(sampling.seed)
    size = sampling.draws * sampling.chains
    if isinstance(release.query, ConjugateDraw):
        if sampling.noise == "plugin":  # repeats the released draws
            drawn = release.table("p").value
            return np.resize(drawn, (size, drawn.shape[1])), np.zeros(size), rng
        counts = sample_counts_from_draw(release, prior, size, rng).astype(float)
        return dirichlet(prior + counts, rng), counts.sum(axis=1), rng
    block, value, noise = release.table(name)
    labels = block.axes[0].labels
    missing = float(value[labels.index(None)]) if None in labels else None
    seen = value[: len(labels) - (missing is not None)]
    if block.omitted:  # one number for two cells that sum to n
        assert release.n is not None
        seen = np.array([release.n - seen[0], seen[0]])
    if noise.family == "none":
        counts = np.tile(seen, (size, 1))
    elif sampling.noise == "plugin":
        counts = np.tile(project(seen, release.n if block.omitted else None), (size, 1))
    else:
        rows, power = Rows.behind(release, missing), 0.5 if block.omitted else 1.0
        law = Law.of(noise)
        counts = sample_counts(seen, prior, law, rows, size, rng, power=power).astype(float)
    return dirichlet(prior + counts, rng), counts.sum(axis=1), rng


def project(seen: np.ndarray, total: int | None) -> np.ndarray:
    """Return noisy counts clipped to the valid range (plug-in)."""
    return np.clip(seen, 0.0, np.inf if total is None else total)


def dirichlet(concentration: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one Dirichlet draw for each row, without underflow for tiny concentrations."""
    # In law, log G(a) = log G(a + 1) + log(U) / a, which does not underflow.
    logs = np.log(rng.gamma(concentration + 1)) + np.log(rng.random(concentration.shape)) / (
        concentration
    )
    weight = np.exp(logs - logs.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)

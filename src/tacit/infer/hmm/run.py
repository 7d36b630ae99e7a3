"""Posterior draws of states and parameters given noisy counts, in several chains."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.stats import norm

from tacit.infer.hmm.labels import matched
from tacit.infer.hmm.large_noise import run_large_noise
from tacit.infer.hmm.plugin import run_plugin
from tacit.infer.hmm.small_noise import SHAPE, run_small_noise
from tacit.infer.hmm.start import initial_paths
from tacit.infer.noise import Law
from tacit.spec.sampling import Sampling

_LARGE = 24.0  # noise variance above which counts are treated as normal
_WARMUP = 200


@dataclass(frozen=True)
class Cells:
    """Released counts (sequence, time, level), one table after the other in the last axis.

    `first` holds the first column of each table and the end of the last, `laws` the noise of each.
    `used` is a mask of cells. `most_rows` is a public limit on all counts of a table.
    """

    counts: np.ndarray
    first: np.ndarray
    laws: Sequence[Law]
    used: np.ndarray
    most_rows: float = np.inf

    @property
    def exact(self) -> bool:
        return all(law.none for law in self.laws)

    @property
    def scale(self) -> np.ndarray:
        return np.repeat([law.scale for law in self.laws], np.diff(self.first))

    @property
    def heavy(self) -> np.ndarray:
        return np.repeat([law.heavy for law in self.laws], np.diff(self.first))

    @property
    def spread(self) -> np.ndarray:
        """The variance of the noise, by level."""
        return np.where(self.heavy, 2.0, 1.0) * self.scale**2

    def typical_rows(self) -> float:
        """Return the mean number of rows of a cell, or its standard error if that is larger."""
        counts = self.counts[self.used]
        if not len(counts):
            return 1.0
        mean = counts.sum() / len(counts) / len(self.laws)
        error = np.sqrt(self.spread.sum() / len(counts)) / len(self.laws)
        limit = self.most_rows / self.used.size
        return float(np.clip(max(mean, error), 1e-3, max(limit, 1e-3)))

    def overall_shares(self) -> np.ndarray:
        """Return the share of each level in all cells, shrunk towards equal ones by the noise."""
        totals = self.counts[self.used].sum(axis=0)
        noise = self.used.sum() * self.spread
        shares = np.empty(len(totals))
        for a, b in pairwise(self.first):
            mean = totals[a:b].mean()
            between = max(float(totals[a:b].var(ddof=1)) - noise[a], 0.0) if b - a > 1 else 0.0
            weight = between / (between + noise[a]) if between > 0 else 0.0
            shrunk = mean + weight * (totals[a:b] - mean)
            sd = np.sqrt(weight * noise[a]) + 1e-9
            # The mean of a normal clipped at 0: true totals are not negative.
            shrunk = shrunk * norm.cdf(shrunk / sd) + sd * norm.pdf(shrunk / sd)
            shrunk = (
                np.maximum(shrunk, 0.0) / shrunk.sum() if mean > 0 else np.full(b - a, 1 / (b - a))
            )
            shares[a:b] = shrunk
        return shares


@dataclass(frozen=True)
class Priors:
    """Dirichlet concentrations of emissions, on average over levels, and of transitions.

    With `shared` the prior mean of emissions is half way between equal shares and the overall
    shares of the levels, which are known well even with large noise; else it is equal shares.
    """

    emission: float = 1.0
    transition: float = 1.0
    shared: bool = False

    def of_levels(self, cells: Cells) -> np.ndarray:
        """Return the Dirichlet concentration of each level."""
        if not self.shared:
            return np.full(cells.counts.shape[2], self.emission)
        sizes = np.diff(cells.first)
        return self.emission * (1 + np.repeat(sizes, sizes) * cells.overall_shares()) / 2


@dataclass(frozen=True)
class HiddenDraws:
    """Draws of states (draw, sequence, time), emissions (draw, state, level) and transitions.

    States are numbered alike in all draws; the most common one is 0.
    """

    states: np.ndarray
    theta: np.ndarray
    transition: np.ndarray
    start: np.ndarray


def draw_hidden_states(
    cells: Cells,
    states: int,
    priors: Priors,
    sampling: Sampling,
    *,
    single_site: bool = False,
    warmup: int | None = None,
    relabel: bool = True,
) -> HiddenDraws:
    """Return the draws of all chains, concatenated."""
    sequences, times, levels = cells.counts.shape
    draws = sampling.draws
    size = draws * sampling.chains
    found = HiddenDraws(
        np.empty((size, sequences, times), np.int16),
        np.empty((size, states, levels)),
        np.empty((size, states, states)),
        np.empty((size, states)),
    )
    sweeps = max(_WARMUP, draws // 2) if warmup is None else warmup

    def chain(i: int, rng: np.random.Generator) -> None:
        part = slice(i * draws, (i + 1) * draws)
        out = (found.states[part], found.theta[part], found.transition[part], found.start[part])
        _run(cells, states, priors, sampling, single_site, sweeps, rng, out)

    rngs = np.random.default_rng(sampling.seed).spawn(sampling.chains)
    with ThreadPoolExecutor(max_workers=min(sampling.chains, 8)) as pool:
        list(pool.map(chain, range(sampling.chains), rngs))
    return relabelled(found) if relabel else found


def _run(
    cells: Cells,
    states: int,
    priors: Priors,
    sampling: Sampling,
    single_site: bool,
    sweeps: int,
    rng: np.random.Generator,
    out: tuple[np.ndarray, ...],
) -> None:
    sequences, times, levels = cells.counts.shape
    y = np.ascontiguousarray(cells.counts, dtype=float).reshape(-1, levels)
    used = np.ascontiguousarray(cells.used).reshape(-1)
    path = initial_paths(y, used, cells.first, cells.spread, states, rng).reshape(sequences, times)
    emission = priors.of_levels(cells)
    if cells.exact or sampling.noise == "plugin":
        # Projection of Foulds et al. (2016).
        kept = np.where(used[:, None], np.maximum(y, 0.0), 0.0)
        run_plugin(
            rng, kept, cells.first, path, emission, priors.transition, single_site, sweeps,
            *out,
        )  # fmt: skip
        return
    run = run_large_noise if cells.spread.min() >= _LARGE else run_small_noise
    run(
        rng, y, used, cells.scale, cells.heavy, cells.first, path, emission,
        priors.transition, SHAPE / cells.typical_rows(), sweeps, *out,
    )  # fmt: skip


def relabelled(found: HiddenDraws) -> HiddenDraws:
    """Return the draws with states renumbered consistently (`labels.matched`)."""
    flat = found.states.reshape(len(found.states), -1)
    order = matched(flat, found.theta)
    new_label = np.argsort(order, axis=1).astype(np.int16)
    each = np.arange(len(flat))[:, None]
    return HiddenDraws(
        np.take_along_axis(new_label, flat, axis=1).reshape(found.states.shape),
        np.ascontiguousarray(found.theta[each, order]),
        np.ascontiguousarray(
            found.transition[each[:, :, None], order[:, :, None], order[:, None, :]]
        ),
        np.ascontiguousarray(found.start[each, order]),
    )

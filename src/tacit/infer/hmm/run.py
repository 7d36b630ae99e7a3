"""Posterior draws of states and parameters given noisy counts, in several chains.

Chains begin at k-means of the cells by released shares. Afterwards one numbering of the states is
found for all draws (label switching).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

from tacit.infer.hmm.gibbs import SHAPE, Data, HiddenDraws, run_given_counts
from tacit.infer.hmm.large_noise import run_large_noise
from tacit.infer.hmm.small_noise import run_small_noise
from tacit.infer.mixtures import seeds
from tacit.infer.noise import Law
from tacit.spec.sampling import Sampling

_LARGE = 24.0  # noise variance above which counts are treated as normal
_WARMUP = 200
_TRIES, _ROUNDS = 4, 12  # of k-means
_PROFILE = 0.1  # weight of emission profiles relative to the share of common cells


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
            density = np.exp(-0.5 * (shrunk / sd) ** 2) / np.sqrt(2 * np.pi)
            shrunk = shrunk * ndtr(shrunk / sd) + sd * density
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
    y = np.ascontiguousarray(cells.counts, dtype=float).reshape(-1, levels)
    used = np.ascontiguousarray(cells.used).reshape(-1)
    plugin = cells.exact or sampling.noise == "plugin"
    data = Data(
        # Projection of Foulds et al. (2016).
        np.where(used[:, None], np.maximum(y, 0.0), 0.0) if plugin else y,
        used,
        cells.scale,
        cells.heavy,
        cells.spread,
        cells.first,
        priors.of_levels(cells),
        priors.transition,
        SHAPE / cells.typical_rows(),
    )

    def chain(i: int, rng: np.random.Generator) -> None:
        out = HiddenDraws(*(part[i * draws : (i + 1) * draws] for part in found))
        path = _initial_paths(y, data, states, rng).reshape(sequences, times)
        if plugin:
            run_given_counts(rng, data, path, single_site, sweeps, out)
        elif cells.spread.min() >= _LARGE:
            run_large_noise(rng, data, path, sweeps, out)
        else:
            run_small_noise(rng, data, path, sweeps, out)

    rngs = np.random.default_rng(sampling.seed).spawn(sampling.chains)
    with ThreadPoolExecutor(max_workers=min(sampling.chains, 8)) as pool:
        list(pool.map(chain, range(sampling.chains), rngs))
    return relabelled(found) if relabel else found


def _initial_paths(
    counts: np.ndarray, data: Data, states: int, rng: np.random.Generator
) -> np.ndarray:
    """Return an initial state for each cell: the k-means result of least inertia of four."""
    kept = np.maximum(counts, 0.0)
    shares = np.empty_like(kept)
    noise = 0.0
    for a, b in pairwise(data.first):
        total = kept[:, a:b].sum(axis=1, keepdims=True)
        # Shrink towards the mean shares, so that a cell of pure noise is average.
        shrinkage = 1.0 + np.sqrt(data.spread[a:b].sum())
        mean = (kept[:, a:b].sum(axis=0) + 1.0) / (kept[:, a:b].sum() + b - a)
        shares[:, a:b] = np.sqrt((kept[:, a:b] + shrinkage * mean) / (total + shrinkage))
        noise += float(data.spread[a:b].sum())
    rows = np.maximum(counts.sum(axis=1), 0.0)
    weight = np.where(data.used, rows**2 / (rows + noise + 1.0) + 1e-9, 1e-9)
    tried = [_k_means(shares, weight, states, rng) for _ in range(_TRIES)]
    return min(tried, key=lambda found: found[0])[1]


def _k_means(
    x: np.ndarray, weight: np.ndarray, states: int, rng: np.random.Generator
) -> tuple[float, np.ndarray]:
    from scipy.spatial.distance import cdist

    centres = seeds(x, weight, states, rng)
    for _ in range(_ROUNDS):
        label = cdist(x, centres, "sqeuclidean").argmin(axis=1)
        member = weight[:, None] * (label[:, None] == np.arange(states))
        total = member.sum(axis=0)
        centres = np.where(
            total[:, None] > 0, member.T @ x / np.maximum(total, 1e-300)[:, None], centres
        )
    distance = cdist(x, centres, "sqeuclidean")
    return float((weight * distance.min(axis=1)).sum()), distance.argmin(axis=1)


def relabelled(found: HiddenDraws) -> HiddenDraws:
    """Return the draws with states renumbered consistently."""
    flat = found.states.reshape(len(found.states), -1)
    order = _matched(flat, found.theta)
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


def _matched(states: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Return the permutation of states of each draw, shape (draws, states).

    `states` is (draws, cells), `theta` (draws, states, levels). Draws are matched to the last one,
    and then to the most frequent state of each cell. State 0 is the most common.
    """
    draws, size, _ = theta.shape
    order = np.tile(np.arange(size), (draws, 1))
    if size == 1:
        return order
    from scipy.optimize import linear_sum_assignment

    reference, profile = states[-1].astype(np.int64), theta[-1]
    for _ in range(2):
        # Squared distances of roots are these products, up to a factor -2 and a constant.
        likeness = 2 * _PROFILE / size * np.sqrt(profile) @ np.sqrt(theta).swapaxes(1, 2)
        for i in range(draws):
            common = np.bincount(size * reference + states[i], minlength=size**2)
            score = common.reshape(size, size) / reference.size + likeness[i]
            order[i] = linear_sum_assignment(score, maximize=True)[1]
        new_label = np.take_along_axis(np.argsort(order, axis=1), states, axis=1)
        votes = np.array([(new_label == k).sum(axis=0) for k in range(size)])
        reference = votes.argmax(axis=0)
        profile = np.mean([theta[i, order[i]] for i in range(draws)], axis=0)
    return order[:, np.argsort(-votes.sum(axis=1), kind="stable")]

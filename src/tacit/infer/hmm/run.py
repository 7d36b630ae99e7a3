"""From a table of counts with noise to draws of states and parameters, in several chains."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tacit.infer.hmm.labels import matched
from tacit.infer.hmm.large_noise import run_large_noise
from tacit.infer.hmm.plugin import run_plugin
from tacit.infer.hmm.small_noise import SHAPE, run_small_noise
from tacit.infer.hmm.start import first_paths
from tacit.infer.noise import Law
from tacit.spec.sampling import Sampling

_LARGE = 24.0  # variance of noise from which a Poisson count may as well be normal
_WARMUP = 200


@dataclass(frozen=True)
class Cells:
    """Released counts (sequence, time, level), one table after the other in the last axis.

    `first` says where each table begins and where the last one ends, `laws` what noise each has.
    Cells that are not `used` have no say. `most_rows` is a public limit on all counts of a table.
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
        """The noise's variance."""
        return np.where(self.heavy, 2.0, 1.0) * self.scale**2

    def usual_rows(self) -> float:
        """About how many rows a cell has, for a weak prior; noise is not taken for rows."""
        counts = self.counts[self.used]
        if not len(counts):
            return 1.0
        mean = counts.sum() / len(counts) / len(self.laws)
        error = np.sqrt(self.spread.sum() / len(counts)) / len(self.laws)
        limit = self.most_rows / self.used.size
        return float(np.clip(max(mean, error), 1e-3, max(limit, 1e-3)))


@dataclass(frozen=True)
class Priors:
    """Dirichlet concentrations, the same for all levels, and for all states."""

    emission: float = 1.0
    transition: float = 1.0


@dataclass(frozen=True)
class HiddenDraws:
    """Draws of states (draw, sequence, time), emissions (draw, state, level) and the chain's moves.

    States have the same number in all draws, and the most common one is 0.
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
    """All chains, one after the other in the draws."""
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
    return renamed(found) if relabel else found


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
    path = first_paths(y, used, cells.first, cells.spread, states, rng).reshape(sequences, times)
    if cells.exact or sampling.noise == "plugin":
        kept = np.where(used[:, None], np.maximum(y, 0.0), 0.0)  # the papers' projection
        run_plugin(
            rng, kept, cells.first, path, priors.emission, priors.transition, single_site, sweeps,
            *out,
        )  # fmt: skip
        return
    run = run_large_noise if cells.spread.min() >= _LARGE else run_small_noise
    run(
        rng, y, used, cells.scale, cells.heavy, cells.first, path, priors.emission,
        priors.transition, SHAPE / cells.usual_rows(), sweeps, *out,
    )  # fmt: skip


def renamed(found: HiddenDraws) -> HiddenDraws:
    """The same draws with one numbering of the states."""
    flat = found.states.reshape(len(found.states), -1)
    order = matched(flat, found.theta)
    new_name = np.argsort(order, axis=1).astype(np.int16)
    each = np.arange(len(flat))[:, None]
    return HiddenDraws(
        np.take_along_axis(new_name, flat, axis=1).reshape(found.states.shape),
        np.ascontiguousarray(found.theta[each, order]),
        np.ascontiguousarray(
            found.transition[each[:, :, None], order[:, :, None], order[:, None, :]]
        ),
        np.ascontiguousarray(found.start[each, order]),
    )

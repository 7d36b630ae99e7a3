"""Hidden Markov models of incidents, seen through noise: the paper's way and Tacit's.

"The paper" is Foulds, Geumlek, Welling and Chaudhuri, "On the theory and practice of
privacy-preserving Bayesian data analysis", UAI 2016, section 5 and supplement E.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from war_logs_data import Panel

import tacit
from tacit.fitting import resolve
from tacit.posterior import HiddenStatesPosterior
from tacit.spec.mechanisms import Mechanism
from tacit.spec.release import Release
from tacit.testing import simulated_release

NONE = "no privacy"
PAPER = "paper: Laplace"
OPS10 = "paper: OPS, truncated at 1/(10 levels)"
OPS100 = "paper: OPS, truncated at 1/(100 levels)"
PLUGIN = "Tacit: least noise, plug-in"
AWARE_PURE = "Tacit: noise-aware, the paper's release"
AWARE = "Tacit: noise-aware, least noise (default)"
METHODS = (NONE, PAPER, OPS10, OPS100, PLUGIN, AWARE_PURE, AWARE)
OPS = {OPS10: 0.1, OPS100: 0.01}
DELTA = 1e-6
OCCUPIED = 0.01  # of the cells
SUBSTANTIAL = 0.05  # of the rows


@dataclass(frozen=True)
class Effort:
    """How long chains are. The paper has 200 sweeps of which 100 are kept."""

    draws: int = 150
    chains: int = 2
    kept: int = 100
    sweeps: int = 200  # of OPS for a map
    short: int = 200  # of OPS for a held-out split


def least_noise(panel: Panel, epsilon: float) -> Mechanism:
    """What `tacit.fit` chooses for Budget(epsilon, 1e-6), without the data."""
    nothing = {name: np.array([], dtype=object) for name in panel.levels}
    empty = tacit.Public(nothing, panel.schema)
    chosen: Any = resolve(panel.model(1), empty, tacit.Budget(epsilon, DELTA))
    return chosen.mechanism


def released(panel: Panel, mechanism: Mechanism, seed: int) -> Release:
    """The counts of a panel, with the noise that a wall would add."""
    query = panel.model(1).query()
    return simulated_release(
        panel.schema, query, mechanism, panel.counts(), int(panel.rows.sum()), seed=seed
    )


def posterior(
    method: str,
    panel: Panel,
    states: int,
    epsilon: float,
    seed: int,
    *,
    effort: Effort,
    held_out: np.ndarray | None = None,
    transition_prior: float = 1.0,
) -> HiddenStatesPosterior:
    """What a method finds. Held-out cells must have no rows: OPS cannot leave them out."""
    prior: Any = {"prior_transition": transition_prior}
    if method not in (AWARE, AWARE_PURE):
        prior["prior_centre"] = "uniform"
    model = panel.model(states, held_out, **prior)
    options: Any = {"draws": effort.draws, "chains": effort.chains, "seed": seed}
    if method == NONE:
        return model.posterior(released(panel, tacit.Exact(), seed), **options)
    if method in OPS:
        sweeps = effort.short if states > 1 else 1  # a single state's first draw is exact
        whole = panel.model(states, **prior)
        chain = whole.state_chain(truncation=OPS[method], sweeps=sweeps)
        rows = int(panel.rows.sum())
        drawn = simulated_release(
            panel.schema, chain, tacit.queries.Exponential(epsilon), panel.counts(), rows, seed=seed
        )
        return whole.posterior(drawn)
    if method == PAPER:
        one_by_one = panel.model(states, held_out, sampler="single_site", **prior)
        options |= {"draws": effort.kept, "chains": 1, "noise": "plugin"}
        return one_by_one.posterior(released(panel, tacit.Laplace(epsilon), seed), **options)
    mechanism = tacit.Laplace(epsilon) if method == AWARE_PURE else least_noise(panel, epsilon)
    if method == PLUGIN:
        options["noise"] = "plugin"
    return model.posterior(released(panel, mechanism, seed), **options)


def log_likelihoods(
    fitted: HiddenStatesPosterior, panel: Panel, cells: np.ndarray
) -> tuple[float, float]:
    """Of the rows in some cells, each by itself and all of a cell together; both for one row.

    NOT private: it looks at raw rows. Draws are averaged before the logarithm.
    """
    emissions = [fitted.flat(f"emission_{name}") for name in panel.features]
    chance = emissions[0]
    for more in emissions[1:]:
        chance = (chance[..., None] * more[:, :, None, :]).reshape(*chance.shape[:2], -1)
    drawn = fitted.flat("states").astype(np.int64)
    one_cell = drawn.shape[1:] == (1, 1)
    each = np.arange(len(drawn))
    by_row = by_cell = 0.0
    for r, t in np.argwhere(cells):
        rows = panel.joint[r, t].ravel()
        some = rows > 0
        if not some.any():
            continue
        state = drawn[:, 0, 0] if one_cell else drawn[:, r, t]
        p = np.maximum(chance[each, state][:, some], 1e-300)
        by_row += float(rows[some] @ np.log(p.mean(axis=0)))
        by_cell += float(logsumexp(np.log(p) @ rows[some]) - np.log(len(p)))
    total = max(1, panel.rows[cells].sum())
    return by_row / total, by_cell / total


def occupied_states(fitted: HiddenStatesPosterior, rows: np.ndarray) -> tuple[float, float]:
    """How many states hold 1% of the cells, and how many 5% of the rows, averaged over draws.

    The second is NOT private: it looks at how many rows there are.
    """
    drawn = fitted.flat("states").reshape(len(fitted.flat("states")), -1)
    states = range(fitted.flat("start").shape[1])
    cells = np.stack([(drawn == k).mean(axis=1) for k in states])
    weight = rows.ravel() / rows.sum()
    heavy = np.stack([(drawn == k) @ weight for k in states])
    many = (cells >= OCCUPIED).sum(axis=0).mean(), (heavy >= SUBSTANTIAL).sum(axis=0).mean()
    return float(many[0]), float(many[1])


@dataclass(frozen=True)
class Curve:
    """For each epsilon and split: log-likelihood by row and by cell, and the states in use."""

    by_row: np.ndarray
    by_cell: np.ndarray
    occupied: np.ndarray
    substantial: np.ndarray

    def at(self, i: int, s: int) -> tuple[float, ...]:
        """All four at one epsilon and split."""
        return tuple(values[i, s] for values in vars(self).values())


@dataclass(frozen=True)
class HeldOut:
    """The curves of one panel, by method."""

    panel: str
    title: str
    epsilons: tuple[float, ...]
    naive: dict[str, Curve] = field(default_factory=dict)
    hidden: dict[str, Curve] = field(default_factory=dict)


def random_splits(panel: Panel, splits: int) -> Iterator[np.ndarray]:
    """A tenth of all cells, whether or not they have rows."""
    rng = np.random.default_rng(2016)
    size = panel.rows.size
    for _ in range(splits):
        cells = np.zeros(size, dtype=bool)
        cells[rng.choice(size, max(1, round(size / 10)), replace=False)] = True
        yield cells.reshape(panel.shape)


def held_out(
    panel: Panel,
    epsilons: tuple[float, ...],
    splits: int,
    ops_splits: int,
    effort: Effort,
    states: int = 10,
    say: Callable[[str], None] = lambda _: None,
) -> HeldOut:
    """Figure 6: what each method expects of cells that it has not seen."""
    result = HeldOut(panel.name, panel.title, epsilons)
    for method in METHODS:
        many = ops_splits if method in OPS else splits
        found = np.full((2, 4, len(epsilons), many), np.nan)
        for s, cells in enumerate(random_splits(panel, many)):
            known = panel.without(cells)
            for i, epsilon in enumerate(epsilons):
                if method == NONE and i:
                    found[:, :, i, s] = found[:, :, 0, s]
                    continue
                if method == AWARE and isinstance(least_noise(panel, epsilon), tacit.Laplace):
                    for which, curves in enumerate((result.naive, result.hidden)):  # the same
                        found[which, :, i, s] = curves[AWARE_PURE].at(i, s)
                    continue
                seed = 1000 * s + i
                naive = posterior(method, known.in_one_cell(), 1, epsilon, seed, effort=effort)
                hidden = posterior(
                    method, known, states, epsilon, seed, held_out=cells, effort=effort
                )
                in_use = occupied_states(hidden, known.rows)
                found[0, :, i, s] = *log_likelihoods(naive, panel, cells), 1, 1
                found[1, :, i, s] = *log_likelihoods(hidden, panel, cells), *in_use
        result.naive[method] = Curve(*found[0])
        result.hidden[method] = Curve(*found[1])
        say(f"{panel.title}: {method} {np.round(result.hidden[method].by_row.mean(axis=1), 3)}")
    return result


@dataclass(frozen=True)
class Variation:
    """A method with another prior or longer chains: log-likelihoods by row and by cell."""

    method: str
    transition_prior: float
    draws: int
    by_row: np.ndarray
    by_cell: np.ndarray


def vary(
    panel: Panel, epsilon: float, splits: int, effort: Effort, states: int = 10
) -> list[Variation]:
    """What chain length and transition prior do where there is least to go by."""
    longer = replace(effort, draws=10 * effort.draws)
    settings = [(m, a, effort) for m in (*OPS, AWARE) for a in (1.0, 0.1)]
    settings += [(AWARE, a, longer) for a in (1.0, 0.1)]
    result = []
    for method, prior, chosen in settings:
        found = []
        for s, cells in enumerate(random_splits(panel, splits)):
            fitted = posterior(
                method, panel.without(cells), states, epsilon, 1000 * s, effort=chosen,
                held_out=cells, transition_prior=prior,
            )  # fmt: skip
            found.append(log_likelihoods(fitted, panel, cells))
        draws = 1 if method in OPS else chosen.draws * chosen.chains
        result.append(Variation(method, prior, draws, *np.array(found).T))
    return result

"""Which state each region is in, month by month, and what states are like: at epsilon 5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from war_logs_data import Panel
from war_logs_measures import AWARE, NONE, OPS, OPS100, PAPER, Effort, posterior

import tacit
from tacit.draws.draw import uniforms
from tacit.draws.states import paths, resolve_states, transitions
from tacit.posterior import HiddenStatesPosterior
from tacit.public import seeded_entropy
from tacit.spec.hidden_states import Sweep
from tacit.testing import simulated_release
from tacit.wall.statistics.statistic import Statistic

TRUTH = "truth"
LAST = "paper: OPS, last sweep"
MANY = "paper: OPS, last {} sweeps"
EPSILON = 5.0


@dataclass(frozen=True)
class Maps:
    """Shares (sequence, time, state) by method, with the names of the reference's states."""

    name: str
    title: str
    states: int
    sequences: tuple[str, ...]
    times: tuple[str, ...]
    shares: dict[str, np.ndarray]
    agrees: dict[str, float]  # with the reference
    reference: str
    changes: dict[str, float]  # how often the most probable state changes from month to month
    not_private: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shares[AWARE].shape


@dataclass(frozen=True)
class Profiles:
    """Probabilities (state, level) by feature, in the same order of states."""

    title: str
    states: int
    levels: dict[str, list[str]]
    plain_name: str
    plain: dict[str, np.ndarray]
    paper: dict[str, np.ndarray]
    ops: dict[str, np.ndarray]  # of the last sweep
    aware: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]  # mean, low, high
    share: np.ndarray  # of the cells
    apart: dict[str, float]  # total variation distance from the plain ones, a mean over states


def ops_sweeps(
    panel: Panel, states: int, effort: Effort, seed: int
) -> tuple[HiddenStatesPosterior, HiddenStatesPosterior]:
    """OPS's last sweep, which is what it releases, and its last ones, of which nobody may know.

    The wall's own chain again, on public data, keeping what the wall throws away.
    """
    truncation, model = OPS[OPS100], panel.model(states)
    chain = model.state_chain(truncation=truncation, sweeps=effort.sweeps)
    rows, mechanism = int(panel.rows.sum()), tacit.queries.Exponential(EPSILON)
    released = simulated_release(
        panel.schema, chain, mechanism, panel.counts(), rows, seed=seed
    )  # fmt: skip
    resolved = resolve_states(chain, panel.schema)
    temperature = resolved.calibrate(mechanism).noise[0].scale
    words = seeded_entropy(str(seed))
    uniform = lambda n: uniforms(words, n)  # noqa: E731
    counts = resolved._unpacked(Statistic(panel.counts(), rows))  # noqa: SLF001
    path = np.minimum(uniform(panel.rows.size) * states, states - 1).astype(int)
    path = path.reshape(panel.shape)
    kept = []
    for _ in range(effort.sweeps):
        profiles = tuple(resolved._profiles(counts, path, temperature, uniform))  # noqa: SLF001
        start, transition = transitions(path, states, chain.transition_prior, uniform)
        path = paths(counts, start, transition, profiles, temperature, uniform).astype(int)
        kept.append(Sweep(released, path, start, transition, profiles))
    last = model.posterior(released)
    assert len(np.unique(path * states + last.flat("states")[0])) <= states  # up to names
    return last, model.chain_posterior(kept[-effort.kept :])


def order_like(best: np.ndarray, reference: np.ndarray, states: int) -> np.ndarray:
    """Which of the states of `best` is each of the reference's, by the cells they share."""
    both = np.zeros((states, states))
    np.add.at(both, (reference.ravel(), best.ravel()), 1)
    return linear_sum_assignment(-both)[1]


def map_states(panel: Panel, states: int, effort: Effort) -> tuple[Maps, Profiles]:
    """Fits every method to the whole panel."""
    fitted = {
        method: posterior(method, panel, states, EPSILON, 5, effort=effort)
        for method in (NONE, PAPER, AWARE)
    }
    many = MANY.format(effort.kept)
    fitted[LAST], fitted[many] = ops_sweeps(panel, states, effort, seed=5)
    plain = fitted[NONE].states().to_numpy()
    known = panel.truth is not None
    reference = panel.truth if known else plain
    assert reference is not None
    # The most common state of the reference comes first.
    common = np.argsort(-np.bincount(reference.ravel(), minlength=states), kind="stable")
    reference = np.argsort(common)[reference]
    shares, order = {}, {}
    if known:
        shares[TRUTH] = np.eye(states)[reference]
    for method in (NONE, PAPER, LAST, many, AWARE):
        best = fitted[method].states().to_numpy()
        order[method] = order_like(best, reference, states)
        shares[method] = fitted[method].state_probabilities().to_numpy()[..., order[method]]
    maps = Maps(
        name=panel.name,
        title=f"{panel.title}: {states} states, ε = {EPSILON:g}",
        states=states,
        sequences=tuple(map(str, panel.levels[panel.sequence])),
        times=tuple(map(str, panel.levels[panel.time])),
        shares=shares,
        agrees={
            method: float((share.argmax(axis=2) == reference).mean())
            for method, share in shares.items()
            if method != (TRUTH if known else NONE)
        },
        reference=TRUTH if known else NONE,
        changes={
            method: float((np.diff(share.argmax(axis=2), axis=1) != 0).mean())
            for method, share in shares.items()
        },
        not_private=(NONE, many),
    )
    return maps, _profiles(panel, states, fitted, order, shares[AWARE])


def _profiles(
    panel: Panel,
    states: int,
    fitted: dict[str, HiddenStatesPosterior],
    order: dict[str, np.ndarray],
    share: np.ndarray,
) -> Profiles:
    kept = (NONE, PAPER, LAST, AWARE)
    levels, aware = {}, {}
    shown: dict[str, dict[str, np.ndarray]] = {method: {} for method in kept}
    distances: dict[str, list[float]] = {method: [] for method in fitted if method != NONE}
    for name in panel.features:
        variable = f"emission_{name}"
        mean = {m: one.mean(variable)[order[m]] for m, one in fitted.items()}
        for method, found in distances.items():
            found.append(float(np.abs(mean[method] - mean[NONE]).sum(axis=1).mean() / 2))
        low, high = (some[order[AWARE]] for some in fitted[AWARE].interval(0.9, variable))
        # The levels that matter in some state, the most probable first.
        most = np.argsort(-mean[AWARE].max(axis=0), kind="stable")[:8]
        if _is_flag(panel, name):
            most = np.array([1])
        levels[name] = [str(panel.levels[name][j]) for j in most]
        for method in kept:
            shown[method][name] = mean[method][:, most]
        aware[name] = shown[AWARE][name], low[:, most], high[:, most]
    title = f"{panel.title}: {states} states, ε = {EPSILON:g}"
    taken = np.bincount(share.argmax(axis=2).ravel(), minlength=states) / share[..., 0].size
    apart = {method: float(np.mean(found)) for method, found in distances.items()}
    plain, paper, ops = (shown[method] for method in (NONE, PAPER, LAST))
    return Profiles(title, states, levels, NONE, plain, paper, ops, aware, taken, apart)


def _is_flag(panel: Panel, name: str) -> bool:
    return tuple(map(str, panel.levels[name])) in (("no", "yes"), ("0", "1"))

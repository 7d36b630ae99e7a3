"""Pictures of what privacy costs: accuracy at several prices, and a ledger over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from tacit.accounting.filters import history
from tacit.plots.canvas import MAIN, SECOND, axes_for, bare, plain
from tacit.plots.estimates import cells_of
from tacit.posterior import Posterior
from tacit.spec.errors import ModelError

_AT_ONCE = 60.0  # seconds


class Entries(Protocol):
    """A ledger: what it says, entry by entry."""

    def entries(self) -> list[dict[str, Any]]: ...


def accuracy(
    posteriors: Mapping[float, Posterior],
    variable: str | None = None,
    label: Any = None,
    level: float = 0.9,
    *,
    ax: Axes | None = None,
) -> Axes:
    """One number's interval at several epsilons: what more privacy loss would buy.

    Parameters
    ----------
    posteriors
        Of one model, by epsilon. That of `math.inf`, without privacy, is a band for comparison.
    variable
        Default: the main one.
    label
        Which of its numbers, where it has several: a label, or a tuple of labels.
    level
        How much of the posterior an interval holds.
    ax
        Where to draw. Default: a new figure.
    """
    known = sorted(e for e in posteriors if math.isfinite(e))
    if not known:
        raise ModelError("Expected posteriors by epsilon, for example {0.5: one, 2.0: other}.")
    name = variable or next(iter(posteriors[known[0]].draws))
    cells = cells_of(posteriors[known[0]], name)
    wanted = () if label is None else label if isinstance(label, tuple) else (label,)
    if wanted not in cells:
        raise ModelError(f"Expected label= to be one of {cells[:5]} for {name!r}, got {label!r}.")
    at = cells.index(wanted)

    def ends(epsilon: float) -> tuple[float, float, float]:
        found = posteriors[epsilon]
        low, high = (np.ravel(end)[at] for end in found.interval(level, name))
        return low, np.ravel(found.mean(name))[at], high

    low, mean, high = np.array([ends(e) for e in known]).T
    ax = axes_for(ax, 3.2, 5)
    if math.inf in posteriors:
        first, _, last = ends(math.inf)
        ax.axhspan(first, last, color=SECOND, alpha=0.25, linewidth=0, label="no privacy")
        ax.legend(frameon=False)
    ax.vlines(known, low, high, color=MAIN, linewidth=2)
    ax.plot(known, mean, "o", color=MAIN)
    ax.set_xscale("log")
    ax.set_xticks(known, [f"{e:g}" for e in known])
    ax.minorticks_off()
    ax.set_xlabel("epsilon")
    ax.set_ylabel(plain(", ".join([name, *map(str, wanted)])) + f", {100 * level:g}% interval")
    bare(ax, "y")
    return ax


def ledger(ledger: Entries, *, ax: Axes | None = None) -> Axes:
    """What was spent over time, below what may be spent, as the ledger adds up.

    Parameters
    ----------
    ledger
        A `tacit.Ledger`. Times within a minute of each other are drawn entry by entry.
    ax
        Where to draw. Default: a new figure.
    """
    entries, sums, limits = zip(*history(ledger.entries()))
    times = [datetime.fromisoformat(entry["time"]) for entry in entries]
    name = next(iter(limits[0].by_name))  # epsilon, or what a filter adds up
    spent, limit = ([float(each.by_name[name]) for each in of] for of in (sums, limits))
    ax = axes_for(ax, 2.8)
    at_once = (times[-1] - times[0]).total_seconds() < _AT_ONCE
    at: Any = range(len(entries)) if at_once else times
    ax.step(at, limit, where="post", color=SECOND, linestyle="--", label="budget")
    ax.step(at, spent, where="post", color=MAIN, label="spent")
    ax.plot(at, spent, "o", color=MAIN, markersize=4)
    if at_once:
        ax.set_xticks(range(len(entries)), [_what(entry) for entry in entries], rotation=30)
        ax.set_xlabel(f"entries of {times[0]:%Y-%m-%d}")
    else:
        locator = AutoDateLocator(maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.set_ylim(0, 1.08 * max(limit))
    ax.set_ylabel(name.replace("_", " "))
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    bare(ax, "y")
    return ax


def _what(entry: Mapping[str, Any]) -> str:
    return plain(entry.get("name") or entry["kind"])

"""Pictures of hidden Markov models: where and when, and what the states are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from tacit.plots.canvas import WIDEST, axes_for, bare, colours, panels_for, plain, rows_on
from tacit.posterior import HiddenStatesPosterior, Posterior
from tacit.posterior.hidden_states import STATE
from tacit.spec.errors import ModelError


def state_map(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """The most probable state of each sequence and time; the paler, the less certain.

    Parameters
    ----------
    posterior
        Of a hidden Markov model.
    ax
        Where to draw. Default: a new figure.
    """
    hidden = _hidden(posterior)
    probability = hidden.state_probabilities()
    sequence, time, _ = map(str, probability.dims)
    rows, columns, states = probability.shape
    share = probability.to_numpy()
    best = share.argmax(axis=2)
    # 0 where all states are as probable, 1 where one is certain
    sure = (share.max(axis=2) - 1 / states) / (1 - 1 / states) if states > 1 else np.ones_like(best)
    palette = np.array(colours(states))
    weight = 0.15 + 0.85 * sure[..., None]
    ax = axes_for(ax, map_height(rows), min(2.5 + 0.16 * columns, WIDEST))
    ax.imshow(
        np.concatenate([palette[best], weight], axis=2), aspect="auto", interpolation="nearest"
    )
    ax.set_yticks(range(rows), [plain(v) for v in hidden.coords[sequence]])
    some = list(range(0, columns, max(1, -(-columns // 12))))
    labels = [plain(hidden.coords[time][i]) for i in some]
    ax.set_xticks(some, labels, rotation=45, ha="right")
    ax.set_ylabel(plain(sequence))
    ax.set_xlabel(plain(time))
    ax.tick_params(length=2)
    keys = [Patch(color=tuple(palette[k]), label=f"state {k}") for k in range(states)]
    ax.legend(handles=keys, loc="lower right", bbox_to_anchor=(1, 1), ncols=4, frameon=False)
    return ax


def map_height(rows: int) -> float:
    """Return the height in inches of a map with `rows` sequences."""
    return 1.6 + 0.24 * rows


def profiles(
    posterior: Posterior,
    column: str | Sequence[str] | None = None,
    level: float = 0.9,
    *,
    ax: Axes | Sequence[Axes] | None = None,
) -> np.ndarray:
    """What each state emits: a panel for each column, with intervals. Returns an array of axes.

    Parameters
    ----------
    posterior
        Of a hidden Markov model.
    column
        One emission column, or some of them. Default: all.
    level
        How much of the posterior an interval holds.
    ax
        Where to draw, one for each column. Default: a new figure.
    """
    hidden = _hidden(posterior)
    known = list(hidden.model["emissions"])
    names = known if column is None else [column] if isinstance(column, str) else list(column)
    for name in names:
        if name not in known:
            raise ModelError(f"No emission column {name!r}; there are {', '.join(known)}.")
    states = len(hidden.coords[STATE])
    heights = [profile_height(hidden, name) for name in names]
    panels = panels_for(ax, len(names), heights, 7)
    palette = colours(states)
    for panel, name in zip(panels, names, strict=True):
        variable, labels = f"emission_{name}", hidden.coords[name]
        mean = hidden.mean(variable)
        low, high = hidden.interval(level, variable)
        for k in range(states):
            at = np.arange(len(labels)) + (k - (states - 1) / 2) * 0.7 / states
            panel.hlines(at, low[k], high[k], color=palette[k], linewidth=2.0, alpha=0.7)
            panel.plot(mean[k], at, "o", markersize=4, color=palette[k], label=f"state {k}")
        rows_on(panel, labels)
        panel.set_xlim(0, None)
        panel.set_title(plain(name), loc="left", fontsize="medium")
        bare(panel)
    panels[-1].set_xlabel(f"probability, with {100 * level:g}% intervals")
    panels[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, frameon=False)
    return panels


def profile_height(posterior: Posterior, column: str) -> float:
    """Return the height in inches of one column's panel."""
    rows = max(len(posterior.coords[column]), 2)
    return 1.1 + max(0.26, 0.11 * len(posterior.coords[STATE])) * rows


def _hidden(posterior: Posterior) -> HiddenStatesPosterior:
    if not isinstance(posterior, HiddenStatesPosterior):
        raise ModelError(f"Expected the posterior of an HMM, got {posterior!r}.")
    return posterior

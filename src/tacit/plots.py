"""Pictures of posteriors. Each function returns a matplotlib Figure and leaves pyplot alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tacit.posterior import HiddenStatesPosterior, Posterior
from tacit.posterior.hidden_states import STATE
from tacit.posterior.topics import TOPIC, TopicPosterior
from tacit.spec.errors import ModelError

_WIDEST = 16.0  # inches
_FEW = (  # Okabe and Ito
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#F0E442", "#000000"),
)


def state_map(posterior: Posterior) -> Figure:
    """The most probable state of each sequence and time; the paler, the less certain.

    Parameters
    ----------
    posterior
        Of a hidden Markov model.
    """
    hidden = _hidden(posterior)
    probability = hidden.state_probabilities()
    sequence, time, _ = map(str, probability.dims)
    rows, columns, states = probability.shape
    share = probability.to_numpy()
    best = share.argmax(axis=2)
    # 0 where all states are as probable, 1 where one is certain
    sure = (share.max(axis=2) - 1 / states) / (1 - 1 / states) if states > 1 else np.ones_like(best)
    colours = np.array(_colours(states))
    weight = 0.15 + 0.85 * sure[..., None]
    size = (min(2.5 + 0.16 * columns, _WIDEST), 1.3 + 0.24 * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.imshow(1 - weight * (1 - colours[best]), aspect="auto", interpolation="nearest")
    axes.set_yticks(range(rows), [str(v) for v in hidden.coords[sequence]])
    some = range(0, columns, max(1, -(-columns // 12)))
    axes.set_xticks(
        list(some), [str(hidden.coords[time][i]) for i in some], rotation=45, ha="right"
    )
    axes.set_ylabel(sequence)
    axes.set_xlabel(time)
    axes.tick_params(length=2)
    keys = [Patch(color=tuple(colours[k]), label=f"state {k}") for k in range(states)]
    figure.legend(handles=keys, loc="outside right upper", frameon=False)
    return figure


def profiles(
    posterior: Posterior, column: str | Sequence[str] | None = None, level: float = 0.9
) -> Figure:
    """What each state emits: a panel for each column, with intervals.

    Parameters
    ----------
    posterior
        Of a hidden Markov model.
    column
        One emission column, or some of them. Default: all.
    level
        How much of the posterior an interval holds.
    """
    hidden = _hidden(posterior)
    known = list(hidden.model["emissions"])
    names = known if column is None else [column] if isinstance(column, str) else list(column)
    for name in names:
        if name not in known:
            raise ModelError(f"No emission column {name!r}; there are {', '.join(known)}.")
    labels = [hidden.coords[name] for name in names]
    sizes = [max(len(some), 2) for some in labels]
    states = len(hidden.coords[STATE])
    figure = Figure(figsize=(7, 0.9 + 0.6 * len(names) + 0.26 * sum(sizes)), layout="constrained")
    panels = figure.subplots(len(names), 1, squeeze=False, height_ratios=sizes)[:, 0]
    colours = _colours(states)
    for axes, name, some in zip(panels, names, labels, strict=True):
        variable = f"emission_{name}"
        mean = hidden.mean(variable)
        low, high = hidden.interval(level, variable)
        for k in range(states):
            at = np.arange(len(some)) + (k - (states - 1) / 2) * 0.7 / states
            axes.hlines(at, low[k], high[k], color=colours[k], linewidth=2.0, alpha=0.6)
            axes.plot(mean[k], at, "o", markersize=3.5, color=colours[k], label=f"state {k}")
        axes.set_yticks(range(len(some)), [str(v) for v in some])
        axes.set_ylim(len(some) - 0.5, -0.5)
        axes.set_xlim(0, None)
        axes.set_title(name, loc="left", fontsize="medium")
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    panels[-1].set_xlabel(f"probability, with {100 * level:g}% intervals")
    handles, names_of = panels[0].get_legend_handles_labels()
    figure.legend(handles, names_of, loc="outside right upper", frameon=False)
    return figure


def topics(posterior: Posterior, words: int = 8, most: int = 12, level: float = 0.9) -> Figure:
    """The most probable words of the largest topics, with intervals.

    Parameters
    ----------
    posterior
        Of a topic model.
    words, most
        How many words of how many topics.
    level
        Of the intervals, which include the privacy noise.
    """
    table = _topics(posterior).summary(level, words=words)
    shown = list(dict.fromkeys(table.index.get_level_values(TOPIC)))[:most]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(3 * columns, 0.5 + rows * (0.6 + 0.19 * words)), layout="constrained")
    panels = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for axes, topic in zip(panels, shown):
        some = table.loc[topic].iloc[::-1]
        low, high = some.iloc[:, 2], some.iloc[:, 3]
        axes.barh(some.index, some["mean"], color=_FEW[0], alpha=0.6)
        axes.hlines(some.index, low, high, color="black", linewidth=1)
        axes.set_title(f"topic {topic}", fontsize=9)
        axes.tick_params(labelsize=8, length=2)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    return figure


def perplexity(
    posteriors: Mapping[float, Posterior], documents: Any, method: str = "completion"
) -> Figure:
    """How surprising documents are to topics that were fitted at several epsilons.

    Parameters
    ----------
    posteriors
        Of topic models, by epsilon. That of `math.inf`, without privacy, is a line for comparison.
    documents
        That you already have: texts or counts, as `TopicPosterior.perplexity` takes them.
    method
        "completion" or "bound".
    """
    topics_of = {epsilon: _topics(posteriors[epsilon]) for epsilon in sorted(posteriors)}
    scores = {e: found.perplexity(documents, method) for e, found in topics_of.items()}
    known = [e for e in scores if math.isfinite(e)]
    if not known:
        raise ModelError("Expected posteriors by epsilon, for example {0.5: one, 2.0: other}.")
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot(known, [scores[e] for e in known], marker="o", color=_FEW[0], label="private")
    if math.inf in scores:
        axes.axhline(scores[math.inf], color="black", linestyle=":", label="no privacy")
    axes.set_xscale("log")
    axes.set_xticks(known, [f"{e:g}" for e in known])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
    axes.set_ylabel("perplexity of a word")
    axes.legend(frameon=False)
    return figure


def _topics(posterior: Posterior) -> TopicPosterior:
    if not isinstance(posterior, TopicPosterior):
        raise ModelError(f"Expected the posterior of a topic model, got {posterior!r}.")
    return posterior


def _hidden(posterior: Posterior) -> HiddenStatesPosterior:
    if not isinstance(posterior, HiddenStatesPosterior):
        raise ModelError(f"Expected the posterior of an HMM, got {posterior!r}.")
    return posterior


def _colours(states: int) -> list[Any]:
    """Return distinguishable colours; where there are few, for the colour-blind too."""
    if states <= len(_FEW):
        return [to_rgb(colour) for colour in _FEW[:states]]
    wheel = matplotlib.colormaps["tab20" if states <= 20 else "nipy_spectral"]
    if states <= 20:
        return [wheel(k)[:3] for k in range(states)]
    return [wheel(x)[:3] for x in np.linspace(0.03, 0.97, states)]

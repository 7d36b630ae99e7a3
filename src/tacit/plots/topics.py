"""Pictures of topic models: their words, and how well they fit at several prices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tacit.plots.canvas import MAIN, axes_for, bare, panels_for, plain
from tacit.posterior import Posterior
from tacit.posterior.topics import TOPIC, TopicPosterior
from tacit.spec.errors import ModelError


def topics(
    posterior: Posterior,
    words: int = 8,
    most: int = 12,
    level: float = 0.9,
    *,
    topic: int | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> np.ndarray:
    """The most probable words of the largest topics, with intervals. Returns an array of axes.

    Parameters
    ----------
    posterior
        Of a topic model.
    words, most
        How many words of how many topics.
    level
        Of the intervals, which include the privacy noise.
    topic
        One topic alone, by its number.
    ax
        Where to draw, one for each topic. Default: a new figure.
    """
    table = _topics(posterior).summary(level, words=words)
    known = list(dict.fromkeys(table.index.get_level_values(TOPIC)))
    if topic is not None and topic not in known:
        raise ModelError(f"No topic {topic!r}; there are {len(known)}.")
    shown = known[:most] if topic is None else [topic]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    panels = panels_for(ax, len(shown), [topic_height(words)] * rows, 3 * columns, columns)
    for panel, each in zip(panels, shown, strict=True):
        some = table.loc[each].iloc[::-1]
        low, high = some.iloc[:, 2], some.iloc[:, 3]
        at = np.arange(len(some))
        panel.barh(at, some["mean"], color=MAIN, alpha=0.6)
        panel.hlines(at, low, high, color=MAIN, linewidth=1.5)
        panel.set_yticks(at, [plain(word) for word in some.index])
        panel.set_title(f"topic {each}", fontsize=9)
        panel.tick_params(labelsize=8, length=2)
        panel.tick_params(axis="y", length=0)
        panel.set_xlim(left=0)
        bare(panel, None)
    return panels


def topic_height(words: int = 8) -> float:
    """Return the height in inches of a panel with `words` words."""
    return 0.6 + 0.19 * words


def perplexity(
    posteriors: Mapping[float, Posterior],
    documents: Any,
    method: str = "completion",
    *,
    ax: Axes | None = None,
) -> Axes:
    """How surprising documents are to topics that were fitted at several epsilons.

    Parameters
    ----------
    posteriors
        Of topic models, by epsilon. That of `math.inf`, without privacy, is a line for comparison.
    documents
        That you already have: texts or counts, as `TopicPosterior.perplexity` takes them.
    method
        "completion" or "bound".
    ax
        Where to draw. Default: a new figure.
    """
    topics_of = {epsilon: _topics(posteriors[epsilon]) for epsilon in sorted(posteriors)}
    scores = {e: found.perplexity(documents, method) for e, found in topics_of.items()}
    known = [e for e in scores if math.isfinite(e)]
    if not known:
        raise ModelError("Expected posteriors by epsilon, for example {0.5: one, 2.0: other}.")
    ax = axes_for(ax, 3.4, 5)
    ax.plot(known, [scores[e] for e in known], marker="o", color=MAIN, label="private")
    if math.inf in scores:
        ax.axhline(scores[math.inf], color="black", linestyle=":", label="no privacy")
    ax.set_xscale("log")
    ax.set_xticks(known, [f"{e:g}" for e in known])
    ax.minorticks_off()
    ax.set_xlabel("epsilon")
    ax.set_ylabel("perplexity of a word")
    ax.legend(frameon=False)
    return ax


def _topics(posterior: Posterior) -> TopicPosterior:
    if not isinstance(posterior, TopicPosterior):
        raise ModelError(f"Expected the posterior of a topic model, got {posterior!r}.")
    return posterior

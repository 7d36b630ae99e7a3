"""The picture of vips.py. No privacy is dotted, the paper's methods dashed."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from vips_measures import (
    EXACT,
    NONE,
    NONE_PAPER,
    OURS,
    PAPER,
    SMALL,
    STRONG,
    UNCLIPPED,
    UNIGRAM,
    Found,
)

# Okabe and Ito's colours, which the colour-blind can tell apart
LOOK = {
    UNIGRAM: {"color": "#777777", "ls": (0, (1, 3))},
    NONE: {"color": "#000000", "ls": ":"},
    NONE_PAPER: {"color": "#000000", "ls": "-."},
    STRONG: {"color": "#CC79A7", "ls": "--", "marker": "x"},
    UNCLIPPED: {"color": "#E69F00", "ls": "--", "marker": "v"},
    SMALL: {"color": "#56B4E9", "ls": "--", "marker": "s"},
    PAPER: {"color": "#0072B2", "ls": "--", "marker": "D"},
    OURS: {"color": "#009E73", "ls": "-", "marker": "o"},
}
MEASURES = {
    "completion": "perplexity of half a document, given the other half",
    "bound": "perplexity by Hoffman's bound, as in the paper",
}


def perplexities(path: Path, one: Found) -> None:
    """Perplexity of words not seen against epsilon, one panel a measure."""
    figure = Figure(figsize=(10.5, 5.2), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (what, label) in zip(panels, MEASURES.items(), strict=True):
        for method, look in LOOK.items():
            if method in EXACT:
                for value in one.curve(method, what)[1][:1]:
                    axes.axhline(value, label=method, lw=1.5, **look)
            else:
                _curve(axes, one, method, what)
        axes.set(xscale="log", yscale="log", xlabel="ε", title=label)
        axes.xaxis.set_major_locator(FixedLocator(list(one.epsilons)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.grid(color="#e4e4e4", lw=0.6)
    _ticks(panels[0], one)
    panels[0].set_ylabel("perplexity per word")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _curve(axes: Axes, one: Found, method: str, what: str) -> None:
    """Means over seeds and, where it is known, their standard deviation."""
    epsilons, values = one.curve(method, what)
    if not epsilons:
        return
    spread = one.curve(method, "spread")[1] if what == "completion" else None
    wide = 2.4 if method == OURS else 1.5
    axes.errorbar(
        epsilons, values, spread, label=method, lw=wide, elinewidth=1, capsize=2, ms=5,
        **LOOK[method],
    )  # fmt: skip


def _ticks(axes: Axes, one: Found) -> None:
    """Round numbers about a fifth apart: a decade would often hold one tick."""
    seen = [value for m in LOOK for what in MEASURES for value in one.curve(m, what)[1]]
    low, high = min(seen) / 1.05, max(seen) * 1.05
    round_ones = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ticks = [10**power * r for power in range(7) for r in round_ones]
    axes.yaxis.set_major_locator(FixedLocator([t for t in ticks if low <= t <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_ylim(low, high)

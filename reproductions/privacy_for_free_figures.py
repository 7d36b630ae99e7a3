"""The pictures of privacy_for_free.py. No privacy is dotted, the paper's methods dashed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from privacy_for_free_data import Problem
from privacy_for_free_measures import (
    BALL,
    BUDGET,
    HYBRID,
    KIFER,
    KIFER_TWICE,
    NONE,
    OBJECTIVE,
    OPS,
    OUTPUT,
    SGLD_PAPER,
    SGLD_SAME,
    WANG,
    Curve,
)

# Okabe and Ito's colours, which the colour-blind can tell apart, and two of Tol's for Kifer's
LOOK = {
    NONE: {"color": "#000000", "ls": ":", "marker": ""},
    KIFER: {"color": "#332288", "ls": "-.", "marker": "P"},
    KIFER_TWICE: {"color": "#A59BD8", "ls": "-.", "marker": "X"},
    WANG: {"color": "#777777", "ls": "--", "marker": "*"},
    OUTPUT: {"color": "#CC79A7", "ls": "--", "marker": "x"},
    OBJECTIVE: {"color": "#0072B2", "ls": "--", "marker": "D"},
    BALL: {"color": "#E69F00", "ls": "--", "marker": "v"},
    OPS: {"color": "#D55E00", "ls": "--", "marker": "^"},
    HYBRID: {"color": "#56B4E9", "ls": "--", "marker": "s"},
    BUDGET: {"color": "#009E73", "ls": "-", "marker": "o"},
    SGLD_PAPER: {"color": "#0072B2", "ls": "--", "marker": "D"},
    SGLD_SAME: {"color": "#E69F00", "ls": "-", "marker": "v"},
}
Found = list[tuple[Problem, dict[str, Curve]]]


def accuracies(path: Path, found: Found) -> None:
    """Accuracy against epsilon, one panel a problem."""
    figure = Figure(figsize=(4.4 * len(found), 4.8), layout="constrained")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for axes, (problem, curves) in zip(panels, found, strict=True):
        for method, curve in curves.items():
            _curve(axes, method, curve)
        axes.set_title(f"{problem.title}: {problem.rows:,} rows, {problem.size} coefficients")
        _epsilon_axis(axes, curves[NONE].epsilons)
    panels[0].set_ylabel("accuracy on rows not seen")
    shown = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        shown.update(zip(labels, handles, strict=True))
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=4, frameon=False
    )  # fmt: skip
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _curve(axes: Axes, method: str, curve: Curve) -> None:
    """Means over repeats, with two standard errors."""
    apart = 1.04 ** (list(LOOK).index(method) % 7 - 3)  # so that error bars do not hide one another
    repeats = curve.accuracy.shape[1]
    error = np.zeros(len(curve.epsilons))
    if repeats > 1 and method != NONE:
        error = 2 * curve.accuracy.std(axis=1, ddof=1) / np.sqrt(repeats)
    if method == NONE:
        apart = 1.0
    main = method == BUDGET
    axes.errorbar(
        np.array(curve.epsilons) * apart, curve.accuracy.mean(axis=1), error, label=method,
        capsize=2, lw=2.4 if main else 1.5, ms=5, zorder=3 if main else 2, **LOOK[method],
    )  # fmt: skip


def _epsilon_axis(axes: Axes, epsilons: tuple[float, ...]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(epsilons)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="#e4e4e4", lw=0.6)
    axes.set_xlabel("ε")

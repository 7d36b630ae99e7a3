"""The pictures of war_logs.py. No privacy is dotted, the paper's methods dashed, Tacit's solid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator
from war_logs_maps import LAST, Maps, Profiles
from war_logs_measures import (
    AWARE,
    AWARE_PURE,
    NONE,
    OPS10,
    OPS100,
    PAPER,
    PLUGIN,
    HeldOut,
)

# Okabe and Ito's colours, which the colour-blind can tell apart
BLACK, BLUE, ORANGE, GREEN = "#000000", "#0072B2", "#D55E00", "#009E73"
PURPLE, YELLOW, SKY = "#CC79A7", "#E69F00", "#56B4E9"
STATES = (BLUE, YELLOW, PURPLE, GREEN, ORANGE, SKY)
LOOK = {
    NONE: {"color": BLACK, "ls": ":", "marker": ""},
    PAPER: {"color": BLUE, "ls": "--", "marker": "D"},
    OPS10: {"color": ORANGE, "ls": "--", "marker": "^"},
    OPS100: {"color": YELLOW, "ls": "--", "marker": "v"},
    PLUGIN: {"color": PURPLE, "ls": "-", "marker": "x"},
    AWARE_PURE: {"color": SKY, "ls": "-", "marker": "s"},
    AWARE: {"color": GREEN, "ls": "-", "marker": "o"},
}


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _curve(axes: Axes, epsilons: tuple[float, ...], method: str, values: np.ndarray) -> None:
    """Means over splits, with two standard errors."""
    apart = 1.035 ** (list(LOOK).index(method) - 3)  # so that error bars do not hide one another
    error = 2 * values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
    style = {"lw": 2.4, "ms": 5.5} if method == AWARE else {"lw": 1.5, "ms": 4.5}
    if method == NONE:
        error = np.zeros_like(error)
    axes.errorbar(
        np.array(epsilons) * apart, values.mean(axis=1), error, label=method, capsize=2,
        zorder=3 if method == AWARE else 2, **style, **LOOK[method],
    )  # fmt: skip


def _epsilon_axis(axes: Axes, epsilons: tuple[float, ...]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(epsilons)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="#e4e4e4", lw=0.6)
    axes.set_xlabel("ε in all")


def _legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False
    )


def likelihoods(path: Path, found: list[HeldOut]) -> None:
    """Figure 6 and supplement Figure 2, beside no privacy on the same splits."""
    figure = Figure(figsize=(4.0 * len(found), 8.2), layout="constrained")
    grid = figure.subplots(2, len(found), squeeze=False)
    for column, one in enumerate(found):
        models = ((one.naive, "naive Bayes (1 state)"), (one.hidden, "HMM, 10 states"))
        for axes, (curves, model) in zip(grid[:, column], models, strict=True):
            plain = curves[NONE].by_row
            apart = {m: c.by_row - plain[:, : c.by_row.shape[1]] for m, c in curves.items()}
            for method, values in apart.items():
                _curve(axes, one.epsilons, method, values)
            title = f"{one.title}\n{model}: {plain.mean():.2f} without privacy"
            axes.set_title(title, fontsize=10)
            _epsilon_axis(axes, one.epsilons)
            _deep_enough(axes, apart)
    for axes in grid[:, 0]:
        axes.set_ylabel("held-out log-likelihood, nats per row\n(0: no privacy)")
    _legend_below(figure, grid[0, 0], 2 if len(found) < 3 else 3)
    _save(figure, path)


def _deep_enough(axes: Axes, apart: dict[str, np.ndarray]) -> None:
    """So that OPS at its worst does not flatten the rest: the table has all."""
    lowest = {method: -values.mean(axis=1).min() for method, values in apart.items()}
    depth = 1.1 * min(max(lowest.values()), 1.8 * max(lowest[PAPER], lowest[AWARE], 0.02))
    axes.set_ylim(-depth, 0.1 * depth)


def occupied(path: Path, found: list[HeldOut]) -> None:
    """How many of ten states are in use."""
    figure = Figure(figsize=(4.0 * len(found), 7.0), layout="constrained")
    grid = figure.subplots(2, len(found), squeeze=False, sharex="col", sharey=True)
    for column, one in zip(grid.T, found, strict=True):
        for method, curve in one.hidden.items():
            _curve(column[0], one.epsilons, method, curve.substantial)
            _curve(column[1], one.epsilons, method, curve.occupied)
        for axes in column:
            _epsilon_axis(axes, one.epsilons)
        column[0].set(title=one.title, ylim=(0, 10.6), xlabel="")
    grid[0, 0].set_ylabel("states with 5% of the rows")
    grid[1, 0].set_ylabel("states with 1% of the cells")
    _legend_below(figure, grid[0, 0], 2 if len(found) < 3 else 3)
    _save(figure, path)


def state_maps(path: Path, columns: list[Maps]) -> None:
    """Figures 3 and 7: who is in which state, when. Paler is less certain."""
    rows = len(columns[0].shares)
    height = sum(0.42 + 0.115 * columns[0].shape[0] for _ in range(rows))
    figure = Figure(figsize=(5.6 * len(columns), 1.0 + height), layout="constrained")
    grid = figure.subplots(rows, len(columns), squeeze=False)
    for j, maps in enumerate(columns):
        colours = np.array([to_rgb(STATES[k]) for k in range(maps.states)])
        for i, (method, share) in enumerate(maps.shares.items()):
            axes = grid[i, j]
            sure = (share.max(axis=2) - 1 / maps.states) / (1 - 1 / maps.states)
            weight = 0.15 + 0.85 * sure[..., None]
            picture = 1 - weight * (1 - colours[share.argmax(axis=2)])
            axes.imshow(picture, aspect="auto", interpolation="nearest")
            mark = "  (not private)" if method in maps.not_private else ""
            agrees = f"  {maps.agrees[method]:.0%}" if method in maps.agrees else ""
            axes.set_title(method + agrees + mark, loc="left", fontsize=9, pad=2)
            names = maps.sequences
            axes.set_yticks(range(len(names)), names, fontsize=5.5 if len(names) > 8 else 7)
            januaries = [t for t, label in enumerate(maps.times) if label.endswith("-01")]
            some = januaries or list(range(0, len(maps.times), 1 + len(maps.times) // 8))
            labels = [maps.times[t].removesuffix("-01") for t in some]
            axes.set_xticks(some, labels if i == rows - 1 else [""] * len(some), fontsize=8)
            axes.tick_params(length=2)
            for t in januaries[1:]:
                axes.axvline(t - 0.5, color="white", lw=0.6)
        keys = [Patch(color=tuple(c), label=f"state {k + 1}") for k, c in enumerate(colours)]
        grid[0, j].legend(
            handles=keys, ncols=maps.states, loc="lower right", bbox_to_anchor=(1.0, 1.0),
            frameon=False, fontsize=8, borderaxespad=0.1, handlelength=1.0,
        )  # fmt: skip
    for j, maps in enumerate(columns):
        grid[0, j].annotate(
            maps.title, (0.5, 1.0), xytext=(0, 22), xycoords="axes fraction", ha="center",
            textcoords="offset points", fontsize=11, annotation_clip=False,
        )  # fmt: skip
    _save(figure, path)


def profiles(path: Path, found: Profiles) -> None:
    """Figures 4 and 5, and OPS as in supplement Figures 4 and 6: what each state is like."""
    features = list(found.levels)
    sizes = [len(found.levels[name]) for name in features]
    figure = Figure(
        figsize=(3.9 * found.states, 1.4 + 0.25 * sum(sizes) + 0.35 * len(sizes)),
        layout="constrained",
    )
    grid = figure.subplots(
        len(features), found.states, squeeze=False, sharex="col", height_ratios=sizes
    )
    ends = [high for _, _, high in found.aware.values()] + [*found.paper.values()]
    widest = min(1.0, 1.08 * max(values.max() for values in [*ends, *found.ops.values()]))
    for i, name in enumerate(features):
        labels = found.levels[name]
        for k in range(found.states):
            axes, at = grid[i, k], np.arange(len(labels))
            mean, low, high = (values[k] for values in found.aware[name])
            axes.barh(at, mean, 0.72, color=STATES[k], alpha=0.55)
            axes.hlines(at, low, high, color=BLACK, lw=1.6)
            axes.plot(found.plain[name][k], at, "|", color=BLACK, ms=9, mew=1.2)
            axes.plot(found.paper[name][k], at, "D", ms=4, mfc="none", mec=ORANGE, mew=1.3)
            axes.plot(found.ops[name][k], at, "^", ms=4.5, mfc="none", mec=BLACK, mew=1.1)
            axes.set(ylim=(len(labels) - 0.5, -0.5), xlim=(0, widest))
            flag = len(labels) == 1
            named = [name.replace("_", " ")] if flag else labels
            axes.set_yticks(at, named if k == 0 else [""] * len(labels), fontsize=8)
            axes.tick_params(axis="y", length=0)
            axes.spines[["top", "right"]].set_visible(False)
            if i == 0:
                axes.set_title(f"state {k + 1}, {found.share[k]:.0%} of the cells", fontsize=10)
            if k == 0 and not flag:
                axes.set_ylabel(name, fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("probability")
    keys = [
        Patch(color="#999999", label="Tacit: noise-aware mean"),
        Line2D([], [], color=BLACK, lw=1.6, label="its 90% interval"),
        Line2D([], [], color=ORANGE, marker="D", mfc="none", ls="", label="paper: Laplace"),
        Line2D([], [], color=BLACK, marker="^", mfc="none", ls="", label=LAST),
        Line2D([], [], color=BLACK, marker="|", ms=9, ls="", label=found.plain_name),
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(found.title, fontsize=11)
    _save(figure, path)

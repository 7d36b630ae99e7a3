"""The pictures of conjugate.py. No privacy is dotted, the paper's methods dashed, Tacit's solid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from conjugate_laws import LatentCounts, discrete_laplace, log_beta, log_partition, projected_counts
from conjugate_measures import (
    DRAW,
    FIGURE1,
    FIGURE2,
    LAPLACE_DRAW,
    LAPLACE_MEAN,
    MEAN,
    OPS,
    OURS,
    OURS_DRAW,
    OURS_OPS,
    Attack,
    Curves,
    Divergences,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart
BLACK, GREY, SKY, BLUE = "#000000", "#7f7f7f", "#56B4E9", "#0072B2"
ORANGE, GREEN, PURPLE, YELLOW = "#D55E00", "#009E73", "#CC79A7", "#E69F00"
LOOK = {
    MEAN: {"color": GREY, "ls": ":", "marker": "."},
    DRAW: {"color": BLACK, "ls": ":", "marker": "."},
    LAPLACE_MEAN: {"color": SKY, "ls": "--", "marker": "s"},
    LAPLACE_DRAW: {"color": BLUE, "ls": "--", "marker": "D"},
    OPS: {"color": ORANGE, "ls": "--", "marker": "^"},
    OURS: {"color": GREEN, "ls": "-", "marker": "o"},
    OURS_DRAW: {"color": YELLOW, "ls": "-", "marker": "v"},
    OURS_OPS: {"color": PURPLE, "ls": "-", "marker": "x"},
}


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _legend_below(figure: Figure, axes: Axes, columns: int) -> None:
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, frameon=False
    )


def _beside(axes: Axes, level: float, words: str, color: str) -> None:
    """Words to the right of the axes at a level."""
    axes.annotate(
        words, (1.0, level), xycoords=("axes fraction", "data"), fontsize=9, color=color,
        xytext=(4, 0), textcoords="offset points", va="center", annotation_clip=False,
    )  # fmt: skip


def posteriors(path: Path, successes: int = 6, n: int = 20, draws: int = 30) -> dict[str, float]:
    """Figure 1. Returns how far the posterior means are from the one without privacy."""
    rng = np.random.default_rng(1)
    grid = np.linspace(0.001, 0.999, 999)
    same = np.full(draws, successes)
    yes, no = projected_counts(rng, same, n, FIGURE1.epsilon)
    scale = 1 / FIGURE1.epsilon
    latent = LatentCounts.given(same + discrete_laplace(rng, scale, draws), n, scale)
    true = np.exp(log_beta(grid, successes + 1, n - successes + 1))[0]
    inside = grid[(grid >= FIGURE1.truncation) & (grid <= 1 - FIGURE1.truncation)]
    a, b = successes / FIGURE1.temperature + 1, (n - successes) / FIGURE1.temperature + 1
    tempered = (a - 1) * np.log(inside) + (b - 1) * np.log1p(-inside)
    tempered = np.exp(tempered - log_partition(a, b, FIGURE1.truncation))

    figure = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    noisy = np.exp(log_beta(grid, yes + 1, no + 1))
    for i, density in enumerate(noisy):
        name = "paper: Laplace, 30 releases" if i == 0 else None
        left.plot(grid, density, "--", color=BLUE, lw=0.8, alpha=0.55, label=name)
    edge = FIGURE1.truncation
    left.plot(
        [edge, *inside, 1 - edge], [0, *tempered, 0], "--", color=ORANGE, lw=2.2,
        label=f"paper: OPS, T = {FIGURE1.temperature:.2f}",
    )  # fmt: skip
    for i, density in enumerate(latent.density(grid)[latent.row]):
        name = (
            "Tacit: noise-aware, 30 releases\n(whole numbers, so that many coincide)"
            if i == 0
            else None
        )
        right.plot(grid, density, "-", color=GREEN, lw=0.8, alpha=0.55, label=name)
    titles = ("Paper: noise 2/ε on both counts", "Tacit: noise 1/ε on one")
    for axes, title in zip((left, right), titles, strict=True):
        axes.plot(grid, true, ":", color=BLACK, lw=2.2, label="posterior without privacy")
        axes.set(title=title, xlabel="success probability p", xlim=(0, 1), ylim=(0, 6))
        axes.legend(frameon=False, fontsize=9, loc="upper right")
    left.set_ylabel("density")
    _save(figure, path)
    truth = (successes + 1) / (n + 2)
    return {
        "paper": float(np.abs((yes + 1) / (yes + no + 2) - truth).mean()),
        "ours": float(np.abs(latent.posterior_mean - truth).mean()),
        "beyond the picture": float((noisy.max(axis=1) > 6).sum()),
    }


def errors(path: Path, curves: Curves) -> None:
    """Figure 2."""
    figure = Figure(figsize=(8, 5.6), layout="constrained")
    axes = figure.subplots()
    for name, look in LOOK.items():
        if name != OURS_DRAW:
            axes.errorbar(
                curves.ns, curves.mean[name], curves.error[name], ms=4.5, lw=1.6, label=name, **look
            )
    axes.set(
        xscale="log", yscale="log", xlabel="number of records n", ylabel="mean |estimate - p|",
        title="p = 0.1, ε = 0.1, OPS truncated at 0.05",
    )  # fmt: skip
    axes.grid(which="major", color="#dddddd", lw=0.6)
    _legend_below(figure, axes, 3)
    _save(figure, path)


def efficiency(path: Path, both: list[Curves]) -> None:
    """Table 1 and Theorems 4 and 5, measured."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    for axes, curves in zip(figure.subplots(1, 2), both, strict=True):
        limit = 1 + curves.setting.temperature
        for level, words in ((1, "1"), (2, "2"), (limit, f"1 + T = {limit:.1f}")):
            axes.axhline(level, color="#bbbbbb", lw=0.8, zorder=0)
            _beside(axes, level, words, BLACK)
        for i, (name, look) in enumerate(LOOK.items()):
            apart = 1.06 ** (i - 3.5)  # so that error bars do not hide one another
            axes.errorbar(
                curves.ns * apart, curves.mean[name], 2 * curves.error[name], ms=4.5, lw=1.4,
                capsize=2, label=name, **look,
            )  # fmt: skip
        axes.set(
            xscale="log", yscale="log", xlabel="number of records n",
            title=f"p = 0.3, ε = {curves.setting.epsilon:g}, OPS truncated at 0.2",
        )  # fmt: skip
        axes.set_yticks([1, 2, 3, 5, 10, 20, 30, 50], minor=False)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.set_ylim(0.8, 1.25 * max(values.max() for values in curves.mean.values()))
    figure.axes[0].set_ylabel("n × squared error / p(1 - p)")
    _legend_below(figure, figure.axes[0], 4)
    _save(figure, path)


def attack(path: Path, attacks: dict[str, Attack]) -> None:
    """Supplement, Figure 1."""
    figure = Figure(figsize=(8, 4.6), layout="constrained")
    axes = figure.subplots()
    for (relation, found), color in zip(attacks.items(), (ORANGE, BLUE), strict=True):
        n = np.arange(1, len(found.cost) + 1)
        name = {"replace_one": "replace one", "add_remove": "add or remove one"}[relation]
        axes.axhline(found.bound, color=color, ls=":", lw=1.4)
        _beside(axes, found.bound, f"bound {found.bound:.3f}", color)
        axes.plot(n, found.cost, "--", color=color, lw=2.2, label=f"{name}: the adversary's data")
        axes.plot(n, found.balanced, "-.", color=color, lw=1.0, label=f"{name}: balanced data")
    axes.set(
        xscale="log", xlabel="number of records n", ylabel="ε of one posterior draw",
        ylim=(1.4, 4.8), title="Beta posterior truncated at 0.1",
    )  # fmt: skip
    _legend_below(figure, axes, 2)
    _save(figure, path)


def divergence(path: Path, found: Divergences) -> None:
    """Lemma 1."""
    figure = Figure(figsize=(9.5, 4.9), layout="constrained")
    p, noise = FIGURE2.p, 1 / FIGURE2.epsilon**2
    expected = (4 * (p**2 + (1 - p) ** 2) * noise, noise) / (found.ns[:, None] * p * (1 - p))
    panels = (
        ("KL(private || posterior)", found.paper, found.ours),
        ("KL(posterior || private)", found.paper_back, found.ours_back),
    )
    for axes, (title, *both) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        looks = (("paper: Laplace", LOOK[LAPLACE_DRAW]), ("Tacit: noise-aware", LOOK[OURS]))
        for values, (name, look), limit in zip(both, looks, expected.T, strict=True):
            low, high = np.quantile(values, [0.1, 0.9], axis=1)
            axes.fill_between(found.ns, low, high, color=look["color"], alpha=0.15, lw=0)
            axes.plot(found.ns, values.mean(axis=1), ms=4.5, lw=1.8, label=f"{name}, mean", **look)
            late = found.ns >= 1000
            axes.plot(found.ns[late], limit[late], color=BLACK, lw=0.7, zorder=5)
        axes.set(xscale="log", yscale="log", xlabel="number of records n", title=title)
        axes.set_ylim(1e-4, 100)
    axes.plot([], [], color=BLACK, lw=0.7, label="1/n law")
    axes.fill_between([], [], color=GREY, alpha=0.3, lw=0, label="10% to 90% of repeats")
    figure.axes[0].set_ylabel("nats")
    _legend_below(figure, axes, 4)
    _save(figure, path)

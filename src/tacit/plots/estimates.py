"""Pictures of numbers that were estimated: densities, intervals, forests, effects."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from tacit.plots.canvas import MAIN, SECOND, axes_for, bare, plain, rows_on
from tacit.posterior import Posterior
from tacit.spec.errors import ModelError

ROW = 0.26  # inches
MOST = 40  # rows of a picture


def height_of(rows: int, more: float = 0.0) -> float:
    """Return the height in inches of a picture with `rows` rows."""
    return 0.95 + ROW * min(rows, MOST) + more


def named(posterior: Posterior, variable: str | None) -> str:
    """Return the variable to draw: by default the main one."""
    if not isinstance(posterior, Posterior):
        raise ModelError(f"Expected a posterior, such as tacit.fit returns, got {posterior!r}.")
    return next(iter(posterior.draws)) if variable is None else variable


def cells_of(posterior: Posterior, variable: str) -> list[tuple[Any, ...]]:
    """Return the labels of each number of a variable, in order."""
    if variable not in posterior.dims:
        known = ", ".join(posterior.draws)
        raise ModelError(f"No variable {variable!r}; there are {known}.")
    return list(product(*(posterior.coords[dim] for dim in posterior.dims[variable])))


def posterior(
    posterior: Posterior, variable: str | None = None, level: float = 0.9, *, ax: Axes | None = None
) -> Axes:
    """The posterior of one number: a histogram, its mean and its interval.

    Parameters
    ----------
    posterior
        The fit.
    variable
        A variable of one number. Default: the main one.
    level
        How much of the posterior the interval holds.
    ax
        Where to draw. Default: a new figure.
    """
    name = named(posterior, variable)
    if cells_of(posterior, name) != [()]:
        raise ModelError(f"Expected a variable of one number; {name!r} has several: intervals().")
    draws = posterior.flat(name)
    low, high = posterior.interval(level, name)
    ax = axes_for(ax, 2.4)
    bins = int(np.clip(np.sqrt(len(draws)), 10, 60))
    ax.hist(draws, bins=bins, density=True, color=MAIN, alpha=0.55)
    mean = posterior.mean(name)
    ax.axvline(mean, color=MAIN, linewidth=1.5)
    ax.plot([low, high], [0, 0], color=SECOND, linewidth=5, solid_capstyle="butt", clip_on=False)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    bare(ax, None)
    ax.set_xlabel(f"{plain(name)}; bar: {100 * level:g}% interval")
    return ax


def intervals(
    posterior: Posterior, variable: str | None = None, level: float = 0.9, *, ax: Axes | None = None
) -> Axes:
    """A mean and an interval for each number of a variable, with half of it inside the thick line.

    Parameters
    ----------
    posterior
        The fit.
    variable
        Default: the main one.
    level
        Of the thin lines; the thick ones hold 50%.
    ax
        Where to draw. Default: a new figure.
    """
    name = named(posterior, variable)
    labels = [", ".join(map(str, cell)) or name for cell in cells_of(posterior, name)]
    ax = axes_for(ax, height_of(len(labels)))
    _lines(ax, posterior, name, level)
    rows_on(ax, labels[:MOST])
    _finish(ax, name, level, len(labels))
    return ax


def forest(
    posterior: Posterior, variable: str | None = None, level: float = 0.9, *, ax: Axes | None = None
) -> Axes:
    """Intervals by group: those of a variable's first dimension stand together under its label.

    Parameters
    ----------
    posterior
        The fit, for example of a `BayesNet({"ill": ["ward"]})`, whose `p(ill|ward)` has groups.
    variable
        Of two dimensions or more. Default: the first such.
    level
        Of the thin lines; the thick ones hold 50%.
    ax
        Where to draw. Default: a new figure.
    """
    named(posterior, variable)
    grouped = [name for name in posterior.draws if len(posterior.dims[name]) >= 2]
    name = variable or next(iter(grouped), None)
    if name is None or name not in grouped:
        raise ModelError(
            f"Expected a variable with groups, of two dimensions or more; there are {grouped}."
        )
    cells = cells_of(posterior, name)
    outer = posterior.dims[name][0]
    size = len(posterior.coords[outer])
    inside = len(cells) // size
    ax = axes_for(ax, height_of(len(cells)))
    _lines(ax, posterior, name, level)
    rows_on(ax, [_grouped(cell, at % inside == 0) for at, cell in enumerate(cells[:MOST])])
    for border in range(inside, min(len(cells), MOST), inside):
        ax.axhline(border - 0.5, color="grey", linewidth=0.6, alpha=0.6)
    ax.set_title(f"by {plain(outer)}", loc="left", fontsize="medium")
    _finish(ax, name, level, len(cells))
    return ax


def _grouped(cell: tuple[Any, ...], first: bool) -> str:
    rest = ", ".join(map(str, cell[1:]))
    return f"{cell[0]}:  {rest}" if first else rest


def effects(posterior: Posterior, level: float = 0.9, *, ax: Axes | None = None) -> Axes:
    """The coefficients of a regression; those whose interval holds zero are hollow.

    Parameters
    ----------
    posterior
        Of a `LinearRegression` or a `LogisticRegression`, whose effects are log odds ratios.
    level
        How much of the posterior an interval holds.
    ax
        Where to draw. Default: a new figure.
    """
    named(posterior, "coef")
    if "coef" not in posterior.draws or len(posterior.dims["coef"]) != 1:
        raise ModelError(f"Expected the posterior of a regression, got {posterior!r}.")
    labels = [cell[0] for cell in cells_of(posterior, "coef")]
    ax = axes_for(ax, height_of(len(labels)))
    ax.axvline(0, color="grey", linewidth=1)
    low, high = _lines(ax, posterior, "coef", level, marks=False)
    mean = np.ravel(posterior.mean("coef"))[:MOST]
    clear = (low > 0) | (high < 0)
    at = np.arange(len(mean))
    ax.plot(mean[clear], at[clear], "o", color=MAIN, markersize=6)
    ax.plot(mean[~clear], at[~clear], "o", color=MAIN, markersize=6, fillstyle="none")
    rows_on(ax, labels[:MOST])
    logistic = posterior.model["model"] == "LogisticRegression"
    what = "log odds ratio" if logistic else f"change of {posterior.model.get('target', 'target')}"
    _finish(ax, what, level, len(labels))
    return ax


def noise(
    posterior: Posterior,
    without: Posterior,
    variable: str | None = None,
    level: float = 0.9,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Intervals with the privacy noise, above those that take the released numbers as exact.

    Parameters
    ----------
    posterior
        The fit.
    without
        The same model from the same release, by `model.posterior(release, noise="plugin")`: what
        its intervals would be, were the released numbers free of noise.
    variable
        Default: the main one.
    level
        How much of the posterior an interval holds.
    ax
        Where to draw. Default: a new figure.
    """
    name = named(posterior, variable)
    labels = [", ".join(map(str, cell)) or name for cell in cells_of(posterior, name)]
    ax = axes_for(ax, height_of(len(labels), 0.12 * len(labels) + 0.5))
    pairs = ((posterior, MAIN, "with the privacy noise", -0.15),)
    pairs += ((without, SECOND, "as if there were none", 0.15),)
    for fitted, colour, text, shift in pairs:
        low, high = (np.ravel(end)[:MOST] for end in fitted.interval(level, name))
        at = np.arange(len(low)) + shift
        ax.hlines(at, low, high, color=colour, linewidth=3, label=text)
        ax.plot(np.ravel(fitted.mean(name))[:MOST], at, "o", color=colour, markersize=5)
    rows_on(ax, labels[:MOST])
    _finish(ax, name, level, len(labels))
    ax.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), fontsize="small")
    return ax


def _lines(
    ax: Axes, posterior: Posterior, name: str, level: float, *, marks: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Draw thin and thick intervals a row, and return the thin ones."""
    low, high = (np.ravel(end)[:MOST] for end in posterior.interval(level, name))
    first, last = (np.ravel(end)[:MOST] for end in posterior.interval(0.5, name))
    at = np.arange(len(low))
    ax.hlines(at, low, high, color=MAIN, linewidth=1.2)
    ax.hlines(at, first, last, color=MAIN, linewidth=3.5)
    if marks:
        mean = np.ravel(posterior.mean(name))[:MOST]
        ax.plot(mean, at, "o", color=MAIN, markersize=5)
    return low, high


def _finish(ax: Axes, name: str, level: float, rows: int) -> None:
    bare(ax)
    more = f"; the first {MOST} of {rows}" if rows > MOST else ""
    ax.set_xlabel(f"{plain(name)}, {100 * level:g}% intervals{more}")

"""What all pictures share: colours for the colour-blind, axes, and labels as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from tacit.spec.errors import ModelError

OKABE_ITO = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#F0E442", "#000000"),
)
MAIN, SECOND = OKABE_ITO[:2]
WIDTH = 6.4  # inches
WIDEST = 16.0


def axes_for(ax: Axes | None, height: float, width: float = WIDTH) -> Axes:
    """Return the axes that were given, or those of a new figure, which notebooks then show."""
    return panels_for(None if ax is None else [ax], 1, (height,), width)[0]


def panels_for(
    ax: Axes | Sequence[Axes] | None,
    count: int,
    heights: Sequence[float],
    width: float = WIDTH,
    columns: int = 1,
) -> np.ndarray:
    """Return as many axes as there are panels, given or new; `heights` are those of the rows."""
    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) != count:
            raise ModelError(f"Expected ax= to hold {count} axes, one for each panel.")
        return given
    import matplotlib.pyplot as plt

    _, made = plt.subplots(
        len(heights),
        columns,
        figsize=(width, sum(heights)),
        height_ratios=list(heights),
        squeeze=False,
        layout="constrained",
    )
    for spare in made.ravel()[count:]:
        spare.set_visible(False)
    return made.ravel()[:count]


def plain(label: Any) -> str:
    """Return a label as text that is not taken for mathematics."""
    return str(label).replace("$", r"\$")


def colours(count: int) -> list[Any]:
    """Return distinguishable colours; where there are few, for the colour-blind too."""
    if count <= len(OKABE_ITO):
        return [to_rgb(colour) for colour in OKABE_ITO[:count]]
    wheel = matplotlib.colormaps["tab20" if count <= 20 else "nipy_spectral"]
    if count <= 20:
        return [wheel(k)[:3] for k in range(count)]
    return [wheel(x)[:3] for x in np.linspace(0.03, 0.97, count)]


def bare(ax: Axes, grid: str | None = "x") -> None:
    """Take away frames that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=2)
    if grid:
        ax.grid(axis=grid, alpha=0.3)
        ax.set_axisbelow(True)


def rows_on(ax: Axes, labels: Sequence[Any]) -> None:
    """Name the rows of a picture from its top, and leave room for each."""
    ax.set_yticks(range(len(labels)), [plain(label) for label in labels])
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)

"""The tables of war_logs.py, and who is ahead of whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from war_logs_measures import AWARE, AWARE_PURE, METHODS, NONE, PAPER, Curve, HeldOut, Variation


@dataclass(frozen=True)
class Gap:
    """How much better the default is than another method on the same splits, and its error."""

    panel: str
    epsilon: float
    mean: float
    error: float


def gaps(found: list[HeldOut], other: str, most: float = np.inf) -> list[Gap]:
    """The default HMM against another method, at every epsilon up to some."""
    result = []
    for one in found:
        few = one.hidden[other].by_row.shape[1]
        apart = one.hidden[AWARE].by_row[:, :few] - one.hidden[other].by_row
        error = apart.std(axis=1, ddof=1) / np.sqrt(few)
        result += [
            Gap(one.title, e, float(m), float(s))
            for e, m, s in zip(one.epsilons, apart.mean(axis=1), error, strict=True)
            if e <= most
        ]
    return result


def verdict(found: list[Gap]) -> str:
    """How often the default is ahead, and where it is not."""
    behind = [g for g in found if g.mean < 0]
    clear = sum(g.mean > 2 * g.error for g in found)
    text = f"ahead in {len(found) - len(behind)} of {len(found)} settings, in {clear} by two errors"
    if behind:
        where = "; ".join(
            f"{g.panel} at epsilon {g.epsilon:g}: {g.mean:+.4f} ± {g.error:.4f}" for g in behind
        )
        text += f" (behind: {where})"
    return text


def awareness(found: list[HeldOut]) -> list[Gap]:
    """Noise-aware against the paper's method, from the same release."""
    swapped = [
        HeldOut(f.panel, f.title, f.epsilons, {}, f.hidden | {AWARE: f.hidden[AWARE_PURE]})
        for f in found
    ]
    return gaps(swapped, PAPER)


def table(head: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> str:
    lines = [f"| {head} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows])


def likelihood_table(one: HeldOut, curves: dict[str, Curve], what: str = "by_row") -> str:
    """Log-likelihood without privacy, and how far others are from it on the same splits."""
    plain = getattr(curves[NONE], what)
    rows = [(NONE, [f"{plain[0].mean():.3f}", *[""] * (len(one.epsilons) - 1)])]
    for method in METHODS[1:]:
        values = getattr(curves[method], what)
        apart = values - plain[:, : values.shape[1]]
        error = apart.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        mean = np.round(apart.mean(axis=1), 4) + 0.0  # no -0.0000
        rows.append((method, [f"{m:+.4f} ± {s:.4f}" for m, s in zip(mean, error, strict=True)]))
    return table(one.title, [f"epsilon {e:g}" for e in one.epsilons], rows)


def variations(one: HeldOut, varied: list[Variation]) -> str:
    """The hardest setting with other chains and priors."""
    plain = one.hidden[NONE]
    rows = []
    for v in varied:
        cells = [f"{v.transition_prior:g}", str(v.draws)]
        for mine, base in ((v.by_row, plain.by_row[0]), (v.by_cell, plain.by_cell[0])):
            apart = mine - base[: len(mine)]
            error = apart.std(ddof=1) / np.sqrt(len(apart))
            cells.append(f"{apart.mean():+.4f} ± {error:.4f}")
        rows.append((v.method, cells))
    heads = ["transition prior", "draws", "by row", "by cell"]
    return f"""
The hardest setting, {one.title} at epsilon {one.epsilons[0]:g}, again with longer chains and with a
sparser prior of the transitions: with ten states and concentration 1 the prior alone sends
an unseen cell to hardly known states. Both help; no privacy (prior 1) is 0.

{table("variation", heads, rows)}
"""

"""What the papers' settings cost: as published, corrected, and by the tightest accountant.

Writes docs/reproductions/accounting.md.
"""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path

from tacit.accounting import epsilon, exponential_epsilon, noise_multiplier
from tacit.accounting.rdp import advanced_composition

PAGE = Path(__file__).parent.parent / "docs" / "reproductions" / "accounting.md"


def vips() -> list[str]:
    """Topic model of the VIPS paper, Table 1: 20 batches of 20,000 out of 400,000 documents."""
    setting = {"noise_multiplier": 1.24, "steps": 20, "sampling_rate": 0.05, "delta": 1e-4}
    swap = {**setting, "neighbours": "replace_one"}
    fixed = {**swap, "sampling": "wor"}
    orthant = {"geometry": "nonnegative"}
    rows = [
        ("as published (a sensitivity that is too small by the square root of 2)", 2.383,
         epsilon(**fixed, geometry="box", accountant="rdp-classic")),
        ("corrected, classical conversion", 4.232,
         epsilon(**fixed, **orthant, accountant="rdp-classic")),
        ("corrected, improved conversion", 3.482, epsilon(**fixed, **orthant, accountant="rdp")),
        ("corrected, strong composition", None, epsilon(**fixed, **orthant, accountant="strong")),
        ("corrected, privacy loss distribution", 2.161, epsilon(**fixed, **orthant)),
        ("Poisson batches, replace-one", 1.074, epsilon(**swap, **orthant)),
        ("Poisson batches, replace-one, any signs", 1.303, epsilon(**swap)),
        ("Poisson batches, add/remove", 0.932, epsilon(**setting, neighbours="add_remove")),
    ]  # fmt: skip
    return [_row(what, known, found) for what, known, found in rows]


def langevin() -> list[str]:
    """Noise multipliers of DP-SGLD on Adult: 32,561 records, batches of 180, 32,641 steps."""
    n, batch, passes = 32_561, 180, math.sqrt(32_561)
    rows = []
    for target, known in ((0.1, (30.7, 61.5)), (1, (3.80, 7.46)), (10, (0.797, 1.06))):
        steps = 32_641
        # Wang et al. 2015: variance 128 N T L^2 / (tau eps^2) log(2.5 N T / (tau d)) log(2 / d)
        paper = math.sqrt(
            128 * n * passes / batch * math.log(2.5 * n * passes / batch / 1e-5)
            * math.log(2 / 1e-5)
        ) * batch / (n * target)  # fmt: skip
        found = [
            noise_multiplier(
                epsilon=target, steps=steps, sampling_rate=batch / n, delta=1e-5, neighbours=way
            )
            for way in ("add_remove", "replace_one")
        ]
        rows.append(
            f"| {target:g} | {paper:.1f} | {found[0]:.3g} ({known[0]:g}) | "
            f"{found[1]:.3g} ({known[1]:g}) |"
        )
    return rows


def gibbs() -> list[str]:
    """400 updates of a Gibbs sampler by the exponential mechanism, delta 1e-5."""
    rows = []
    for each in (1.0, 0.1):
        cells = (
            400 * each,
            advanced_composition(each, 400, 1e-5),
            exponential_epsilon(each, 400, 1e-5),
            exponential_epsilon(each, 400, 1e-5, adaptive=False),
        )
        rows.append(f"| {each:g} | " + " | ".join(f"{cell:.4g}" for cell in cells) + " |")
    return rows


def sampling() -> list[str]:
    """1,000 steps at rate 0.01, delta 1e-5: what batches of fixed size really cost."""
    rows = []
    for sigma in (1.0, 2.0):
        setting = {"noise_multiplier": sigma, "steps": 1000, "sampling_rate": 0.01, "delta": 1e-5}
        cells = (
            epsilon(**setting, neighbours="add_remove"),
            epsilon(**setting, neighbours="replace_one", geometry="nonnegative"),
            epsilon(**setting, neighbours="replace_one"),
            epsilon(**setting, neighbours="replace_one", sampling="wor"),
        )
        rows.append(f"| {sigma:g} | " + " | ".join(f"{cell:.4g}" for cell in cells) + " |")
    return rows


def _row(what: str, known: float | None, found: float) -> str:
    return f"| {what} | {'' if known is None else f'{known:g}'} | {found:.4g} |"


def main() -> None:
    parts = [
        "# What the papers' settings cost\n",
        f"`make reproduce`, {dt.date.today()}. Computed by `tacit.accounting`; figures known from "
        "elsewhere are beside them.\n",
        "## Private topic models (VIPS, Table 1)\n",
        "20 batches of 20,000 out of 400,000 documents, noise 1.24 times the clip, delta 1e-4.\n",
        "| | known | Tacit |\n|---|---|---|",
        *vips(),
        "\n## Private Langevin dynamics on Adult (Privacy for Free, Algorithm 2)\n",
        "Noise multiplier that is needed for 32,641 steps with batches of 180 out of 32,561 "
        "records, delta 1e-5. In brackets the figures known from elsewhere.\n",
        "| epsilon | the paper's formula | add/remove | replace-one |\n|---|---|---|---|",
        *langevin(),
        "\n## Private Gibbs sampling (exponential mechanism)\n",
        "400 updates, delta 1e-5. The last column holds only if the updates do not depend on "
        "one another's outcomes, which those of a Gibbs sampler do.\n",
        "| epsilon of an update | sum | strong composition | bounded range | not adaptive |\n"
        "|---|---|---|---|---|",
        *gibbs(),
        "\n## Poisson batches and batches of fixed size\n",
        "1,000 steps at rate 0.01, delta 1e-5. A batch of fixed size accounted for as a Poisson "
        "batch is the most expensive slip in practice.\n",
        "| noise multiplier | Poisson, add/remove | Poisson, replace-one, nonnegative | "
        "Poisson, replace-one | fixed size, replace-one |\n|---|---|---|---|---|",
        *sampling(),
        "",
    ]
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()

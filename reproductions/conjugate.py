"""The Beta-Bernoulli experiments of Foulds et al. 2016: theirs again, and Tacit's beside them.

Writes docs/reproductions/conjugate.md and its pictures.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import conjugate_figures as figures
import conjugate_measures as measures
import numpy as np
from conjugate_page import Results, page

DOCS = Path(__file__).parent.parent / "docs" / "reproductions"
NS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 5000, 10_000, 30_000, 100_000)
LARGE = (100, 1000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    ns: tuple[int, ...] = NS
    large: tuple[int, ...] = LARGE
    repeats: int = 1000  # the paper's
    many: int = 20_000
    adversary: int = 1000
    command: str = "make reproduce"


QUICK = Size(
    ns=(1, 10, 100, 3000), large=(100, 3000), repeats=200, many=2000, adversary=300,
    command="python reproductions/conjugate.py --quick",
)  # fmt: skip


def reproduce(folder: Path, size: Size) -> Results:
    """Runs everything, draws the pictures and writes the page."""
    folder.mkdir(parents=True, exist_ok=True)
    ns, large, few = np.array(size.ns), np.array(size.large), np.array([1, 10, 30, 100, 1000])
    results = Results(
        command=size.command,
        repeats=size.repeats,
        many=size.many,
        figure1=figures.posteriors(folder / "conjugate-posteriors.png"),
        check=measures.check_against_tacit(),
        l1=measures.l1_errors(ns, size.repeats),
        overtaken=measures.overtaking(size.many),
        prior_ns=few,
        under_prior=measures.prior_errors(few, size.many),
        efficiency=[measures.efficiencies(e, large, size.many) for e in (1.0, 0.1)],
        widths=measures.posterior_widths(1.0, 1_000_000, size.repeats),
        attacks={
            relation: measures.adversary(relation, size.adversary)
            for relation in ("replace_one", "add_remove")
        },
        divergence=measures.divergences(ns, size.repeats),
        lemma5={n: measures.lemma5_broken(n, size.many) for n in (100, 10_000)},
    )
    figures.errors(folder / "conjugate-errors.png", results.l1)
    figures.efficiency(folder / "conjugate-efficiency.png", results.efficiency)
    figures.attack(folder / "conjugate-adversary.png", results.attacks)
    figures.divergence(folder / "conjugate-divergence.png", results.divergence)
    (folder / "conjugate.md").write_text(page(results))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run with few repeats")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of page and pictures")
    arguments = parser.parse_args()
    reproduce(arguments.output, QUICK if arguments.quick else Size())


if __name__ == "__main__":
    main()

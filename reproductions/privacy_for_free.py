"""Figure 1 of Wang, Fienberg and Smola (2015): private logistic regressions, theirs and Tacit's.

Writes docs/reproductions/privacy-for-free.md and its pictures. Abalone and Adult are added where
--data has them; the two normals are simulated.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: more threads are slower

import privacy_for_free_data as data
import privacy_for_free_figures as figures
import step_sizes
from kept import Kept
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
    measure,
)
from privacy_for_free_page import Results, page
from war_logs_data import shared_data

DOCS = Path(__file__).parent.parent / "docs" / "reproductions"
COMPARED = (NONE, KIFER, KIFER_TWICE, WANG, OUTPUT, OBJECTIVE, BALL, OPS, HYBRID, BUDGET)
PLAIN = (NONE, OUTPUT, SGLD_PAPER, SGLD_SAME)
FAST = (OUTPUT, OBJECTIVE)
SLOW = (BALL, WANG, HYBRID, SGLD_PAPER, SGLD_SAME)


@dataclass(frozen=True)
class Size:
    """At which epsilons, and how often."""

    epsilons: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    few: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)  # for what takes longer
    adult: tuple[float, ...] = (0.01, 0.1, 0.5, 1.0, 2.0, 10.0)
    repeats: int = 10
    slow: int = 3  # repeats of what takes longer
    on_adult: int = 1  # repeats there, but of what is fast: only the noise differs
    rows: int = 5000  # of the two normals
    scheduled: tuple[float, ...] = (1.0, 10.0)  # epsilons for schedules of step sizes
    schedules: int = 2  # repeats of these
    steps: int = 1000
    command: str = "python reproductions/privacy_for_free.py --kept scores.json"

    def of(self, problem: data.Problem, method: str) -> tuple[float, ...]:
        """The epsilons of one method."""
        if method in SLOW:
            return self.few
        return self.adult if problem.name == "adult" else self.epsilons

    def repeats_of(self, problem: data.Problem, method: str) -> int:
        """How often one method is fitted at an epsilon."""
        if problem.name == "adult":
            return self.repeats if method in FAST else self.on_adult
        return self.slow if method in SLOW else self.repeats


QUICK = Size(
    epsilons=(0.1, 10.0), few=(0.1, 10.0), repeats=2, slow=2, rows=800,
    scheduled=(10.0,), schedules=1, steps=100,
    command="python reproductions/privacy_for_free.py --quick",
)  # fmt: skip


def reproduce(folder: Path, size: Size, real: list[data.Problem], kept: Kept) -> Results:
    """Runs everything, draws the pictures and writes the page."""
    folder.mkdir(parents=True, exist_ok=True)
    problems = [data.gaussians(size.rows), *real]
    both: list[figures.Found] = []
    for methods in (COMPARED, PLAIN):
        found: figures.Found = []
        for problem in problems:
            curves = {}
            for method in methods:
                epsilons = size.of(problem, method)
                repeats = size.repeats_of(problem, method)
                curves[method] = measure(problem, method, epsilons, repeats, kept, _say)
            found.append((problem, curves))
        both.append(found)
    weak = {how: step_sizes.weak_convergence(how) for how in step_sizes.HOW}
    followed = step_sizes.schedules(
        problems[0], size.scheduled, size.schedules, size.steps, kept
    )  # fmt: skip
    results = Results(size.command, *both, weak, followed)
    figures.accuracies(folder / "privacy-for-free-methods.png", results.methods)
    figures.accuracies(folder / "privacy-for-free-sgld.png", results.plain)
    (folder / "privacy-for-free.md").write_text(page(results))
    return results


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run with few repeats")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of page and pictures")
    parser.add_argument("--data", type=Path, help="folder that holds abalone and adult")
    parser.add_argument("--kept", type=Path, help="a file that keeps scores: a run can be resumed")
    given = parser.parse_args()
    folder = given.data or shared_data()
    loaded = () if given.quick else (data.abalone(folder), data.adult(folder))
    real = [problem for problem in loaded if problem is not None]
    if len(real) < 2 and not given.quick:
        _say(f"Abalone and Adult are not both in {folder}: {1 + len(real)} panel(s).")
    reproduce(given.output, QUICK if given.quick else Size(), real, Kept.load(given.kept))


if __name__ == "__main__":
    main()

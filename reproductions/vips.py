"""Figure 2 and Table 1 of Foulds et al. (2020): private topics, theirs and Tacit's.

Writes docs/reproductions/vips.md and its pictures. Wikipedia is added where --data has it; the
other documents are simulated.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # small matrices: more threads are slower

import vips_data as data
from kept import Kept
from vips_figures import perplexities
from vips_measures import Found, measure
from vips_page import page
from war_logs_data import shared_data

DOCS = Path(__file__).parent.parent / "docs" / "reproductions"


@dataclass(frozen=True)
class Size:
    """At which epsilons and with how many seeds; the documents, words and topics simulated."""

    epsilons: tuple[float, ...] = (0.5, 1.0, 2.4, 5.0, 10.0)
    main: float = 2.4  # of the table of words: 2.38 in the paper
    documents: int = 10_000
    words: int = 1000
    topics: int = 20
    seeds: int = 3
    command: str = "python reproductions/vips.py --kept topics.json"


QUICK = Size(
    epsilons=(5.0,), main=5.0, documents=2000, words=200, topics=5, seeds=2,
    command="python reproductions/vips.py --quick",
)  # fmt: skip


def reproduce(
    folder: Path, size: Size, real: list[data.Corpus], kept: Kept, *, fit: bool = True
) -> list[Found]:
    """Runs everything, draws the pictures and writes the page."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for corpus in (*real, data.simulated(size.documents, size.words, size.topics)):
        # All documents take long: where there is a prefix of them, it is for the other epsilons.
        first = len(real) > 1 and corpus is real[0]
        epsilons = (size.main,) if first else size.epsilons
        found.append(measure(corpus, epsilons, size.main, size.seeds, kept, _say, fit=fit))
        if not first:
            perplexities(folder / f"vips-{corpus.name}.png", found[-1])
    (folder / "vips.md").write_text(page(size.command, size.main, found))
    return found


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run on few documents")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of page and pictures")
    parser.add_argument("--data", type=Path, help="folder that holds wikipedia_bow")
    parser.add_argument("--documents", type=int, help="of Wikipedia, for the curve")
    parser.add_argument("--curve", action="store_true", help="those documents alone: no other fits")
    parser.add_argument("--kept", type=Path, help="a file that keeps scores: a run can be resumed")
    parser.add_argument("--page", action="store_true", help="fit nothing: show what is kept")
    given = parser.parse_args()
    folder = given.data or shared_data()
    real = [] if given.quick else data.wikipedia(folder, given.documents)
    if not real and not given.quick:
        _say(f"Wikipedia's words are not in {folder}: simulated documents alone.")
    size = QUICK if given.quick else Size()
    if len(real) > 1:
        size = replace(size, command=f"{size.command} --documents {given.documents}")
        if given.curve:
            size, real = replace(size, command=f"{size.command} --curve"), real[1:]
    reproduce(given.output, size, real, Kept.load(given.kept), fit=not given.page)


if __name__ == "__main__":
    main()

"""The war logs of Foulds et al. 2016: hidden Markov models of incidents, theirs and Tacit's.

Writes docs/reproductions/war-logs.md and its pictures. The leaked logs are not used: panels are
simulated, and the declassified reports in --data are added where they are found.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

import war_logs_data as data
import war_logs_figures as figures
from war_logs_maps import Maps, Profiles, map_states
from war_logs_measures import Effort, held_out, vary
from war_logs_page import Results, maps_and_profiles, page

DOCS = Path(__file__).parent.parent / "docs" / "reproductions"


@dataclass(frozen=True)
class Size:
    """How much is simulated and how long chains are."""

    # 390,000 rows at a median of 972 are about 400 cells: the paper had about 7 regions.
    regions: int = 7
    small_months: int = 72
    large_months: int = 59
    large_entries: int = 972
    epsilons: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    splits: int = 10  # the paper's
    ops_splits: int = 10
    effort: Effort = field(default_factory=Effort)
    command: str = "make reproduce"


QUICK = Size(
    regions=4, small_months=24, large_months=18, large_entries=300, epsilons=(0.3, 3.0), splits=2,
    ops_splits=2, effort=Effort(draws=50, chains=1, kept=10, sweeps=20, short=10),
    command="python reproductions/war_logs.py --quick",
)  # fmt: skip


def simulated(size: Size) -> tuple[list[data.Panel], list[tuple[data.Panel, int]]]:
    """Panels for cells that are not seen, and others with their number of states for maps."""
    small = {"regions": size.regions, "months": size.small_months, "entries": 58}
    large = {"regions": size.regions, "months": size.large_months, "entries": size.large_entries}
    panels = [
        data.simulated("small", "simulated, median 58", states=10, separation=0.5, seed=1, **small),
        data.simulated(
            "large", f"simulated, median {size.large_entries}", states=10, separation=0.5, seed=2,
            **large,
        ),
    ]  # fmt: skip
    mapped = [
        (data.simulated("small", panels[0].title, states=3, separation=0.4, seed=3, **small), 3),
        (data.simulated("large", panels[1].title, states=2, separation=0.1, seed=4, **large), 2),
    ]
    return panels, mapped


def map_all(
    folder: Path, size: Size, mapped: list[tuple[data.Panel, int]], real: data.Panel | None
) -> list[tuple[Maps, Profiles]]:
    """Maps and profiles at one epsilon, with their pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    if real is not None:
        mapped = [*mapped, (real, 2), (real, 3)]
    found = [map_states(panel, states, size.effort) for panel, states in mapped]
    maps = [both[0] for both in found]
    figures.state_maps(folder / "war-logs-maps-simulated.png", maps[:2])
    figures.profiles(folder / "war-logs-profiles-simulated.png", found[0][1])
    if real is not None:
        figures.state_maps(folder / "war-logs-maps-real.png", maps[2:])
        figures.profiles(folder / "war-logs-profiles-real.png", found[2][1])
    return found


def reproduce(folder: Path, size: Size, real: data.Panel | None = None) -> Results:
    """Runs everything, draws the pictures and writes the page."""
    panels, mapped = simulated(size)
    drawn = map_all(folder, size, mapped, real)
    if real is not None:
        panels.append(real)
    found = [
        held_out(
            panel, size.epsilons, size.splits, size.ops_splits, size.effort, say=_say
        )
        for panel in panels
    ]  # fmt: skip
    varied = vary(panels[-1], size.epsilons[0], size.ops_splits, size.effort)
    results = Results(
        size.command, size.splits, size.ops_splits, size.effort, panels, found, drawn, varied
    )
    figures.likelihoods(folder / "war-logs-likelihood.png", results.found)
    figures.occupied(folder / "war-logs-occupied.png", results.found)
    (folder / "war-logs.md").write_text(page(results))
    return results


def _say(words: str) -> None:
    sys.stderr.write(words + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run with few repeats")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of page and pictures")
    parser.add_argument("--data", type=Path, help="folder that holds iraq_sigacts")
    parser.add_argument(
        "--study", type=Path, metavar="FILE",
        help="a study file with an HMM analysis: its table in place of the declassified reports. "
        "For data that you may look at: pages and pictures are NOT private",
    )  # fmt: skip
    parser.add_argument(
        "--maps", action="store_true",
        help="maps and profiles alone: their pictures, and on standard output their text",
    )  # fmt: skip
    given = parser.parse_args()
    if given.study:
        real = data.from_study(given.study)
    else:
        folder = given.data or data.shared_data()
        real = data.declassified(folder)
        if real is None:
            _say(f"No {data.SIGACTS} in {folder}: simulated panels only.")
    size = QUICK if given.quick else Size()
    if given.maps:
        found = map_all(given.output, size, simulated(size)[1], real)
        sys.stdout.write(maps_and_profiles(found, size.effort) + "\n")
    else:
        reproduce(given.output, size, real)


if __name__ == "__main__":
    main()

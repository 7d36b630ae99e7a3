"""Tables of incidents by region and month: simulated, declassified, or anyone's own.

Regions, months and levels are public and written down beforehand. The paper drops empty months and
nearly empty regions after a look at the data, which no epsilon pays for: here none is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import tacit
from tacit import datasets
from tacit.spec.queries import Counts
from tacit.study.file import Study


@dataclass(frozen=True, eq=False)
class Panel:
    """Counts of rows by sequence, time and kind: a kind is one level of each feature."""

    name: str
    title: str
    sequence: str
    time: str
    levels: dict[str, tuple[Any, ...]]
    joint: np.ndarray  # (sequences, times, levels of the first feature, of the second, ...)
    truth: np.ndarray | None = None

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for name in self.levels if name not in (self.sequence, self.time))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.joint.shape[:2]

    @property
    def rows(self) -> np.ndarray:
        """How many rows each cell has."""
        return self.joint.reshape(*self.shape, -1).sum(axis=2)

    @cached_property
    def schema(self) -> tacit.Schema:
        columns = (tacit.Categorical(n, some, default=some[0]) for n, some in self.levels.items())
        return tacit.Schema(*columns, neighbours="replace_one")

    def model(self, states: int, held_out: np.ndarray | None = None, **options: Any) -> tacit.HMM:
        cells = [] if held_out is None else np.argwhere(held_out)
        names, times = self.levels[self.sequence], self.levels[self.time]
        pairs = tuple((names[r], times[t]) for r, t in cells)
        return tacit.HMM(states, self.sequence, self.time, self.features, held_out=pairs, **options)

    def counts(self) -> np.ndarray:
        """What the model asks for, in the order of a release: one table after the other."""
        axes = range(2, self.joint.ndim)
        tables = [self.joint.sum(axis=tuple(a for a in axes if a != keep)) for keep in axes]
        return np.concatenate([table.ravel() for table in tables])

    def without(self, held_out: np.ndarray) -> Panel:
        """The rows of the other cells."""
        some = np.where(held_out.reshape(*self.shape, *[1] * (self.joint.ndim - 2)), 0, self.joint)
        return Panel(self.name, self.title, self.sequence, self.time, self.levels, some)

    def in_one_cell(self) -> Panel:
        """All rows in one cell: for a single state, region and month do not matter."""
        levels = {self.sequence: ("all",), self.time: ("all",)}
        levels |= {name: self.levels[name] for name in self.features}
        joint = self.joint.sum(axis=(0, 1), keepdims=True)
        return Panel(self.name, self.title, self.sequence, self.time, levels, joint)


def count_table(
    name: str,
    title: str,
    source: Any,
    schema: tacit.Schema,
    model: tacit.HMM,
    truth: np.ndarray | None = None,
) -> Panel:
    """Counts every kind in every cell. A row that lacks a value is left out."""
    keys = (model.sequence, model.time, *model.emissions)
    *before, last = keys
    release = tacit.Public(source, schema).release(Counts((last,), by=before), tacit.Exact())
    levels = {key: tuple(schema[key].labels) for key in keys}
    known = tuple(slice(0, len(some)) for some in levels.values())
    joint = np.rint(release.table(last).value).astype(np.int64)[known]
    return Panel(name, title, model.sequence, model.time, levels, joint, truth)


def simulated(name: str, title: str, **settings: Any) -> Panel:
    """From `tacit.datasets.simulate_incidents`."""
    logs = datasets.simulate_incidents(**settings)
    table = pa.table({n: pa.array(v.astype(object)) for n, v in logs.table.items()})  # read faster
    model = tacit.HMM(1, "region", "month", logs.columns)
    return count_table(name, title, table, logs.schema(), model, logs.states)


GOVERNORATES = (
    "Anbar", "Babil", "Baghdad", "Basrah", "Dhi Qar", "Diyala", "Irbil", "Karbala", "Kirkuk",
    "Maysan", "Muthanna", "Najaf", "Ninawa", "Qadisiyah", "Salah ad Din", "Wasit",
)  # fmt: skip
TYPES = ("Direct fire", "Explosive hazard", "Indirect fire", "Other")
CATEGORIES = (
    "AAA", "Chemical", "Hand Grenade", "IED", "Indirect Fire", "Mine", "Mortar", "Other", "RPG",
    "Rock", "Rocket", "SAFIRE", "SAM", "SVBIED", "Small Arms", "Suicide vest", "VBIED",
)  # fmt: skip
SIGACTS = "iraq_sigacts/iraq_sigacts.csv.gz"


def shared_data() -> Path:
    """A `shared/data` folder in this repository's folder or one of those above."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "shared" / "data").is_dir():
            return folder / "shared" / "data"
    return Path("shared/data")


def declassified(folder: Path) -> Panel | None:
    """The incident reports of Iraq, if they are there; they stay where they are."""
    path = folder / SIGACTS
    if not path.is_file():
        return None
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype=str)
    # A rule about one row, so it costs nothing: those without a place are outside the panel.
    frame = frame[frame["region"].isin(GOVERNORATES)]
    schema = tacit.Schema(
        tacit.Categorical("region", GOVERNORATES, default="Baghdad"),
        tacit.Time("month", "2004-01", "2007-07", default="2004-01"),
        tacit.Categorical("type", TYPES, default="Other"),
        tacit.Categorical("category", CATEGORIES, default="Other"),
        tacit.Categorical("suicide", ("0", "1"), default="0"),
        neighbours="replace_one",
    )
    model = tacit.HMM(1, "region", "month", ("type", "category", "suicide"))
    title = "declassified Iraq reports"
    return count_table("iraq", title, frame, schema, model)


def from_study(path: Path) -> Panel:
    """The table of a study file whose first HMM analysis names the columns."""
    study = Study.load(path)
    models = [each.model for each in study.analyses if isinstance(each.model, tacit.HMM)]
    if not models:
        raise SystemExit(f"{path} has no analysis with the model HMM.")
    return count_table("own", path.stem, study.source, study.schema, models[0])

"""Two classes to tell apart: simulated normals, Abalone and Adult, with bounds known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import tacit


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows to learn from and rows to predict. `split` takes a repeat's number."""

    name: str
    title: str
    schema: tacit.Schema
    model: tacit.LogisticRegression
    split: Callable[[int], tuple[Any, pd.DataFrame]]
    rows: int  # to learn from

    @property
    def size(self) -> int:
        return self.model.design(self.schema).size


def gaussians(rows: int = 5000) -> Problem:
    """Two normals in the plane, two standard deviations apart: at best 84.1% are told apart."""

    def split(repeat: int) -> tuple[Any, pd.DataFrame]:
        rng = np.random.default_rng((2015, repeat))
        y = rng.integers(0, 2, 2 * rows)
        x = rng.standard_normal((2 * rows, 2)) + np.where(y, 1, -1)[:, None] * np.sqrt(0.5)
        table = pd.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "y": np.where(y, "b", "a")})
        return pa.Table.from_pandas(table[:rows], preserve_index=False), table[rows:]

    columns = [tacit.Real(name, -4, 4, default=0) for name in ("x0", "x1")]
    target = tacit.Categorical("y", ["a", "b"], default="a")
    schema = tacit.Schema(*columns, target, neighbours="replace_one")
    model = tacit.LogisticRegression("y", ["x0", "x1"])
    return Problem("gaussians", "two normals", schema, model, split, rows)


# Lengths in 200 mm and weights in 200 g: what fits into these bounds is known without the data.
ABALONE = {
    "length": 1, "diameter": 1, "height": 1, "whole_weight": 3, "shucked_weight": 2,
    "viscera_weight": 1, "shell_weight": 1,
}  # fmt: skip


def abalone(folder: Path) -> Problem | None:
    """Whether an abalone has ten rings or more; four fifths of the rows to learn from."""
    path = folder / "abalone" / "abalone.csv.gz"
    if not path.is_file():
        return None
    frame = _read(path)
    frame["old"] = np.where(frame["rings"] >= 10, "yes", "no")
    rows = round(0.8 * len(frame))

    def split(repeat: int) -> tuple[Any, pd.DataFrame]:
        order = np.random.default_rng((1995, repeat)).permutation(len(frame))
        mixed = frame.iloc[order]
        return pa.Table.from_pandas(mixed[:rows], preserve_index=False), mixed[rows:]

    columns = [tacit.Real(name, 0, high, default=0) for name, high in ABALONE.items()]
    columns.append(tacit.Categorical("sex", ["F", "I", "M"], default="I"))
    target = tacit.Categorical("old", ["no", "yes"], default="no")
    schema = tacit.Schema(*columns, target, neighbours="replace_one")
    model = tacit.LogisticRegression("old", [*ABALONE, "sex"])
    return Problem("abalone", "Abalone", schema, model, split, rows)


NUMBERS = {
    "age": (17, 90), "education_num": (1, 16), "capital_gain": (0, 99999),
    "capital_loss": (0, 5000), "hours_per_week": (1, 99),
}  # fmt: skip
LEVELS = (
    "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex",
    "native_country",
)  # fmt: skip


def adult(folder: Path) -> Problem | None:
    """Whether someone earns more than 50,000: the file's own rows to learn from and to predict."""
    paths = [folder / "adult" / f"adult_{part}.csv.gz" for part in ("train", "test")]
    if not all(path.is_file() for path in paths):
        return None
    train, test = (_read(path) for path in paths)
    for part in (train, test):
        part[list(LEVELS)] = part[list(LEVELS)].fillna("?")
    columns: list[Any] = [tacit.Real(n, *ends, default=ends[0]) for n, ends in NUMBERS.items()]
    for name in LEVELS:  # those of the questionnaire, which both files together list
        levels = sorted({*train[name], *test[name]})
        columns.append(tacit.Categorical(name, levels, default=levels[0]))
    target = tacit.Categorical("income", ["<=50K", ">50K"], default="<=50K")
    schema = tacit.Schema(*columns, target, neighbours="replace_one")
    model = tacit.LogisticRegression("income", [*NUMBERS, *LEVELS])
    table = pa.Table.from_pandas(train, preserve_index=False)
    return Problem("adult", "Adult", schema, model, lambda repeat: (table, test), len(train))


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values=[""])

"""What a population is guessed to be like: rows that are given, or columns drawn one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tacit.spec.columns import Categorical, Column, Integer, Real, Time
from tacit.spec.errors import ModelError
from tacit.spec.periods import period_begin
from tacit.spec.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

_POPULATION = 20_000  # rows that stand for a population; tables are drawn from them

Guess: TypeAlias = "Mapping[str, Any] | pd.DataFrame | None"


class Guessed:
    """What a population is like: rows that are given, or columns that are drawn one by one."""

    def __init__(self, model: Any, schema: Schema, guess: Guess) -> None:
        self._schema, self._guess = schema, guess
        names = [column.name for column in schema.columns]
        asked = [name for name in names if name in _names_in(model)]
        rows = None if guess is None or isinstance(guess, Mapping) else guess
        given = list(guess or {}) if rows is None else list(rows.columns)
        self._rows = rows
        unknown = [name for name in given if name not in names and rows is None]
        if unknown:
            raise ModelError(f"No column {unknown[0]!r} to guess; there are {', '.join(names)}.")
        missing = [name for name in asked if name not in given]
        if rows is not None and missing:
            raise ModelError(f"Expected a column {missing[0]!r} in the guessed rows.")
        self.complete = not missing
        self._waits = type(model).__name__ in ("GammaPoisson", "GammaExponential")
        listed = ", ".join(missing)
        texts = []
        if rows is not None:
            texts.append(f"tables are drawn from {len(rows)} guessed rows")
        elif given:
            texts.append(f"the guesses of {', '.join(given)}, in independent columns")
        if missing:
            texts.append(f"nothing about {listed}: drawn anew for each table, independent")
        self.assumptions = tuple(texts)

    def population(self, rng: np.random.Generator) -> dict[str, Any]:
        """The rows of a population, by column."""
        frame, known, rows = self._rows, {}, _POPULATION
        if frame is not None:
            known = {str(name): frame[name].to_numpy() for name in frame.columns}
            rows = len(frame)
        spoken = dict(self._guess or {}) if frame is None else {}
        return {
            column.name: known[column.name]
            if column.name in known
            else self._column(column, spoken.get(column.name), rows, rng)
            for column in self._schema.columns
        }

    def _column(self, column: Column, guess: Any, rows: int, rng: np.random.Generator) -> Any:
        match column:
            case Categorical() | Time():
                labels = column.labels
                shares = _shares(column.name, labels, guess, rng)
                # As evenly as whole rows allow, so that a guess of .1 is .1.
                ends = np.rint(np.cumsum(shares) * rows).astype(int)
                codes = np.searchsorted(ends, np.arange(rows), side="right")
                cells = _begins(column) if isinstance(column, Time) else list(labels)
                chosen = np.minimum(codes, len(labels) - 1)
                return np.array(cells, dtype=object)[rng.permutation(chosen)]
            case Integer() | Real():
                return self._numbers(column, guess, rows, rng)
        return np.full(rows, "", dtype=object)  # no model that is forecast reads documents

    def _numbers(
        self, column: Integer | Real, guess: Any, rows: int, rng: np.random.Generator
    ) -> np.ndarray:
        low, high = float(column.low), float(column.high)
        width, whole = high - low, isinstance(column, Integer)
        if guess is None:
            mean, sd = low + width * rng.uniform(0.25, 0.75), width * rng.uniform(0.05, 0.2)
            if self._waits:
                mean, sd = low + width * rng.uniform(0.1, 0.4), None
        else:
            mean, sd = _mean_and_sd(column.name, guess)
            if not low <= mean <= high:
                raise ModelError(f"Expected a mean of {column.name!r} within its bounds.")
        if sd is None:
            values = rng.poisson(mean, rows) if whole else rng.exponential(mean, rows)
            return values.astype(float)  # beyond the cap: missing, as the model has it
        values = np.clip(mean + sd * rng.standard_normal(rows), low, high)
        return np.rint(values) if whole else values


def _names_in(model: Any) -> set[str]:
    """All texts among the options of a model: the names of its columns are among them."""

    def texts(value: Any) -> set[str]:
        match value:
            case str():
                return {value}
            case Mapping():
                return set().union(*(texts(v) for v in (*value.keys(), *value.values())))
            case tuple() | list():
                return set().union(*(texts(v) for v in value))
        return set()

    return set().union(*(texts(getattr(model, field.name)) for field in fields(model)))


def _shares(name: str, labels: Sequence[Any], guess: Any, rng: np.random.Generator) -> np.ndarray:
    if guess is None:
        return rng.dirichlet(np.ones(len(labels)))
    if isinstance(guess, Mapping):
        texts = {str(label): label for label in labels}
        given = {texts.get(str(key), key): value for key, value in guess.items()}
        unknown = [key for key in given if key not in labels]
        if unknown:
            raise ModelError(f"No level {unknown[0]!r} of {name!r} to guess a share of.")
        shares = np.array([float(given.get(label, 0.0)) for label in labels])
    else:
        shares = np.array(guess, dtype=float)
    whole = shares.shape == (len(labels),) and np.all(shares >= 0)
    if not whole or abs(shares.sum() - 1) > 0.01:
        raise ModelError(
            f"Expected shares of the levels of {name!r} that sum to 1, such as "
            f"{dict.fromkeys(labels[:3], round(1 / len(labels), 2))}, got {guess!r}."
        )
    return shares / shares.sum()


def _mean_and_sd(name: str, guess: Any) -> tuple[float, float | None]:
    given = dict(guess) if isinstance(guess, Mapping) else {"mean": guess}
    mean, sd = given.pop("mean", None), given.pop("sd", None)
    numbers = all(isinstance(v, (int, float)) for v in (mean, 0 if sd is None else sd))
    if given or not numbers or (sd is not None and sd <= 0):
        raise ModelError(
            f"Expected a guess of {name!r} such as {{'mean': 50, 'sd': 15}}, got {guess!r}."
        )
    return float(mean), None if sd is None else float(sd)


def _begins(column: Time) -> list[Any]:
    """A moment in each period, whatever format the column's texts have."""
    return [period_begin(n, column.every) for n in range(column.first, column.last + 1)]

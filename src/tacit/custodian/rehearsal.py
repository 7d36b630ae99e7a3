"""A wall on this machine that looks like a server's: synthetic rows, a ledger that is thrown away.

It is for trying code before paying. Rows are drawn evenly from the public domains of the columns,
and from nothing else: they look like nobody's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.spec.budget import Left
from tacit.spec.certificate import Certificate
from tacit.spec.checks import whole_number
from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tacit.spec.mechanisms import Mechanism
from tacit.spec.periods import period_begin
from tacit.spec.plan import Plan
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema

if TYPE_CHECKING:
    from tacit.custodian.client import RemoteWall

_WORDS = 50  # in a synthetic document, at most


def rehearsal(remote: RemoteWall, units: int, *, seed: int = 0) -> RehearsalWall:
    """A rehearsal of a server's wall, on its schema and terms.

    Parameters
    ----------
    remote
        What `tacit.connect` returned.
    units
        How many synthetic units.
    seed
        Of their rows. Noise has none.
    """
    terms = {"budget": remote.budget, "allow": remote.allow, "composition": remote.composition}
    return RehearsalWall(remote.schema, units, seed, **terms)


class RehearsalWall:
    """A `Wall` of synthetic rows, all of whose certificates say "rehearsal"."""

    def __init__(self, schema: Schema, units: int, seed: int, **terms: Any) -> None:
        from tacit.wall import Wall

        rows = synthetic(schema, whole_number(units, "units", most=10**7), seed)
        self._wall = Wall(rows, schema, ledger=":memory:", **terms)

    @property
    def schema(self) -> Schema:
        return self._wall.schema

    @property
    def remaining(self) -> Left:
        return self._wall.remaining

    @property
    def n_units(self) -> int | None:
        return self._wall.n_units

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """What a release would cost and how noisy it would be."""
        return self._wall.quote(query, mechanism)

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """An answer about synthetic rows, with the noise that real ones would have."""
        return _stamped(self._wall.release(query, mechanism, name=name))

    def prepay(self, plan: Plan, *, name: str | None = None) -> RehearsalLease:
        """The steps of a plan, about synthetic rows."""
        return RehearsalLease(self._wall.prepay(plan, name=name))

    def __repr__(self) -> str:
        return f"RehearsalWall(columns: {self.schema.listed}; synthetic rows)"


class RehearsalLease:
    """Steps about synthetic rows."""

    def __init__(self, lease: Any) -> None:
        self._lease = lease
        self.plan, self.certificate = lease.plan, _rehearsed(lease.certificate)

    @property
    def steps_left(self) -> int:
        return int(self._lease.steps_left)

    def release(self, query: Query) -> Release:
        """The next step."""
        return _stamped(self._lease.release(query))


def _stamped(release: Release) -> Release:
    return replace(release, certificate=_rehearsed(release.certificate))


def _rehearsed(certificate: Certificate) -> Certificate:
    return replace(certificate, data="rehearsal", ledger=None)


def synthetic(schema: Schema, units: int, seed: int = 0) -> dict[str, Any]:
    """Rows of so many units, drawn from the public domains of a schema alone.

    Examples
    --------
    >>> from tacit.spec.columns import Categorical
    >>> schema = Schema(Categorical("ill", ["no", "yes"]), neighbours="replace_one")
    >>> len(synthetic(schema, 5)["ill"])
    5
    """
    rng = np.random.default_rng(seed)
    each = rng.integers(1, min(schema.max_rows_per_unit, 3) + 1, units)
    rows = int(each.sum())
    table = {column.name: _cells(column, rows, rng) for column in schema.columns}
    if schema.unit is not None:
        names = np.array([f"synthetic {i}" for i in range(units)], dtype=object)
        table[schema.unit] = np.repeat(names, each)
    return table


def _cells(column: Column, rows: int, rng: np.random.Generator) -> np.ndarray:
    match column:
        case Categorical(levels=levels):
            return np.array(levels, dtype=object)[rng.integers(len(levels), size=rows)]
        case Integer(low=low, high=high):
            return rng.integers(low, high + 1, rows)
        case Real(low=low, high=high):
            return rng.uniform(low, high, rows)
        case Time(first=first, last=last, every=every):
            begins = [period_begin(n, every) for n in range(first, last + 1)]
            return np.array(begins, dtype=object)[rng.integers(len(begins), size=rows)]
        case Tokens(vocabulary=words, max_length=most):
            lengths = rng.integers(1, min(most, _WORDS) + 1, rows)
            chosen = (rng.choice(np.array(words, dtype=object), length) for length in lengths)
            return np.array([" ".join(found) for found in chosen], dtype=object)

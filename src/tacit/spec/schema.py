"""The public description of a table: what may be known about it without looking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from tacit.spec.checks import set_fields, whole_number
from tacit.spec.columns import (
    COLUMNS,
    Column,
    column_from_dict,
    column_name,
    column_to_dict,
    domain_of,
)
from tacit.spec.errors import SchemaError
from tacit.spec.html import facts_html, table_html
from tacit.spec.wire import facts_of

Neighbours = Literal["replace_one", "add_remove"]


@dataclass(frozen=True)
class Schema:
    """What is public about the data, and who is protected.

    Parameters
    ----------
    *columns
        `Categorical`, `Integer`, `Real`, `Time` or `Tokens`, each with its public domain.
    unit
        The column that says whose row it is. Default: every row is its own unit.
    max_rows_per_unit
        How many rows of one unit are used; the others are left out.
    max_units
        An upper limit on the number of units that is known beforehand. It sharpens inference
        under "add_remove"; no unit is dropped because of it.
    neighbours
        "replace_one": the number of units is public, and what one unit says is protected.
        "add_remove": whether a unit is there at all is protected, and so is their number.
    """

    columns: tuple[Column, ...]
    unit: str | None
    max_rows_per_unit: int
    max_units: int | None
    neighbours: Neighbours

    def __init__(
        self,
        *columns: Column,
        unit: str | None = None,
        max_rows_per_unit: int | None = None,
        max_units: int | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        if not columns:
            raise SchemaError("Expected at least one column; tacit.Schema.stub(names) helps.")
        for column in columns:
            if not isinstance(column, tuple(COLUMNS.values())):
                raise SchemaError(f"Expected a column such as Categorical(...), got {column!r}.")
        names = [column.name for column in columns]
        if unit is not None:
            names.append(column_name(unit))
        for name in names:
            if name == unit and names.count(name) > 1:
                raise SchemaError(
                    f"Expected the unit's column {name!r} not to be among the columns too: it says "
                    "whose row it is, and cannot be asked about."
                )
            if names.count(name) > 1:
                raise SchemaError(f"Expected each column once; {name!r} is there twice.")
        if neighbours not in ("replace_one", "add_remove"):
            raise SchemaError(
                'Expected neighbours="replace_one" (the number of units is public) or '
                f'neighbours="add_remove" (it is not), got {neighbours!r}.'
            )
        if unit is None and max_rows_per_unit not in (None, 1):
            raise SchemaError('Expected unit="<column>" beside max_rows_per_unit.')
        if unit is not None and max_rows_per_unit is None:
            raise SchemaError(
                f"Expected max_rows_per_unit beside unit={unit!r}: how many rows of one "
                "unit may count, for example max_rows_per_unit=3."
            )
        k = whole_number(max_rows_per_unit, "max_rows_per_unit", 1, most=10**6, error=SchemaError)
        if max_units is not None:
            whole_number(max_units, "max_units", most=10**12, error=SchemaError)
        set_fields(self, columns=columns, unit=unit, max_rows_per_unit=k)
        set_fields(self, max_units=max_units, neighbours=neighbours)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"No column {name!r} in the schema; it has {self.listed}.")

    @property
    def listed(self) -> str:
        """The names of the columns, in words."""
        return ", ".join(column.name for column in self.columns)

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        if self.unit is None:
            return "one row"
        rows = self.max_rows_per_unit
        return f"all rows of one {self.unit} (at most {rows} row{'s' * (rows > 1)} of each used)"

    def to_html(self, title: str = "Schema", more: Mapping[str, Any] = MappingProxyType({})) -> str:
        """Return a table for notebooks, of what is public and of further facts."""
        rows = [
            (
                column.name,
                type(column).__name__,
                domain_of(column),
                "" if column.default is None else column.default,
            )
            for column in self.columns
        ]
        facts = {**more, "protects": self.protects, "neighbours": self.neighbours}
        return facts_html(title, facts, table_html(("column", "type", "domain", "default"), rows))

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_dict(self) -> dict[str, Any]:
        return {**facts_of(self), "columns": [column_to_dict(c) for c in self.columns]}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Schema:
        rest = dict(facts)
        columns = [column_from_dict(c) for c in rest.pop("columns")]
        if rest.get("unit") is None:
            rest.pop("max_rows_per_unit", None)
        return cls(*columns, **rest)

    @property
    def digest(self) -> str:
        """A fingerprint: the same for equal schemas."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @staticmethod
    def stub(names: Sequence[str]) -> str:
        """A template to fill in, made from column names alone.

        Examples
        --------
        >>> print(Schema.stub(["age", "smoker"]))
        tacit.Schema(
            # one line a column you will ask about; delete the others
            tacit.Categorical("age", ["...", "..."]),  # or Integer/Real("age", low, high)
            tacit.Categorical("smoker", ["...", "..."]),  # or Integer/Real("smoker", low, high)
            # unit="...", max_rows_per_unit=1,  # the column that says whose row it is
            neighbours="replace_one",  # or "add_remove", if the number of units is secret too
        )
        """
        lines = [
            f"    tacit.Categorical({json.dumps(str(n))}, "
            f'["...", "..."]),  # or Integer/Real({json.dumps(str(n))}, low, high)'
            for n in names
        ]
        return "\n".join(
            [
                "tacit.Schema(",
                "    # one line a column you will ask about; delete the others",
                *lines,
                '    # unit="...", max_rows_per_unit=1,  # the column that says whose row it is',
                '    neighbours="replace_one",  # or "add_remove", '
                "if the number of units is secret too",
                ")",
            ]
        )

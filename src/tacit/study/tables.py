"""Tables of TOML that describe data: those of a study file, and of a custodian's."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from tacit.spec.checks import meant
from tacit.spec.columns import column_from_dict
from tacit.spec.csv_file import CSV
from tacit.spec.errors import StudyError
from tacit.spec.schema import Schema
from tacit.spec.table import Table

EXAMPLES = {  # what to write where a part is missing
    "analysis": (
        ' Write [[analysis]], then on lines of their own name = "...", model = "...", the options '
        "of the model and how = { epsilon = 0.5 }."
    ),
}
HOW_TO_READ = ("encoding", "separator", "decimal", "table", "version")


def source_of(where: Path, facts: Mapping[str, Any]) -> Path | CSV | Table:
    """An engine's table, or a file and how its encoding, separator and decimal sign are read."""
    how = {key: facts[key] for key in HOW_TO_READ if key in facts}
    if {"table", "version"} & set(how):
        name, version = how.pop("table", ""), how.pop("version", None)
        if how:
            raise StudyError(f"Expected no {', '.join(how)} beside table, only beside a CSV.")
        return Table(str(facts["source"]), name, version).beside(where)
    path = where / Path(str(facts["source"])).expanduser()
    return CSV(path, **how) if how else path


def schema_of(facts: Mapping[str, Any]) -> Schema:
    optional = {"unit", "max_rows_per_unit", "max_units", "neighbours"}
    check_table(facts, "[schema]", {"columns"}, optional)
    columns = []
    for column in facts["columns"]:
        plain = {k: float(v) if isinstance(v, Decimal) else v for k, v in column.items()}
        if "name" not in plain:
            slips = [key for key in plain if meant(key, ["name"]) != "."]
            hint = f"; is {slips[0]!r} meant to be it?" if slips else "."
            raise StudyError(f"Expected a name for each column of [schema], got {plain}{hint}")
        columns.append(column_from_dict(plain))
    return Schema(*columns, **{key: facts[key] for key in optional if key in facts})


def check_table(
    facts: Any, where: str, required: set[str], optional: frozenset[str] | set[str] = frozenset()
) -> None:
    if not isinstance(facts, Mapping):
        raise StudyError(f"Expected {where} to be a table.")
    for key in sorted(set(facts) - required - optional):  # a slip first: it leaves a gap elsewhere
        known = dict.fromkeys(sorted(required | optional))
        raise StudyError(
            f"Unknown {key!r} in {where}; it may have {', '.join(known)}{meant(key, known)}"
        )
    for key in sorted(required - set(facts)):
        raise StudyError(f"Expected {key!r} in {where}.{EXAMPLES.get(key, '')}")

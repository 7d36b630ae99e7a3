"""A study file to fill in, from the header of a table or from its data dictionary."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from tacit.sources import files
from tacit.spec.columns import column_from_dict
from tacit.spec.csv_file import CSV
from tacit.spec.errors import SchemaError, SourceError, StudyError

_HEAD = """\
# What may be asked of {source}, at what price, and about whom. Everything in this file is public.
# Written by `tacit init` from {origin}; no cell of the table was read.
#
# Levels and bounds come from the codebook or from common knowledge, never from the data: a level
# copied from a rare cell publishes that record.

[data]
source = {source_text}
ledger = {ledger_text}        # remembers what was spent; back it up, never delete it

[schema]
# Who is protected? By default one row. If a person may have several rows, name the column that
# says whose row it is, and how many of them may count:
# unit = "..."
# max_rows_per_unit = 1
#
# What may be known: "replace_one" if the number of units is public, "add_remove" if it is not.
{todo}neighbours = "replace_one"
#
# Keep the columns that will be asked about, and delete the others. Each has one of these forms:
#   {{ name = "smoker", type = "categorical", levels = ["no", "yes"] }}
#   {{ name = "age", type = "integer", low = 18, high = 100 }}
#   {{ name = "bmi", type = "real", low = 10.0, high = 60.0 }}
#   {{ name = "seen", type = "time", start = "2024-01", end = "2024-12", every = "month" }}
# A value that is missing or outside is left out; with default = ... it counts as that.
columns = [
{columns}
]

[budget]                       # all that may ever be spent on these people
{todo}epsilon = 1.0
{todo}delta = 1e-6             # below one in the number of units; 0 for Laplace noise alone

# [plan]                       # for `tacit plan`: public guesses, which open no data
# n_units = 4000
# guess = {{ smoker = {{ no = 0.8, yes = 0.2 }}, age = {{ mean = 50, sd = 15 }} }}

# A question each. The first is an example:
{analysis}
"""

_ANALYSIS = """\
{todo}[[analysis]]
{todo}name = {name}
{todo}model = {model}
{todo}column = {column}
{extra}{todo}how = {{ mechanism = "Laplace", epsilon = 0.5 }}
"""

_TYPES = {
    "categorical": "categorical", "category": "categorical", "factor": "categorical",
    "text": "categorical", "string": "categorical", "code": "categorical",
    "boolean": "boolean", "bool": "boolean", "binary": "categorical",
    "integer": "integer", "int": "integer", "count": "integer",
    "real": "real", "float": "real", "number": "real", "numeric": "real", "double": "real",
    "date": "time", "time": "time", "datetime": "time",
}  # fmt: skip
_RANGE = re.compile(r"\s*(-?[\d.]+)\s*(?:\.\.|to|;|\||,|–|-)\s*(-?[\d.]+)\s*")


def study_template(source: Path, folder: Path, dictionary: Path | None) -> tuple[str, str]:
    """Return the text of a study file, and what is left to fill in, in a few words.

    Parameters
    ----------
    source
        A CSV or Parquet file, of which the header is read and no cell.
    folder
        Where the study file will be: its paths are relative to it.
    dictionary
        A CSV with a row for each column: `name`, `type` (categorical, integer, real, time), and
        `levels` (with | between them), or `low` and `high` (or `bounds`, as 0..100), or `start`,
        `end` and `every`; `default` if there is one. Names in capitals or with blanks are fine.
    """
    names, types = _header(source)
    columns = {name: _to_fill_in(name, types.get(name, "")) for name in names}
    known: dict[str, str] = {}
    origin = "its header"
    if dictionary is not None:
        described = _described(dictionary)
        known = {name: _line(facts) for name, facts in described.items() if name in names}
        columns |= known
        absent = [name for name in described if name not in names]
        columns |= {
            name: f"  # {_shown(name)} is in {dictionary.name}, and not in the table"
            for name in absent
        }
        origin = f"its header and {dictionary.name}"
    relative = Path(os.path.relpath(source, folder or Path())).as_posix()
    stem = source.name.split(".")[0] or "study"
    text = _HEAD.format(
        source=_shown(source.name),
        origin=origin,
        source_text=json.dumps(relative, ensure_ascii=False) + _how_to_read(source),
        ledger_text=json.dumps(f"{stem}.ledger", ensure_ascii=False),
        columns="\n".join(columns.values()),
        analysis=_example(names, known),
        todo="# ",
    )
    left = ["neighbours", "budget", "analysis"]
    if len(known) < len(names):
        left.insert(0, "columns")
    return text, ", ".join(left)


def _header(source: Path) -> tuple[list[str], dict[str, str]]:
    """The column names, and the types that a Parquet file declares."""
    ending = source.name.lower()
    if ending.endswith(files.PARQUET):
        fields = files.parquet_schema(source)
        return list(fields.names), {field.name: _type(field.type) for field in fields}
    if not ending.endswith(files.CSV_NAMES):
        raise SourceError(
            f"Expected a .csv, .tsv (or .gz of these) or .parquet path, got {source}."
        )
    names = files.csv_header(_as_csv(source))
    if not names:
        raise SourceError(f"{source} is empty; expected column names in its first line.")
    return names, {}


def _as_csv(source: Path) -> CSV:
    """The file with the separator that its header has: a comma, unless others make more names.

    If the header is not UTF-8, with the encoding that Western European systems write.
    """
    found: dict[CSV, int] = {}
    for separator in (None, ";", "\t", "|"):
        with suppress(SourceError):  # a header whose quotation marks are about another one
            file = CSV(source, separator=separator)
            found[file] = len(files.csv_header(file))
    best = max(found, key=lambda file: found[file], default=CSV(source))
    raw = [ord(letter) - 0xDC00 for name in files.csv_header(best) for letter in name]
    strange = [byte for byte in raw if 0x80 <= byte <= 0xFF]  # surrogates of bytes not in UTF-8
    if not strange:
        return best
    return replace(best, encoding="cp1252" if min(strange) < 0xA0 else "latin-1")


def _how_to_read(source: Path) -> str:
    """What the study file says of a CSV that is not UTF-8 with commas, as far as a header tells."""
    if not source.name.lower().endswith(files.CSV_NAMES):
        return ""
    file, lines = _as_csv(source), []
    if file.encoding != CSV(source).encoding:
        lines.append(
            f"encoding = {json.dumps(file.encoding)}  # a guess: are the names below right?"
        )
    if file.separator != CSV(source).separator:
        lines.append(f"separator = {json.dumps(file.separator)}")
    if file.separator == ";":
        lines.append('# decimal = ","  # if numbers are written as 3,5')
    return "".join(f"\n{line}" for line in lines)


def _type(declared: pa.DataType) -> str:
    if pa.types.is_boolean(declared):
        return "boolean"
    if pa.types.is_integer(declared):
        return "integer"
    if pa.types.is_floating(declared) or pa.types.is_decimal(declared):
        return "real"
    return "time" if pa.types.is_temporal(declared) else ""


def _to_fill_in(name: str, declared: str) -> str:
    """A line to fill in: a comment, so that nobody asks with a placeholder in it."""
    text = json.dumps(name, ensure_ascii=False)
    forms = {
        "boolean": 'type = "categorical", levels = [false, true]',
        "integer": 'type = "integer", low = ?, high = ?',
        "real": 'type = "real", low = ?, high = ?',
        "time": 'type = "time", start = "?", end = "?", every = "month"',
        "": 'type = "?", levels = ["?", "?"] or low = ?, high = ?',
    }
    return f"  # {{ name = {text}, {forms[declared]} }},"


def _line(facts: Mapping[str, object]) -> str:
    return "  { " + ", ".join(f"{key} = {_toml(value)}" for key, value in facts.items()) + " },"


def _toml(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _shown(text: str) -> str:
    """A name in a comment, on one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _described(path: Path) -> dict[str, dict[str, object]]:
    """The columns that a data dictionary describes, checked as a schema would."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"Cannot read the dictionary {path}: {error}.") from None
    found: dict[str, dict[str, object]] = {}
    for number, row in enumerate(rows, start=2):
        given = {
            str(key).strip().lower(): str(value).strip()
            for key, value in row.items()
            if isinstance(value, str) and value.strip()
        }
        if not given:
            continue
        name = given.get("name") or given.get("column") or given.get("variable")
        if name is None or "type" not in given:
            raise StudyError(
                f"Expected columns name and type in the dictionary {path}, line {number}; it has "
                f"{', '.join(given) or 'nothing'}."
            )
        facts = _facts(name, given, path, number)
        try:
            column_from_dict(facts)
        except SchemaError as error:
            raise StudyError(f"Dictionary {path}, line {number}: {error}") from None
        found[name] = facts
    if not found:
        raise StudyError(f"Expected a row for each column in the dictionary {path}; it has none.")
    return found


def _facts(name: str, given: Mapping[str, str], path: Path, number: int) -> dict[str, object]:
    column_type = _TYPES.get(given["type"].lower())
    if column_type is None:
        raise StudyError(
            f"Unknown type {given['type']!r} in {path}, line {number}; there are "
            "categorical, boolean, integer, real and time."
        )
    facts: dict[str, object] = {"name": name, "type": column_type}
    match column_type:
        case "boolean":
            facts |= {"type": "categorical", "levels": [False, True]}
        case "categorical":
            texts = [part.strip() for part in re.split(r"[|;]", given.get("levels", ""))]
            facts["levels"] = _levels([text for text in texts if text])
        case "integer" | "real":
            ends = _RANGE.fullmatch(given.get("bounds", ""))
            low, high = ends.groups() if ends else (given.get("low"), given.get("high"))
            for what, text in (("low", low), ("high", high)):
                facts[what] = None if text is None else _number(text, column_type, path, number)
        case "time":
            facts |= {key: given[key] for key in ("start", "end", "every") if key in given}
    if "default" in given:
        text = given["default"]
        numbers = column_type in ("integer", "real")
        levels = facts.get("levels")
        of_levels = {str(level): level for level in levels} if isinstance(levels, list) else {}
        facts["default"] = (
            _number(text, column_type, path, number) if numbers else of_levels.get(text, text)
        )
    return {key: value for key, value in facts.items() if value is not None}


def _levels(texts: list[str]) -> list[object]:
    """Levels as whole numbers, if all of them are."""
    whole = all(re.fullmatch(r"-?(0|[1-9]\d{0,14})", text) for text in texts)
    return [int(text) for text in texts] if whole and texts else list(texts)


def _number(text: str, column_type: str, path: Path, number: int) -> float:
    try:
        return int(text) if column_type == "integer" else float(text)
    except ValueError:
        raise StudyError(
            f"Expected a number in {path}, line {number}, got {text[:40]!r}."
        ) from None


def _example(names: Sequence[str], known: Mapping[str, str]) -> str:
    name = next(iter(known), names[0])
    text = json.dumps(name, ensure_ascii=False)
    numbers = 'type = "real"' in known.get(name, "") or 'type = "integer"' in known.get(name, "")
    model = "NormalModel" if numbers else "DirichletCategorical"
    return _ANALYSIS.format(
        todo="# ", name='"first"', model=json.dumps(model), column=text, extra=""
    ).rstrip()

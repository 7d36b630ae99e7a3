"""What a custodian sees before anything is released: which cells a schema cannot read, and why.

This reads raw cells and quotes them. It is for the person who may see them, on that person's
terminal: it writes no file and no log, charges nothing, and only `tacit check` calls it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from tacit.sources.cells import TEXT, number_of, text
from tacit.sources.columns import MISSING, decoded, letters
from tacit.sources.opening import open_source
from tacit.sources.source import Snapshot
from tacit.sources.units import owner
from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.spec.texts import check_words, word_counts

NOTICE = (
    "For the custodian's eyes only. Nothing below may be published, sent or quoted: it is neither "
    "noisy nor paid for. Levels, codes and bounds come from the codebook: to copy a rare spelling "
    "from here into the schema would publish a record."
)
_SHOWN = 6  # spellings to quote for a column
_LONGEST = 40  # letters to quote of one
_MOST_DISTINCT = 100_000  # spellings to remember of a column
_NOTHING = {b"", b"na", b"n/a", b"nan", b"null", b"none", b".", b"-", b"?"}  # in lower case
_FORMATS = (
    *("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y%m%d", "%Y.%m.%d"),
    *("%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
)
_YES_OR_NO = {b"0", b"1", b"0.0", b"1.0", b"true", b"false", b"yes", b"no", b"y", b"n", b"t", b"f"}
_NUMBER_FIRST = re.compile(rb"[+-]?\d+(?:[.,]\d+)?\s*[^\d\s.,].*")


@dataclass(frozen=True)
class ColumnCheck:
    """How many cells of a column the schema reads, and what is likely wrong with the others."""

    column: Column
    cells: int
    matched: int
    empty: int
    unmatched: tuple[tuple[bytes, int], ...]
    hints: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of cells that match, of those that are not empty; 1 where all are empty."""
        written = self.cells - self.empty
        return self.matched / written if written else 1.0


@dataclass(frozen=True)
class UnitCheck:
    """How many rows units have, beside the bound."""

    units: int
    rows: int
    kept: int
    nobodys: int
    most: int

    @property
    def share(self) -> float:
        """The share of all rows that are used."""
        return self.kept / self.rows if self.rows else 1.0


@dataclass(frozen=True)
class Check:
    """The columns of a table as a schema sees them, and its units."""

    schema: Schema
    columns: tuple[ColumnCheck, ...]
    units: UnitCheck | None

    def passes(self, least: float) -> bool:
        """Whether that share of cells matches in every column, and of rows counts."""
        shares = [each.share for each in self.columns]
        return min([*shares, 1.0 if self.units is None else self.units.share]) >= least

    def lines(self, least: float) -> Iterator[str]:
        """The report, line by line, with nothing in it that a terminal would obey."""
        yield NOTICE
        for each in self.columns:
            mark = "ok " if each.share >= least else "LOW"
            yield ""
            yield (
                f"{mark} {each.column.name!r} ({type(each.column).__name__}): {each.matched:,} of "
                f"{each.cells - each.empty:,} cells match ({each.share:.1%}); {each.empty:,} empty"
            )
            if each.unmatched:
                quoted = ", ".join(f"{_quoted(cell)} x {n:,}" for cell, n in each.unmatched)
                yield f"    unmatched, most frequent first: {quoted}"
            yield from (f"    {hint}" for hint in each.hints)
        if self.units is not None:
            yield ""
            yield from self._lines_of_units(self.units, least)

    def _lines_of_units(self, units: UnitCheck, least: float) -> Iterator[str]:
        bound = self.schema.max_rows_per_unit
        mark = "ok " if units.share >= least else "LOW"
        yield (
            f"{mark} {self.schema.unit!r} (unit): {units.units:,} units, at most {units.most:,} "
            f"rows of one; {units.kept:,} of {units.rows:,} rows are used ({units.share:.1%}) "
            f"with max_rows_per_unit={bound}"
        )
        if units.nobodys:
            yield f"    {units.nobodys:,} rows name no unit and are left out"


def check(data: Any, schema: Schema) -> Check:
    """Read all cells that a schema declares, and count those that it can read.

    Parameters
    ----------
    data
        A path, `tacit.CSV` or a table in this process; never a wall, which answers queries alone.
    schema
        What is public about it.
    """
    if hasattr(data, "prepay") or (isinstance(data, str) and "://" in data):
        raise SourceError(
            "Expected the records themselves, on this machine: whoever checks them may see them. "
            "A wall answers queries, and shows no cell."
        )
    if issparse(data):
        raise SourceError("Expected a table: a matrix of counts has no spellings to check.")
    for column in schema.columns:
        if isinstance(column, Tokens):
            check_words(column.vocabulary)
    source = open_source(data, schema)
    with source.snapshot() as snapshot:
        columns = tuple(_column(snapshot, column) for column in schema.columns)
        return Check(schema, columns, None if schema.unit is None else _units(snapshot, schema))


def _column(snapshot: Snapshot, column: Column) -> ColumnCheck:
    bare = replace(column, default=None)
    cells = matched = empty = 0
    unmatched: Counter[bytes] = Counter()
    seen: set[int] = set()
    for (raw,) in snapshot.batches([column.name]):
        texts = text(raw).fill_null(b"").to_pylist()
        found, codes = _read(bare, raw)
        cells, matched = cells + len(texts), matched + int(found.sum())
        seen.update(np.unique(codes[found]).tolist())
        for i in np.flatnonzero(~found):
            if texts[i].lower() in _NOTHING:
                empty += 1
            elif texts[i] in unmatched or len(unmatched) < _MOST_DISTINCT:
                unmatched[texts[i]] += 1
    hints = [*_hints(bare, unmatched)]
    if isinstance(column, Categorical):
        never = [level for i, level in enumerate(column.levels) if i not in seen]
        if never and cells:
            hints.append(f"levels that no cell has: {_few(map(repr, never))}")
    if column.default is not None and matched < cells:
        hints.append(
            f"the {cells - matched:,} cells that do not match, empty ones too, will count as "
            f"{column.default!r} (default=)"
        )
    return ColumnCheck(
        column, cells, matched, empty, tuple(unmatched.most_common(_SHOWN)), tuple(hints)
    )


def _read(column: Column, cells: Any) -> tuple[np.ndarray, np.ndarray]:
    """Which cells have a value, and codes where there are levels. A text has one by a word."""
    if isinstance(column, Tokens):
        documents, _, _ = word_counts(letters(column, cells), column.vocabulary)
        found = np.zeros(len(cells), bool)
        found[documents] = True
        return found, np.zeros(len(cells), int)
    codes = decoded(column, cells)
    return (~np.isnan(codes) if isinstance(column, Real) else codes != MISSING), codes


def _hints(column: Column, unmatched: Counter[bytes]) -> Iterator[str]:
    """What would make unmatched cells match, tried on them."""
    if not unmatched:
        return
    yield from _encodings(column, unmatched)
    match column:
        case Real() | Integer():
            yield from _numbers(column, unmatched)
        case Time():
            tries = {each: replace(column, format=each) for each in _formats(column)}
            found = {each: _rescued(other, unmatched) for each, other in tries.items()}
            best = max(found, key=lambda each: found[each], default=None)
            if best is not None and found[best]:
                yield f"{found[best]:,} of them are dates in format={best!r}: write that"
        case Categorical():
            yield from _spellings(column, unmatched)


def _encodings(column: Column, unmatched: Counter[bytes]) -> Iterator[str]:
    broken = Counter({cell: n for cell, n in unmatched.items() if not _is_utf8(cell)})
    if broken:
        best = max(("cp1252", "latin-1"), key=lambda name: _rescued(column, broken, _from(name)))
        right = _rescued(column, broken, _from(best))
        yield (
            f"{broken.total():,} of them are not UTF-8; as {best}, {right:,} match: write "
            f"tacit.CSV(path, encoding={best!r}), in a study file encoding under [data]"
        )
    twice = _rescued(column, unmatched, _twice_encoded)
    if twice:
        yield f"{twice:,} of them match in UTF-8: the encoding of the source is not the file's"


def _numbers(column: Real | Integer, unmatched: Counter[bytes]) -> Iterator[str]:
    commas = _rescued(column, unmatched, lambda cell: cell.replace(b".", b"").replace(b",", b"."))
    if commas:
        yield (
            f'{commas:,} of them have decimal commas: write tacit.CSV(path, decimal=","), in a '
            "study file decimal under [data]"
        )
    values = np.array([number_of(cell) for cell in unmatched])
    counts = np.array(list(unmatched.values()))
    for outside, what in (
        (values < column.low, f"numbers below low={column.low}"),
        (values > column.high, f"numbers above high={column.high}"),
    ):
        if outside.any():
            yield f"{counts[outside].sum():,} of them are {what}"
    inside = (values >= column.low) & (values <= column.high)
    if inside.any():
        name, low, high = column.name, column.low, column.high
        yield f"{counts[inside].sum():,} of them have decimals: Real({name!r}, {low}, {high})?"
    worded = sum(n for cell, n in unmatched.items() if _NUMBER_FIRST.fullmatch(cell))
    if worded:
        yield f"{worded:,} of them go on after a number: a unit is no part of a number"


def _spellings(column: Categorical, unmatched: Counter[bytes]) -> Iterator[str]:
    truths = sum(n for cell, n in unmatched.items() if cell.lower() in _YES_OR_NO)
    if truths and len(column.levels) == 2:
        pair = ", ".join(map(repr, column.levels))
        yield (
            f"{truths:,} of them are 0 and 1, or yes and no: if the codebook says which is which "
            f"of {pair}, write codes={{...}}, or levels=[False, True]"
        )
    folded = {str(level).casefold(): level for level in column.levels}
    alike = sum(n for cell, n in unmatched.items() if _decoded(cell).casefold() in folded)
    if alike:
        yield f"{alike:,} of them differ from a level in capitals alone"


def _formats(column: Time) -> Iterator[str]:
    for each in _FORMATS:
        if column.every != "hour" or "%H" in each:
            yield each


def _rescued(
    column: Column, unmatched: Counter[bytes], change: Callable[[bytes], bytes] = bytes
) -> int:
    """How many unmatched cells would match if they were written otherwise."""
    changed = pa.array([change(cell) for cell in unmatched], TEXT)
    found, _ = _read(column, changed)
    return int(np.array(list(unmatched.values()))[found].sum())


def _is_utf8(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _from(encoding: str) -> Callable[[bytes], bytes]:
    return lambda cell: cell.decode(encoding, "replace").encode()


def _twice_encoded(cell: bytes) -> bytes:
    """A cell of UTF-8 that was read as Latin-1, as it was meant; others become nothing."""
    try:
        return cell.decode().encode("cp1252").decode().encode() if not cell.isascii() else b""
    except UnicodeError:
        return b""


def _units(snapshot: Snapshot, schema: Schema) -> UnitCheck:
    rows: Counter[bytes | None] = Counter()
    for (who,) in snapshot.batches([str(schema.unit)]):
        rows.update(owner(who).to_pylist())
    nobodys = rows.pop(None, 0)
    kept = sum(min(n, schema.max_rows_per_unit) for n in rows.values())
    total, most = nobodys + rows.total(), max(rows.values(), default=0)
    return UnitCheck(len(rows), total, kept, nobodys, most)


def _decoded(cell: bytes) -> str:
    return cell.decode("utf-8", "backslashreplace")


def _quoted(cell: bytes) -> str:
    """A cell as Python writes it: what a terminal would obey, or hide, is spelt out."""
    found = _decoded(cell) if _is_utf8(cell) else cell
    return repr(found[:_LONGEST]) + "..." * (len(found) > _LONGEST)


def _few(names: Iterable[str]) -> str:
    shown = list(names)
    more = [f"{len(shown) - _SHOWN} more"] * (len(shown) > _SHOWN)
    return ", ".join([*shown[:_SHOWN], *more])

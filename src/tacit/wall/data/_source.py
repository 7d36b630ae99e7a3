"""Where the raw rows are. Paths, headers and types are checked at once; cells are read later.

Whatever the source, reading it ends in one Ibis table with internal column names c0, c1, ..., so
that a header cannot clash with SQL. Files and in-memory tables are read by a DuckDB that lives for
one read; an Ibis table stays in the engine it is in.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.wall.data import _cells, _files
from tacit.wall.data._columns import check_type


@dataclass(frozen=True)
class Source:
    """A table that has been checked but not read: its wanted columns, the unit last."""

    wanted: tuple[str, ...]
    read: Callable[[], AbstractContextManager[ir.Table]] = field(repr=False)

    def name_of(self, column: str) -> str:
        return f"c{self.wanted.index(column)}"


def open_source(data: Any, schema: Schema) -> Source:
    """Check path, header and column types. No cell is looked at."""
    wanted = [column.name for column in schema.columns]
    if schema.unit is not None:
        wanted.append(schema.unit)
    if isinstance(data, (str, os.PathLike)):
        read = _path(Path(data), wanted, schema.unit)
    elif isinstance(data, ir.Table):
        read = _ibis(data, wanted, schema.unit)
    else:
        read = _memory(data, wanted, schema.unit)
    return Source(tuple(wanted), read)


Reader = Callable[[], AbstractContextManager[ir.Table]]


def _positions(kind: str, names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    for name in wanted:
        if names.count(name) > 1:
            raise SourceError(f"{kind} has more than one column {name!r}.")
        if name not in names:
            # No more than that: a file without a header would have its first record quoted.
            alike = [other for other in names if _letters(other) == _letters(name)]
            hint = f"; did you mean {alike[0]!r}?" if alike else "."
            raise SourceError(f"{kind} has no column {name!r}{hint}")
    return [names.index(name) for name in wanted]


def _letters(name: object) -> str:
    return "".join(letter for letter in str(name).casefold() if letter.isalnum())


def _check_arrow(name: str, dtype: pa.DataType, unit: str | None) -> None:
    """The same refusals by Arrow's types, of which more can be read."""
    kinds = (pa.types.is_nested, pa.types.is_duration, pa.types.is_time, pa.types.is_interval)
    if any(refused(_cells.plain_type(dtype)) for refused in kinds):
        raise SourceError(f"Column {name!r} has type {dtype}; expected text, numbers or dates.")
    safe = pa.schema([(name, _cells.safe_type(dtype))])
    check_type(name, ibis.Schema.from_pyarrow(safe)[name], owner=name == unit)


def _path(path: Path, wanted: list[str], unit: str | None) -> Reader:
    ending = path.name.lower()
    if not ending.endswith(_files.CSV + _files.PARQUET):
        raise SourceError(f"Expected a .csv, .tsv (or .gz of these) or .parquet path, got {path}.")
    if any(mark in str(path) for mark in "*?["):
        raise SourceError(f"Expected a path without *, ? or [, got {path}.")
    inside = [f"c{i}" for i in range(len(wanted))]
    if ending.endswith(_files.PARQUET):
        fields = _files.parquet_schema(path)
        _positions(str(path), list(fields.names), wanted)
        for name in wanted:
            _check_arrow(name, fields.field(name).type, unit)
        return lambda: scanned(_files.parquet_batches(path, wanted, inside))
    names = _files.csv_header(path)
    if not names:  # a file without a byte is a table without a row
        return lambda: scanned(pa.table({name: pa.array([], pa.string()) for name in inside}))
    where = _positions(str(path), names, wanted)

    @contextmanager
    def read() -> Iterator[ir.Table]:
        if not _files.csv_is_plain(path):
            with scanned(_files.csv_batches(path, where, inside)) as table:
                yield table
            return
        with _engine() as engine:
            table = engine.read_csv(
                str(path),
                table_name="source",
                # Everything is text and nothing is guessed from the rows.
                columns={f"f{i}": "VARCHAR" for i in range(len(names))},
                auto_detect=False,
                header=True,
                delim=_files.delimiter_of(path),
                hive_partitioning=False,
                null_padding=True,
                strict_mode=False,
                ignore_errors=True,
                parallel=False,
            )
            yield table.select(**{c: table[f"f{i}"] for c, i in zip(inside, where, strict=True)})

    return read


def _ibis(table: ir.Table, wanted: list[str], unit: str | None) -> Reader:
    _positions("The table", list(table.columns), wanted)
    for name in wanted:
        check_type(name, table[name].type(), owner=name == unit)

    @contextmanager
    def read() -> Iterator[ir.Table]:
        yield table.select(**{f"c{i}": table[name] for i, name in enumerate(wanted)})

    return read


def _memory(data: Any, wanted: list[str], unit: str | None) -> Reader:
    package = type(data).__module__.split(".")[0]
    if package == "polars" and hasattr(data, "collect"):
        raise SourceError("Expected a polars DataFrame; call .collect() on the LazyFrame.")
    if isinstance(data, pa.Table):
        names, pick = list(data.column_names), data.column
    elif package == "polars" and hasattr(data, "get_column"):
        names, pick = list(data.columns), data.get_column
    elif package == "pandas" and hasattr(data, "iloc"):
        names = [str(name) for name in data.columns]
        pick = lambda name: data.iloc[:, names.index(name)]  # noqa: E731
    elif isinstance(data, Mapping):
        names, pick = list(data), data.__getitem__
    else:
        raise SourceError(
            "Expected a CSV or Parquet path, a pandas, polars or pyarrow table, a dict of arrays "
            f"or an Ibis table, got {type(data).__name__}."
        )
    _positions("The table", names, wanted)
    columns = [pick(name) for name in wanted]
    for name, values in zip(wanted, columns, strict=True):
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise SourceError(f"Expected a list or array for column {name!r}.")
        if getattr(values, "ndim", 1) != 1:
            raise SourceError(f"Expected column {name!r} to have one dimension.")
        declared = _cells.declared_type(values)
        if declared is not None:
            _check_arrow(name, declared, unit)
    if len({len(values) for values in columns}) > 1:
        raise SourceError("Expected all columns to have the same length.")

    def read() -> AbstractContextManager[ir.Table]:
        return scanned(
            pa.table({f"c{i}": _cells.column(values) for i, values in enumerate(columns)})
        )

    return read


Result = TypeVar("Result")


def shielded(read: Callable[[], Result], *, paid: bool = True) -> Result:
    """Run what touches the data. What an engine says of a failure may quote a cell: it stays."""
    try:
        # Nor does it warn of a number that is too large, or not one.
        with np.errstate(all="ignore"):
            return read()
    except Exception:  # noqa: BLE001
        pass
    spent = "The budget for this release is spent" if paid else "Nothing was charged"
    raise SourceError(
        f"The source could not be read. {spent}; check that the file or database is still there."
    )


@contextmanager
def scanned(rows: pa.Table | pa.RecordBatchReader) -> Iterator[ir.Table]:
    with _engine() as engine:
        engine.con.register("source", rows)
        yield engine.table("source")


@contextmanager
def _engine() -> Iterator[Any]:
    """A DuckDB for one read, spilling into a folder that only this user can open."""
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        engine = ibis.duckdb.connect(temp_directory=folder, autoinstall_known_extensions=False)
        try:
            # What the engine warns of (its own deprecations) is not to become an error.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield engine
        finally:
            engine.disconnect()

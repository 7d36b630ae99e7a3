"""What may be a source: paths, headers and types are checked at once; cells are read later."""

from __future__ import annotations

import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

from tacit.sources import engines, files, tables
from tacit.sources.source import Snapshot, Source, check_names
from tacit.spec.columns import Categorical, Integer, Real
from tacit.spec.csv_file import CSV
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema

# The types that `cells` reads; any other is refused by its name, before a cell is seen.
_READ = (
    *(pa.types.is_null, pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_decimal128, pa.types.is_decimal256, pa.types.is_date, pa.types.is_timestamp),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    pa.types.is_fixed_size_binary,
)
_LONG_NUMBER = re.compile(r"[+-]?[0-9]{16,}")


def open_source(data: Any, schema: Schema) -> Source:
    """Check path, header and column types. No cell is looked at."""
    wanted = [column.name for column in schema.columns]
    if schema.unit is not None:
        wanted.append(schema.unit)
    if isinstance(data, CSV):
        return _csv(data, wanted, schema)
    if isinstance(data, (str, os.PathLike)):
        return _path(Path(data), wanted, schema)
    if engines.is_table(data):
        source = engines.open_table(data, wanted)
        for name in wanted:
            _check_type(name, source.opened_with.field(name).type, schema)
        return source
    snapshot = nullcontext(_memory(data, wanted, schema))
    return Source(lambda: snapshot, lambda: None)


def _path(path: Path, wanted: list[str], schema: Schema) -> Source:
    ending = path.name.lower()
    if not ending.endswith(files.CSV_NAMES + files.PARQUET):
        raise SourceError(
            f"Expected a .csv, .tsv (or .gz of these) or .parquet path, got {path}; "
            "tacit.CSV(path) is for a CSV by another name."
        )
    if any(mark in str(path) for mark in "*?["):
        raise SourceError(f"Expected a path without *, ? or [, got {path}.")
    if not ending.endswith(files.PARQUET):
        return _csv(CSV(path), wanted, schema)
    fields = files.parquet_schema(path)
    check_names(str(path), list(fields.names), wanted)
    for name in wanted:
        _check_type(name, fields.field(name).type, schema)
    return Source(lambda: files.open_parquet(path), lambda: files.parquet_schema(path))


def _csv(file: CSV, wanted: list[str], schema: Schema) -> Source:
    header: list[str] = []
    try:
        header = files.csv_header(file)
        if not header:  # a file without a byte is a table without a row
            nothing = nullcontext(Snapshot(lambda names: iter(())))
            return Source(lambda: nothing, lambda: files.csv_header(file))
        check_names(str(file.path), header, wanted)
    except SourceError as error:
        raise SourceError(f"{error}{files.how_to_read(file, header, wanted)}") from None
    numeric = {c.name for c in schema.columns if isinstance(c, (Real, Integer))} - {schema.unit}
    return Source(lambda: files.open_csv(file, header, numeric), lambda: files.csv_header(file))


def _memory(data: Any, wanted: list[str], schema: Schema) -> Snapshot:
    names, pick = tables.columns_of(data)
    check_names("The table", names, wanted)
    columns = {name: pick(name) for name in wanted}
    for name, values in columns.items():
        check_column(name, values, schema)
    if len({len(values) for values in columns.values()}) > 1:
        raise SourceError("Expected all columns to have the same length.")
    return Snapshot(lambda names: tables.batches([columns[name] for name in names]))


def check_column(name: str, values: Any, schema: Schema) -> None:
    """Refuse a column in memory by its shape and declared type. No cell is looked at."""
    tables.check_shape(name, values)
    declared = tables.declared_type(values)
    if declared is not None:
        _check_type(name, declared, schema)


def _check_type(name: str, dtype: pa.DataType, schema: Schema) -> None:
    """Refuse a column whose declared type holds no single values, or merges some of them."""
    while True:
        if isinstance(dtype, pa.BaseExtensionType):
            dtype = dtype.storage_type
        elif pa.types.is_dictionary(dtype):
            dtype = dtype.value_type
        else:
            break
    if not any(is_read(dtype) for is_read in _READ):
        raise SourceError(f"Column {name!r} has type {dtype}; expected text, numbers or dates.")
    if name == schema.unit:
        if pa.types.is_temporal(dtype):
            raise SourceError(
                f"Column {name!r} has type {dtype}; expected text or numbers to name a unit by."
            )
        if pa.types.is_fixed_size_binary(dtype) and not pa.types.is_decimal(dtype):
            raise SourceError(
                f"Column {name!r} names the unit and has type {dtype}, whose bytes are trimmed "
                "like text, so that different ones become equal: write it as text or as whole "
                "numbers. Nothing was charged."
            )
        if pa.types.is_floating(dtype):
            raise SourceError(
                f"Column {name!r} names the unit and has type {dtype}, in which long whole numbers "
                "become equal: write it as text or as whole numbers, in pandas "
                f'df[{name!r}].astype("Int64") before any is missing.'
            )
        return
    column = schema[name]
    if isinstance(column, Categorical) and pa.types.is_floating(dtype):
        long = [x for x in column.levels if isinstance(x, str) and _LONG_NUMBER.fullmatch(x)]
        if long:
            raise SourceError(
                f"Column {name!r} has type {dtype}, in which whole numbers as long as the level "
                f"{long[0]!r} become equal: write it as text or as whole numbers."
            )

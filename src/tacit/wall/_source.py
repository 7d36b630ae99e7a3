"""Where the raw rows are. Paths, headers and types are checked at once; cells are read later.

Whatever the source, reading it ends in one Ibis table with internal column names, so that a header
cannot clash with SQL. Files and in-memory tables are read by a DuckDB of their own that lives for
one read; an Ibis table stays in the engine it is in.
"""

from __future__ import annotations

import csv
import gzip
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.wall._columns import check_type

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Source:
    """A table that has been checked but not read."""

    kind: str
    names: tuple[str, ...]
    wanted: tuple[str, ...]
    read: Callable[[], AbstractContextManager[ir.Table]] = field(repr=False)

    @contextmanager
    def cells(self) -> Iterator[tuple[ir.Table, dict[str, ir.Value]]]:
        """The raw table and its wanted columns by name."""
        with self.read() as table:
            yield table, {name: table[f"c{i}"] for i, name in enumerate(self.wanted)}


def open_source(data: Any, schema: Schema) -> Source:
    """Check path, header and column types. No cell is looked at."""
    if any(isinstance(column, Tokens) for column in schema.columns):
        raise SourceError("Tokens are read from a document-term matrix, and this is a table.")
    wanted = tuple(column.name for column in schema.columns)
    if schema.unit is not None:
        wanted += (schema.unit,)
    if isinstance(data, (str, os.PathLike)):
        return _open_path(Path(data), wanted)
    if isinstance(data, ir.Table):
        return _open_ibis(data, wanted)
    return _open_memory(data, wanted)


def _positions(kind: str, names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    for name in wanted:
        if names.count(name) != 1:
            many = "no column" if name not in names else "more than one column"
            raise SourceError(f"{kind} has {many} {name!r}; it has {', '.join(names)}.")
    return [list(names).index(name) for name in wanted]


# Files -----------------------------------------------------------------------------------------


def _open_path(path: Path, wanted: tuple[str, ...]) -> Source:
    name = path.name.lower()
    if not name.endswith(_CSV + _PARQUET):
        raise SourceError(f"Expected a .csv, .tsv (or .gz of these) or .parquet path, got {path}.")
    if any(mark in str(path) for mark in "*?["):
        raise SourceError(f"Expected a path without *, ? or [, got {path}.")
    try:
        if name.endswith(_PARQUET):
            fields = pyarrow.parquet.read_schema(path)
            names = list(fields.names)
            where = _positions(str(path), names, wanted)
            for i in where:
                check_type(
                    names[i], ibis.Schema.from_pyarrow(pa.schema([fields.field(i)])).types[0]
                )

            @contextmanager
            def read() -> Iterator[ir.Table]:
                with _engine() as (engine, _):
                    table = engine.read_parquet(str(path), table_name="source")
                    yield table.select(**{f"c{k}": table[i] for k, i in enumerate(where)})

        else:
            delimiter = "\t" if ".tsv" in name else ","
            names = _csv_header(path, delimiter)
            where = _positions(str(path), names, wanted)

            @contextmanager
            def read() -> Iterator[ir.Table]:
                with _engine() as (engine, folder):
                    table = engine.read_csv(
                        str(_valid_utf8(path, folder)),
                        table_name="source",
                        # Everything is text and nothing is guessed from the rows.
                        columns={f"f{i}": "VARCHAR" for i in range(len(names))},
                        auto_detect=False,
                        header=True,
                        delim=delimiter,
                        quote='"',
                        escape='"',
                        # Short rows are padded, long ones cut; a stray quote is text.
                        null_padding=True,
                        strict_mode=False,
                        ignore_errors=True,
                        parallel=False,
                    )
                    yield table.select(**{f"c{k}": table[f"f{i}"] for k, i in enumerate(where)})

    except OSError as error:
        raise SourceError(
            f"Cannot read {path}: {error.strerror or 'not a Parquet file'}."
        ) from None
    except pa.ArrowInvalid:
        raise SourceError(f"Cannot read {path}: not a Parquet file.") from None
    return Source(str(path), tuple(names), wanted, read)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _csv_header(path: Path, delimiter: str) -> list[str]:
    try:
        with _opened(path) as file:
            line = file.readline(2**20).decode("utf-8-sig", errors="replace")
    except (EOFError, gzip.BadGzipFile):
        raise SourceError(f"Cannot read {path}: not a gzip file.") from None
    names = next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    if not names:
        raise SourceError(f"{path} has no header line; expected column names in its first line.")
    return names


def _valid_utf8(path: Path, folder: Path) -> Path:
    """The file, or a copy with each undecodable byte replaced: no row is lost to an accent."""
    valid = True
    with _opened(path) as file:
        # Line by line is slow, so in chunks; UTF-8 cannot be cut inside after a newline.
        for chunk in _chunks(file):
            try:
                chunk.decode("utf-8")
            except UnicodeDecodeError:
                valid = False
                break
    if valid:
        return path
    copy = folder / "source.csv"
    with _opened(path) as file, copy.open("wb") as out:
        for chunk in _chunks(file):
            out.write(chunk.decode("utf-8", errors="replace").encode("utf-8"))
    return copy


def _chunks(file: IO[bytes], size: int = 2**22) -> Iterator[bytes]:
    while chunk := file.read(size):
        yield chunk + file.readline()


@contextmanager
def _engine() -> Iterator[tuple[Any, Path]]:
    """A DuckDB for one read, spilling into a folder only this process's owner can open."""
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        engine = ibis.duckdb.connect(temp_directory=folder, autoinstall_known_extensions=False)
        try:
            yield engine, Path(folder)
        finally:
            engine.disconnect()


# Ibis ------------------------------------------------------------------------------------------


def _open_ibis(table: ir.Table, wanted: tuple[str, ...]) -> Source:
    names = list(table.columns)
    where = _positions("The table", names, wanted)
    for i in where:
        check_type(names[i], table[i].type())

    @contextmanager
    def read() -> Iterator[ir.Table]:
        yield table.select(**{f"c{k}": table[i] for k, i in enumerate(where)})

    return Source("Ibis table", tuple(names), wanted, read)


# Memory ----------------------------------------------------------------------------------------


def _open_memory(data: Any, wanted: tuple[str, ...]) -> Source:
    package = type(data).__module__.split(".")[0]
    if package == "polars" and hasattr(data, "collect_schema") and not hasattr(data, "to_arrow"):
        raise SourceError("Expected a polars DataFrame; call .collect() on the LazyFrame.")
    if package == "polars" and hasattr(data, "to_arrow"):
        kind, names, column = "polars table", list(data.columns), data.get_column
    elif isinstance(data, pa.Table):
        kind, names, column = "pyarrow table", list(data.column_names), data.column
    elif package == "pandas" and hasattr(data, "columns"):
        kind, names, column = "pandas table", [str(c) for c in data.columns], _pandas_column(data)
    elif isinstance(data, Mapping):
        kind, names, column = "dict of arrays", list(data), data.__getitem__
    else:
        raise SourceError(
            "Expected a CSV or Parquet path, a pandas, polars or pyarrow table, a dict of arrays "
            f"or an Ibis table, got {type(data).__name__}."
        )
    _positions(f"The {kind}", names, wanted)
    columns = {name: column(name) for name in wanted}
    for name, values in columns.items():
        if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
            raise SourceError(f"Expected a list or array for column {name!r}.")
        if getattr(values, "ndim", 1) != 1:
            raise SourceError(f"Expected column {name!r} to have one dimension.")
        if isinstance(values, (pa.ChunkedArray, pa.Array)):
            check_type(name, ibis.Schema.from_pyarrow(pa.schema([(name, values.type)])).types[0])
    if len({len(values) for values in columns.values()}) > 1:
        raise SourceError("Expected all columns to have the same length.")

    @contextmanager
    def read() -> Iterator[ir.Table]:
        arrays = {f"c{i}": _arrow(columns[name]) for i, name in enumerate(wanted)}
        with _engine() as (engine, _):
            engine.con.register("source", pa.table(arrays))
            yield engine.table("source")

    return Source(kind, tuple(map(str, names)), wanted, read)


def _pandas_column(data: Any) -> Callable[[str], Any]:
    return lambda name: data.iloc[:, [str(c) for c in data.columns].index(name)]


def _arrow(values: Any) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow. Numbers stay numbers; every other cell becomes text or null by itself."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if not isinstance(values, (list, tuple, np.ma.MaskedArray)):
        array = np.asarray(values)
        if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
            return pa.array(array.astype("f8") if array.dtype.kind == "f" else array)
        if array.dtype.kind == "M":
            return pa.array(array.astype("datetime64[us]"))
        values = array
    cells = values.tolist() if isinstance(values, np.ma.MaskedArray) else values
    return pa.array([_text(cell) for cell in cells], pa.string())


def _text(cell: object) -> str | None:
    try:
        if cell is None or cell != cell:  # noqa: PLR0124 - NaN of any kind
            return None
        if isinstance(cell, (bytes, np.bytes_)):
            return cell.decode("utf-8", errors="replace")
        if isinstance(cell, (float, np.floating)) and float(cell).is_integer():
            cell = int(cell)  # a column of 1.0 and "n/a" reads like a column of 1.0 alone
        return str(cell).encode("utf-8", errors="replace").decode("utf-8")
    except Exception:  # noqa: BLE001 - a cell that cannot be printed is a missing cell
        return None

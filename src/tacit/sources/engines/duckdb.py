"""Tables that DuckDB stores, in a file or behind a connection of Ibis, read in one transaction.

Texts are asked for as bytes, and compared as such.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tacit.sources.engines.sql import Column, Session, grouped, quoted, select, source, utc
from tacit.sources.source import Source
from tacit.spec.errors import SourceError
from tacit.spec.table import Table

_BATCH = 2**16
_BASE = "SELECT system.main.current_database()"
_SPILLS = "SELECT system.main.current_setting('temp_directory')"
_SETTINGS = (
    "search_path = 'system.main'",  # where no macro of the database is called count
    "arrow_large_buffer_size = true",  # no cell is too long
    "arrow_output_version = '1.0'",  # later ones have decimals that Arrow cannot group
)


class _Named(NamedTuple):
    """A full name; without a database the file's own."""

    base: str | None
    schema: str
    table: str


def open_file(table: Table, wanted: Sequence[str]) -> Source:
    """A stored table of a DuckDB file. No cell is looked at."""
    before, _, name = table.name.rpartition(".")
    named = _Named(None, before or "main", name)
    return source(partial(_session, partial(_connection, table), named), wanted, table.version)


def open_table(table: Any, wanted: Sequence[str]) -> Source:
    """A stored table that Ibis names. No cell is looked at."""
    op = table.op()
    connection = op.source.con
    found = connection.execute(_VISIBLE, [op.name, op.namespace.catalog, op.namespace.database])
    tables = found.fetchall()
    if len(tables) != 1:
        raise SourceError(
            f"Expected one table or view named {op.name!r}, found {len(tables)}: give its schema, "
            f'as in con.table({op.name!r}, database="main").'
        )
    # A connection of our own to the same database: what others do on theirs is not seen.
    return source(partial(_session, connection.cursor, _Named(*tables[0])), wanted)


def _connection(table: Table) -> Any:
    import duckdb

    try:
        connection = duckdb.connect(Path(table.source), read_only=True)
        found = connection.execute(_SPILLS).fetchone()
        if found != (_private(),):
            connection.execute(f"SET GLOBAL temp_directory = {_text(_private())}")
        return connection
    except (duckdb.Error, OSError):
        pass
    raise SourceError(
        f"Cannot read {table.place}: check that it is a DuckDB file and that nothing else has it "
        "open. Nothing was charged."
    )


@cache
def _private() -> str:
    """Where cells go that do not fit into memory: not beside the file, where others may look."""
    folder = tempfile.mkdtemp(prefix="tacit-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def _session(connect: Callable[[], Any], named: _Named) -> Iterator[Session]:
    """A transaction that only reads, of one version of the data."""
    with closing(connect()) as connection:
        base = named.base or connection.execute(_BASE).fetchone()[0]
        for setting in _SETTINGS:
            connection.execute(f"SET SESSION {setting}")
        connection.execute("BEGIN TRANSACTION READ ONLY")  # proof: one-version
        where = (base, named.schema, named.table)
        full = ".".join(map(quoted, where))

        def run(sql: str) -> Iterator[pa.RecordBatch]:
            yield from connection.execute(sql).to_arrow_reader(_BATCH)

        yield Session(
            columns=_columns(connection, where),
            check=lambda names: None,  # a stored table of the types in `_read` can be scanned
            scan=lambda columns: run(select(full, columns)),
            group=grouped(run, full),
        )


# Every table and view that a name can stand for: without a schema DuckDB looks among temporary ones
# and in its current schema. A view has no definition here.
_ALL = """
SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables()
UNION ALL
SELECT database_name, schema_name, view_name, NULL FROM system.main.duckdb_views()
"""
_VISIBLE = f"""
SELECT database_name, schema_name, table_name FROM ({_ALL})
WHERE table_name = $1
  AND (database_name = coalesce($2, system.main.current_database())
       OR ($2 IS NULL AND database_name = 'temp'))
  AND (schema_name = coalesce($3, system.main.current_schema())
       OR ($3 IS NULL AND database_name = 'temp'))
"""
_STORED = f"""
SELECT named.sql, bases.type
FROM ({_ALL}) AS named JOIN system.main.duckdb_databases() AS bases USING (database_name)
WHERE database_name = $1 AND schema_name = $2 AND table_name = $3
"""
_COLUMNS = """
SELECT column_name, data_type FROM system.main.duckdb_columns()
WHERE database_name = $1 AND schema_name = $2 AND table_name = $3 ORDER BY column_index
"""


def _columns(connection: Any, where: tuple[str, str, str]) -> dict[str, Column | str]:
    found = connection.execute(_STORED, where).fetchall()  # proof: cells
    name = where[2]
    if not found:
        raise SourceError(
            f"DuckDB has no table {name!r} that every connection sees; expected one that is stored "
            "and not temporary, with its schema before a dot where that is not main. "
            "Nothing was charged."
        )
    (definition, engine), *_ = found
    if definition is None or engine != "duckdb":
        raise SourceError(
            f"Expected a table that DuckDB stores; {name!r} is a view or in another database, "
            "which may fail for a single cell: CREATE TABLE ... AS SELECT * FROM it. "
            "Nothing was charged."
        )
    if "GENERATED ALWAYS" in definition.upper():
        raise SourceError(
            f"Expected a table without generated columns, which are computed when {name!r} is "
            "read: CREATE TABLE ... AS SELECT * FROM it. Nothing was charged."
        )
    types = connection.execute(_COLUMNS, where).fetchall()
    return {name: _read(name, kind) for name, kind in types}


def _read(name: str, kind: str) -> Column | str:
    """How cells of a type are asked for: as they are, or as the bytes of a text that each has."""
    cell = quoted(name)
    # proof: cells. By its full name, which no macro can take.
    text = f"system.main.encode(CAST({cell} AS VARCHAR))"
    match kind if kind.endswith("]") else kind.split("(", maxsplit=1)[0]:  # arrays of anything
        case "BOOLEAN":
            return Column(pa.bool_(), cell)
        case "TINYINT" | "SMALLINT" | "INTEGER" | "BIGINT":
            return Column(pa.int64(), cell)
        case "UTINYINT" | "USMALLINT" | "UINTEGER" | "UBIGINT":
            return Column(pa.uint64(), cell)
        case "HUGEINT" | "UHUGEINT":
            return Column(pa.decimal128(38, 0), text)
        case "FLOAT" | "DOUBLE":
            return Column(pa.float64(), cell, grouped=False)
        case "DECIMAL":
            return Column(pa.decimal128(38, 0), cell)
        case "VARCHAR" | "ENUM" | "UUID":
            return Column(pa.string(), text)
        case "BLOB":
            return Column(pa.binary(), cell)
        case "DATE":
            return Column(pa.date32(), cell)
        case "TIMESTAMP" | "TIMESTAMP_S" | "TIMESTAMP_MS" | "TIMESTAMP_NS":
            return Column(pa.timestamp("us"), cell)
        case "TIMESTAMP WITH TIME ZONE":
            return Column(pa.timestamp("us", "UTC"), cell, utc)
    return kind

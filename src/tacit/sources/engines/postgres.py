"""Tables of PostgreSQL, read by ADBC in a transaction that sees one version of the data.

The server scans, and groups and counts bytes. Texts are compared by their bytes, whatever their
collation is; times come in the server's own binary form, numerics and ids in its only written one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.sources.cells import LONGEST, WORD, Raw
from tacit.sources.engines.sql import Column, Session, grouped, quoted, select, source
from tacit.sources.source import Source
from tacit.sources.tables import plain
from tacit.spec.errors import SourceError
from tacit.spec.table import Table

_BEGIN = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",  # proof: one-version
    "SET LOCAL search_path = pg_catalog, pg_temp",
    "SET LOCAL client_encoding = 'UTF8'",  # else PGCLIENTENCODING has texts converted
    "SET LOCAL row_security = off",  # a policy that computes for a row is refused, not obeyed
    "SET LOCAL statement_timeout = 0",  # nor does the number of rows decide whether it is read
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL jit = off",
)
# The table, its descendants, and its columns by type.
_TABLE = """
WITH RECURSIVE family AS (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.oid
)
SELECT string_agg(DISTINCT c.relkind::text, '') AS kinds, bool_and(c.relispopulated) AS filled,
    current_setting('server_encoding') AS encoding
FROM family f JOIN pg_class c ON c.oid = f.oid
"""
_COLUMNS = """
SELECT a.attname::text, CASE t.typtype WHEN 'e' THEN 'enum' ELSE t.typname::text END,
    CASE t.typtype WHEN 'e' THEN 'pg_catalog' ELSE n.nspname::text END, a.attgenerated::text
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname = $1 AND c.relname = $2)
  AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
_STORED = {"r", "p", "m"}  # tables, their partitions and materialized views
_1970 = {4: -10_957, 8: -946_684_800_000_000}  # in days and microseconds from PostgreSQL's 2000


def open_table(table: Table, wanted: Sequence[str]) -> Source:
    """A stored table of a server. No cell is looked at."""
    return source(partial(connected, table), wanted, table.version)


@contextmanager
def connected(table: Table) -> Iterator[Session]:
    """A transaction that only reads, of one version of the data."""
    with closing(_connection(table)) as connection, connection.cursor() as cursor:
        for statement in _BEGIN:
            cursor.execute(statement)
        before, _, name = table.name.rpartition(".")
        where = (before or "public", name)

        def run(sql: str) -> Iterator[pa.RecordBatch]:
            with connection.cursor() as reading:
                reading.execute(sql)
                yield from reading.fetch_record_batch()

        def check(names: Sequence[str]) -> None:
            with connection.cursor() as asking:
                asking.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
                try:
                    asking.execute(f"EXPLAIN SELECT {', '.join(map(quoted, names))} FROM {full}")
                except Exception:  # noqa: BLE001 - what the server says may quote what it stores
                    raise SourceError(
                        f"PostgreSQL does not let this user read {table.name!r}, or not all of its "
                        "rows: grant SELECT on it, without policies for rows. Nothing was charged."
                    ) from None

        full = ".".join(map(quoted, where))
        yield Session(
            columns=_columns(cursor, where, table.name),
            check=check,
            scan=lambda columns: run(select(full, columns)),
            group=grouped(run, full),
        )


def _connection(table: Table) -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError:
        raise SourceError(
            'Reading PostgreSQL needs its driver: pip install "tacit[postgres]". '
            "Nothing was charged."
        ) from None
    address = table.address
    try:
        return dbapi.connect(address)
    except Exception:  # noqa: BLE001 - what the driver says may quote the address
        pass
    raise SourceError(
        f"Cannot connect to {table.place}: check that the server is up and that user, password "
        "(PGPASSWORD or ~/.pgpass) and database fit. Nothing was charged."
    )


def _columns(cursor: Any, where: tuple[str, str], name: str) -> dict[str, Column | str]:
    cursor.execute(_TABLE, where)
    kinds, filled, encoding = cursor.fetchone()
    if kinds is None:
        raise SourceError(
            f"PostgreSQL has no table {name!r}; expected its name as it is stored, with its "
            'schema before a dot where that is not "public". Nothing was charged.'
        )
    if not set(kinds) <= _STORED:  # proof: cells
        raise SourceError(
            f"Expected a table that PostgreSQL stores; {name!r} is a view or a foreign table, "
            "which may fail for a single cell: make it a materialized view. Nothing was charged."
        )
    if not filled:
        raise SourceError(
            f"Expected a materialized view with rows: REFRESH MATERIALIZED VIEW {name}. "
            "Nothing was charged."
        )
    if encoding != "UTF8":  # to convert a text can fail
        raise SourceError(
            f"Expected a database in UTF8, got {encoding}: dump it and restore it into one that "
            "is. Nothing was charged."
        )
    cursor.execute(_COLUMNS, where)
    return {
        column: _read(column, kind if home == "pg_catalog" else f"{home}.{kind}")
        if generated != "v"
        else "that is computed when it is read"
        for column, kind, home, generated in cursor.fetchall()
    }


def _read(name: str, kind: str) -> Column | str:
    """How cells of a type are asked for: as they are, or in a form that every cell has."""
    cell = quoted(name)
    match kind:
        case "bool":
            return Column(pa.bool_(), cell)
        case "int2" | "int4" | "int8":
            return Column(pa.int64(), cell)
        case "float4" | "float8":
            return Column(pa.float64(), cell, grouped=False)
        case "text" | "varchar" | "bpchar":
            return Column(pa.string(), _short(cell, WORD, "C"), alone=_short(cell, LONGEST, "C"))
        case "enum":  # not by ::text, for which the database may have a function of its own
            named = f"pg_catalog.textin(pg_catalog.enum_out({cell}))"
            return Column(pa.string(), f'{named} COLLATE "C"')
        case "uuid":
            return Column(pa.string(), f'{cell}::pg_catalog.text COLLATE "C"')
        case "bytea":
            return Column(pa.binary(), _short(cell, WORD), alone=_short(cell, LONGEST))
        case "numeric":
            return Column(pa.decimal256(76, 0), f'{cell}::pg_catalog.text COLLATE "C"', _decimals)
        case "date":
            return Column(pa.date32(), f"pg_catalog.date_send({cell})", _dates)
        case "timestamp":
            return Column(pa.timestamp("us"), f"pg_catalog.timestamp_send({cell})", _moments)
        case "timestamptz":
            return Column(
                pa.timestamp("us", "UTC"), f"pg_catalog.timestamptz_send({cell})", _utc_moments
            )
    return kind


def _short(cell: str, longest: int, collation: str = "") -> str:
    """A text that is not too long to be read: a row of COPY, of 1,600 columns, has a gigabyte."""
    short = f"CASE WHEN pg_catalog.octet_length({cell}) <= {longest} THEN {cell} END"
    return f"({short}) COLLATE {quoted(collation)}" if collation else short


def _decimals(cells: pa.Array) -> Raw:
    """Numerics, of any number of digits; each different one is read once."""
    texts = cells.dictionary_encode()
    known = [Decimal(text) for text in texts.dictionary.to_pylist()]
    return [None if i is None else known[i] for i in texts.indices.to_pylist()]


def _dates(cells: pa.Array) -> pa.Array:
    days, near = _ticks(cells, 4)
    return pa.array(days.astype(np.int32), mask=~near).view(pa.date32())


def _moments(cells: pa.Array) -> pa.Array:
    ticks, near = _ticks(cells, 8)
    return pa.array(ticks, mask=~near).view(pa.timestamp("us"))


def _utc_moments(cells: pa.Array) -> pa.Array:
    return _moments(cells).view(pa.timestamp("us", "UTC"))


def _ticks(cells: pa.Array, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers from their bytes, counted from 1970; and which are there, and no infinity."""
    valid = cells.is_valid().to_numpy(zero_copy_only=False)
    found = np.zeros(len(cells), np.int64)
    data = b"".join(plain(cells).drop_null().to_pylist())
    found[valid] = np.frombuffer(data, f">i{size}")
    near = valid & (np.abs(found.astype(float)) < 2.0 ** (8 * size - 2))
    return np.where(near, found, 0) - _1970[size], near

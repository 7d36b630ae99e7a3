"""Tables that Ibis names: those of DuckDB as such, of other engines by pulling their cells.

An engine of which nothing more is known is asked for columns as they are, in one statement: of
types that a driver of a typed engine hands over without reading them. Nothing is grouped there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from tacit.sources.engines import duckdb
from tacit.sources.engines.sql import Column, Session, source
from tacit.sources.source import Source
from tacit.spec.errors import SourceError

_BATCH = 2**16
_BY_ADDRESS = {"postgres": '"postgresql://host/database"', "pyspark": "spark"}
# Cells of SQLite have types of their own, those of Polars may still have to be computed.
_UNTYPED = ("sqlite", "polars")


def open_table(table: Any, wanted: Sequence[str]) -> Source:
    """A table that an engine stores; what one would compute is refused. No cell is looked at."""
    import ibis.expr.operations as ops

    op = table.op()
    if isinstance(op, ops.InMemoryTable):
        raise SourceError("Expected the table itself, not ibis.memtable of it: Wall(frame, ...).")
    if not isinstance(op, ops.DatabaseTable):
        raise SourceError(
            "Expected a table that an engine stores, not an expression: what an engine computes "
            'may fail for a single cell. Write con.create_table("name", expression) and give that.'
        )
    engine = op.source.name
    if engine == "duckdb":
        return duckdb.open_table(table, wanted)
    if engine in _BY_ADDRESS:
        raise SourceError(
            f"Expected tacit.Table({_BY_ADDRESS[engine]}, {op.name!r}) instead of a table of Ibis: "
            "it is read in one transaction, by a faster driver. Nothing was charged."
        )
    if engine in _UNTYPED:
        raise SourceError(
            f"Expected a table whose cells have the type of their column, got one of {engine}: "
            'write con.to_parquet(con.table("name"), "name.parquet") and give that path. '
            "Nothing was charged."
        )
    return pulled(op.source, op.name, op.namespace.catalog, op.namespace.database, wanted)


def pulled(
    connection: Any, name: str, catalog: str | None, database: str | None, wanted: Sequence[str]
) -> Source:
    """A stored table of any engine with an information schema, its cells as they are."""
    where = partial(connection.table, name, database=_place(catalog, database))

    @contextmanager
    def session() -> Iterator[Session]:
        try:
            table, kinds = where(), _kinds(connection, name, database)
        except Exception:  # noqa: BLE001 - what an engine says may quote more than names
            raise SourceError(
                f"Cannot look up {name!r} by Ibis, or what it is in the information schema: write "
                f'con.to_parquet(con.table({name!r}), "{name}.parquet") and give that path. '
                "Nothing was charged."
            ) from None
        if kinds != ["BASE TABLE"]:  # proof: cells
            raise SourceError(
                f"Expected a table that an engine stores; {name!r} is a view or in several "
                "schemas: give its schema, or make a table of it. Nothing was charged."
            )

        def scan(columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
            chosen = table.select(*(column.expression for column in columns))
            yield from connection.to_pyarrow_batches(chosen, chunk_size=_BATCH)

        yield Session(
            columns={column: _read(column, kind) for column, kind in table.schema().items()},
            check=lambda names: connection.compile(table.select(*names)),
            scan=scan,
        )

    return source(session, wanted)


def _place(catalog: str | None, database: str | None) -> Any:
    return database if catalog is None else (catalog, database)


def _kinds(connection: Any, name: str, database: str | None) -> list[str]:
    """Tables and views of that name."""
    import sqlglot.expressions as sql

    found = (
        sql.select("table_type")
        .from_("information_schema.tables")
        .where(sql.column("table_name").eq(name))
        .where(sql.column("table_schema").eq(database or connection.current_database))
    )
    (kinds,) = connection.sql(found.sql(connection.dialect)).to_pyarrow().columns
    return [str(kind) for kind in kinds.to_pylist()]


def _read(name: str, kind: Any) -> Column | str:
    """Only types of which every value is one of Arrow's, whatever a driver does."""
    if kind.is_boolean() or kind.is_integer() or kind.is_floating() or kind.is_string():
        return Column(kind.to_pyarrow(), name, grouped=False)
    return f"{kind}, which is not pulled as it is: write it as text, as a number, or to Parquet"

"""Tables that DuckDB stores, read by Ibis. Texts are asked for as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tacit.sources.cells import Raw
from tacit.sources.source import Snapshot, Source
from tacit.sources.tables import BATCH, plain
from tacit.spec.errors import SourceError


def open_table(table: Any, wanted: Sequence[str]) -> Source:
    """A stored table by Ibis. No cell is looked at."""
    named = stored(table)
    for name in wanted:
        dtype = named.schema()[name]  # JSON is a VARIANT too, which cannot be read as it is
        if dtype.is_json() or dtype.is_unknown():  # and BIT: bytes that would be taken for text
            raise SourceError(f"Column {name!r} has type {dtype}; expected text or numbers.")
    return Source(lambda: opened(named), lambda: stored(named).schema().to_pyarrow())


def stored(table: Any) -> Any:
    """The stored table that an Ibis table names, by its full name; anything computed is refused."""
    import ibis.expr.operations as ops

    op = table.op()
    if isinstance(op, ops.InMemoryTable):
        raise SourceError("Expected the table itself, not ibis.memtable of it: Wall(frame, ...).")
    if not isinstance(op, ops.DatabaseTable):
        raise SourceError(
            "Expected a table that DuckDB stores, not an expression: what an engine computes may "
            'fail for a single cell. Write con.create_table("name", expression) and give that.'
        )
    if op.source.name != "duckdb":
        raise SourceError(
            f"Expected a DuckDB table, got one of {op.source.name}: copy it into DuckDB, or give a "
            "Parquet path."
        )
    found = op.source.con.execute(_NAMED, [op.name, op.namespace.catalog, op.namespace.database])
    tables = found.fetchall()  # proof: cells
    if len(tables) != 1:
        raise SourceError(
            f"Expected one table or view named {op.name!r}, found {len(tables)}: give its schema, "
            f'as in con.table({op.name!r}, database="main").'
        )
    catalog, schema, definition, engine = tables[0]
    if definition is None or engine != "duckdb":
        raise SourceError(
            f"Expected a table that DuckDB stores; {op.name!r} is a view or in another database, "
            'which may fail for a single cell. Write con.create_table("name", con.table("view")) '
            "and give that."
        )
    if "GENERATED ALWAYS" in definition.upper():
        raise SourceError(
            f"Expected a table without generated columns, which are computed when {op.name!r} is "
            'read: write con.create_table("name", con.table("table")) and give that.'
        )
    return op.source.table(op.name, database=(catalog, schema))


# Every table and view that a name can stand for: without a schema DuckDB looks among temporary ones
# and in its current schema. A view has no definition here.
_NAMED = """
SELECT named.database_name, named.schema_name, named.sql, bases.type
FROM (
    SELECT database_name, schema_name, table_name, sql FROM system.main.duckdb_tables()
    UNION ALL
    SELECT database_name, schema_name, view_name, NULL FROM system.main.duckdb_views()
) AS named JOIN system.main.duckdb_databases() AS bases USING (database_name)
WHERE named.table_name = $1
  AND (named.database_name = coalesce($2, system.main.current_database())
       OR ($2 IS NULL AND named.database_name = 'temp'))
  AND (named.schema_name = coalesce($3, system.main.current_schema())
       OR ($3 IS NULL AND named.database_name = 'temp'))
"""


@contextmanager
def opened(table: Any) -> Iterator[Snapshot]:
    """The table as it is now."""
    yield Snapshot(lambda wanted: batches(table, wanted))


def batches(table: Any, wanted: Sequence[str]) -> Iterator[list[Raw]]:
    """The wanted columns batch by batch."""
    types = table.schema()
    texts = {name for name in wanted if types[name].is_string()}
    cells = [_encode()(table[name]) if name in texts else table[name] for name in wanted]
    chosen = table.select(**{f"c{i}": cell for i, cell in enumerate(cells)})
    reader = chosen.to_pyarrow_batches(chunk_size=BATCH)
    for batch in reader:
        yield [plain(batch.column(i)) for i in range(len(wanted))]


def _encode() -> Any:
    import ibis

    # proof: cells. By its full name, which no macro of the database can take.
    @ibis.udf.scalar.builtin(
        name="encode", catalog="system", database="main", signature=(("str",), "binary")
    )
    def encode(text):  # type: ignore[no-untyped-def]
        """DuckDB's bytes of a text."""

    return encode

"""Tables that an engine holds, read by Ibis: raw cells as they are stored, and nothing computed.

An engine that computes can fail for a single cell, and whether it failed would tell that cell. So
a source is a table that DuckDB stores: no view and no expression. Texts are asked for as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tacit.sources.cells import Raw
from tacit.sources.tables import BATCH, plain
from tacit.spec.errors import SourceError


def is_table(data: Any) -> bool:
    return type(data).__module__.startswith("ibis.expr.types")


def check_stored(table: Any) -> None:
    """Refuse whatever an engine would have to compute."""
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
    where = [name for name in (op.namespace.catalog, op.namespace.database) if name]
    query = "SELECT count(*) FROM duckdb_tables() WHERE table_name = ?"
    for column, name in zip(
        ("database_name", "schema_name")[-len(where) :] if where else (), where
    ):
        query += f" AND {column} = {_quoted(name)}"
    if not op.source.con.execute(query, [op.name]).fetchone()[0]:
        raise SourceError(
            f"Expected a table that DuckDB stores; {op.name!r} is a view, which may fail for a "
            'single cell. Write con.create_table("name", con.table("view")) and give that.'
        )


def types_of(table: Any) -> pa.Schema:
    """The Arrow types of the columns, from the header alone."""
    found: pa.Schema = table.schema().to_pyarrow()
    return found


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

    @ibis.udf.scalar.builtin(name="encode", signature=(("str",), "binary"))
    def encode(text):  # type: ignore[no-untyped-def]
        """DuckDB's bytes of a text."""

    return encode


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"

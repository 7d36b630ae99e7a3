"""Tables that Ibis names: those of DuckDB as such; of other engines none yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.sources.engines import duckdb
from tacit.sources.source import Source
from tacit.spec.errors import SourceError

_BY_ADDRESS = {"postgres": '"postgresql://host/database"', "pyspark": "spark"}


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
    if engine in _BY_ADDRESS:
        raise SourceError(
            f"Expected tacit.Table({_BY_ADDRESS[engine]}, {op.name!r}) instead of a table of Ibis: "
            "it is read in one transaction, by a faster driver. Nothing was charged."
        )
    if engine != "duckdb":
        raise SourceError(
            f"Expected a table of DuckDB, PostgreSQL or Spark, got one of {engine}: copy it into "
            "one of these, or give a Parquet path. Nothing was charged."
        )
    return duckdb.open_table(table, wanted)

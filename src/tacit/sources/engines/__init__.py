"""Tables that an engine holds: raw cells as they are stored, a file for each engine.

An engine that computes can fail for a single cell, and whether it failed would tell that cell. So
engines do only what is exact for every cell: they scan stored tables, and group equal raw cells and
count them. Every meaning stays in `cells` and `columns`. No view and no expression is a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.sources.engines import by_ibis, duckdb, postgres, spark
from tacit.sources.source import Source
from tacit.spec.table import Table


def is_table(data: Any) -> bool:
    """Whether an engine holds it: a `tacit.Table`, or a table of Ibis."""
    return isinstance(data, Table) or type(data).__module__.startswith("ibis.expr.types")


def open_table(data: Any, wanted: Sequence[str]) -> Source:
    """Check that an engine stores the table, and its types. No cell is looked at."""
    if not isinstance(data, Table):
        return by_ibis.open_table(data, wanted)
    match data.engine:
        case "postgres":
            return postgres.open_table(data, wanted)
        case "spark":
            return spark.open_table(data, wanted)
        case _:
            return duckdb.open_file(data, wanted)

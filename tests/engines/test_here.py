"""Files and tables in memory: the same integers for the same cells as from any engine."""

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import tacit
from tests.engines import cells


def in_duckdb(table, folder):
    path = folder / "a.duckdb"
    with duckdb.connect(path) as con:
        con.register("rows", table)
        con.execute("CREATE OR REPLACE TABLE kept AS SELECT * FROM rows")
    return tacit.Table(path, "kept")


def in_parquet(table, folder):
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    return folder / "a.parquet"


MAKERS = {
    "DuckDB": in_duckdb,
    "Parquet": in_parquet,
    "Arrow": lambda table, folder: table,
    "polars": lambda table, folder: pl.from_arrow(table),
    "pandas": lambda table, folder: table.to_pandas(ignore_metadata=True),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_cell_gives_the_same_integers(kind, tmp_path):
    rows = cells.EVERY
    if kind == "pandas":  # it turns whole numbers with a gap into floats, and refuses such a unit
        rows = [row for row in rows if row["number"] is not None and row["whole"] is not None]
    made = MAKERS[kind](cells.table(rows), tmp_path)
    assert cells.statistics(made) == cells.expected(rows)


@settings(max_examples=15, deadline=None)
@given(cells.ROWS)
def test_any_table_gives_the_same_integers(tmp_path_factory, rows):
    expected, folder = cells.expected(rows), tmp_path_factory.mktemp("rows")
    for kind in ("DuckDB", "Parquet", "polars"):
        assert cells.statistics(MAKERS[kind](cells.table(rows), folder)) == expected, kind

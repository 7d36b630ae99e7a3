"""Any other engine, by Ibis: tried on PostgreSQL as if nothing were known of it."""

import ibis
import pytest

import tacit
from tacit.queries import Counts
from tacit.sources.engines import by_ibis
from tests.engines import cells

NAMES = ("flag", "small", "whole", "score", "narrow", "word", "said")


@pytest.fixture(scope="module")
def connection(postgres):
    pytest.importorskip("psycopg", reason="psycopg, which Ibis needs for PostgreSQL, is missing")
    made = ibis.postgres.connect(
        host=str(postgres.folder), port=postgres.port, user="postgres", database="postgres"
    )
    yield made
    made.disconnect()


def test_cells_that_are_pulled_are_those_that_are_stored(postgres, connection):
    postgres.fill("pulled", cells.table(cells.EVERY))
    source = by_ibis.pulled(connection, "pulled", None, None, [*NAMES, "who", "number"])
    memory = {name: [row[name] for row in cells.EVERY] for name in cells.TYPES.names}
    columns = [column for column in cells.COLUMNS if column.name in NAMES]
    for unit in (None, "who", "number"):
        more = {} if unit is None else {"unit": unit, "max_rows_per_unit": 2}
        schema = tacit.Schema(*columns, neighbours="replace_one", **more)
        here, there = tacit.Public(memory, schema), tacit.Public(memory, schema)
        there._source = source
        for query in (Counts([*NAMES[:3], "word"]), tacit.queries.Moments(("score", "said"))):
            expected, found = (each.release(query, tacit.Exact()) for each in (here, there))
            assert found.integers.tolist() == expected.integers.tolist()
            assert found.n == expected.n


def test_views_and_types_that_a_driver_reads_are_refused(postgres, connection):
    postgres.run(
        "DROP VIEW IF EXISTS through",
        "DROP TABLE IF EXISTS kept",
        "CREATE TABLE kept (smoker text, day date, paid numeric)",
        "CREATE VIEW through AS SELECT smoker::int AS smoker FROM kept",
    )
    with pytest.raises(tacit.errors.SourceError, match="is a view"):
        by_ibis.pulled(connection, "through", None, None, ["smoker"])
    for column in ("day", "paid"):
        with pytest.raises(tacit.errors.SourceError, match="not pulled as it is"):
            by_ibis.pulled(connection, "kept", None, None, [column])
    with pytest.raises(tacit.errors.SourceError, match="Cannot look up"):
        by_ibis.pulled(connection, "nowhere", None, None, ["smoker"])


def test_engines_that_are_known_better_are_pointed_to(postgres, connection):
    postgres.run("DROP TABLE IF EXISTS known", "CREATE TABLE known (smoker text)")
    schema = tacit.Schema(tacit.Categorical("smoker", ["no"]), neighbours="add_remove")
    with pytest.raises(tacit.errors.SourceError, match=r"tacit.Table\(.postgresql://host"):
        tacit.Public(connection.table("known"), schema)
    table = ibis.sqlite.connect().create_table("t", schema=ibis.schema({"smoker": "string"}))
    with pytest.raises(tacit.errors.SourceError, match="got one of sqlite"):
        tacit.Public(table, schema)

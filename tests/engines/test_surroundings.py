"""What stands around a table: settings, casts, macros and caches of others change no cell."""

import datetime as dt
import tempfile

import duckdb
import ibis
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.queries import Counts
from tacit.sources.cells import WORD
from tacit.sources.data import load
from tacit.sources.engines import duckdb as engine
from tacit.sources.opening import open_source
from tests.conftest import exact

SAYS = tacit.Schema(tacit.Categorical("x", ["yes", "日本"]), neighbours="add_remove")
OLD = tacit.Schema(tacit.Time("day", "1549", "1550", every="year"), neighbours="add_remove")
spark_leaves_sockets = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_the_encoding_of_a_client_converts_no_text(postgres, monkeypatch):
    """A letter that Latin-1 does not have ended the release, after its charge."""
    postgres.fill("said_here", pa.table({"x": ["yes", "日本", "é"]}))
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    table = tacit.Table(postgres.address(), "said_here")
    assert exact(table, SAYS, Counts("x")).tolist() == [1, 1, 1]


def test_a_cast_of_the_database_s_own_is_not_run(postgres):
    """It failed for one cell."""
    postgres.run(
        "DROP TABLE IF EXISTS cast_here",
        "DROP TYPE IF EXISTS temper CASCADE",
        "CREATE TYPE temper AS ENUM ('yes', 'no')",
        "CREATE FUNCTION public.told(temper) RETURNS text LANGUAGE plpgsql AS "
        "$$ BEGIN IF $1::text::bytea = 'no' THEN RAISE 'no'; END IF; RETURN '日本'; END $$",
        "CREATE CAST (temper AS text) WITH FUNCTION public.told(temper)",
        "CREATE TABLE cast_here (x temper)",
        "INSERT INTO cast_here VALUES ('yes'), ('no'), (NULL)",
    )
    table = tacit.Table(postgres.address(), "cast_here")
    assert exact(table, SAYS, Counts("x")).tolist() == [1, 0, 2]


def test_a_type_is_no_enumeration_by_its_name(postgres):
    postgres.run(
        "DROP TABLE IF EXISTS named_here",
        'DROP DOMAIN IF EXISTS "enum"',
        'CREATE DOMAIN "enum" AS timestamptz',  # as text it is what the session's zone makes of it
        'CREATE TABLE named_here (x "enum")',
    )
    with pytest.raises(tacit.errors.SourceError, match=r"has type public\.enum"):
        tacit.Public(tacit.Table(postgres.address(), "named_here"), SAYS)


def test_a_materialized_view_without_rows_is_refused_before_the_charge(postgres):
    postgres.run(
        "DROP MATERIALIZED VIEW IF EXISTS unfilled",
        "CREATE MATERIALIZED VIEW unfilled AS SELECT 'yes'::text AS x WITH NO DATA",
    )
    table = tacit.Table(postgres.address(), "unfilled")
    with pytest.raises(tacit.errors.SourceError, match="REFRESH MATERIALIZED VIEW unfilled"):
        tacit.Wall(table, SAYS, budget=tacit.Budget(1), ledger=":memory:")
    postgres.run("REFRESH MATERIALIZED VIEW unfilled")
    assert exact(table, SAYS, Counts("x")).tolist() == [1, 0, 0]


def test_no_row_is_too_long_to_be_sent(postgres):
    """PostgreSQL sends rows of a gigabyte at most: two cells of 550 MB ended the release."""
    said = ["no " * 30_000, "no", "yes ".ljust(WORD + 1)]
    postgres.fill("long_here", pa.table({"x": said, "y": said, "z": [b"1", b"2", b"3"]}))
    columns = (tacit.Categorical(name, ["no", "yes"]) for name in "xyz")
    source = open_source(
        tacit.Table(postgres.address(), "long_here"),
        tacit.Schema(*columns, neighbours="add_remove"),
    )
    with source.snapshot() as snapshot:
        for names, sizes in (("xyz", [0, 2, 0]), ("x", [90_000, 2, WORD + 1])):
            (cells,) = snapshot.batches(list(names))
            assert pc.binary_length(cells[0]).fill_null(0).to_pylist() == sizes
        grouped = [group.cells[0] for group in snapshot.groups([["x", "y", "z"]])]
        assert max(pc.max(pc.binary_length(each)).as_py() or 0 for each in grouped) == 2
    words = tacit.Schema(tacit.Tokens("x", ["no", "yes"], 40_000), neighbours="add_remove")
    found = []
    for place in ({"x": said}, tacit.Table(postgres.address(), "long_here")):
        with open_source(place, words).snapshot() as snapshot:
            found.append(load(snapshot, words, ("x",)).weights.tolist())
    assert found[0] == found[1] == [30_000, 1, 1]


@pytest.mark.parametrize("macro", ["count_star() AS 7", "current_database() AS 'temp'"])
def test_a_macro_counts_nothing(tmp_path, macro):
    with duckdb.connect(tmp_path / "x.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT 'yes' AS x")
        connection.execute(f"CREATE MACRO {macro}")
    table = tacit.Table(tmp_path / "x.duckdb", "t")
    assert exact(table, SAYS, Counts("x")).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "setting", ["TimeZone = 'America/New_York'", "arrow_output_version = '1.5'"]
)
def test_settings_of_others_change_no_cell_of_duckdb(setting):
    """The first moment had no date west of Greenwich; decimals were of a type not to be read."""
    connection = ibis.duckdb.connect()
    connection.raw_sql("CREATE TABLE t (seen TIMESTAMPTZ, paid DECIMAL(9, 2))")
    connection.raw_sql("INSERT INTO t VALUES ('0001-01-01 00:00:00+00', 1.5)")
    connection.raw_sql(f"SET GLOBAL {setting}")
    seen = tacit.Categorical("seen", ["0001-01-01 00:00:00+00:00"])
    schema = tacit.Schema(seen, tacit.Categorical("paid", ["1.5"]), neighbours="add_remove")
    for column in ("seen", "paid"):
        assert exact(connection.table("t"), schema, Counts(column)).tolist() == [1, 0]


def test_what_does_not_fit_into_memory_is_put_where_nobody_looks(tmp_path, monkeypatch):
    """Raw cells lay beside the file, for all who could open that folder."""
    file, connect = tmp_path / "x.duckdb", duckdb.connect
    with connect(file) as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT repeat(md5(i::VARCHAR), 8) AS x FROM range(1000000) r(i)"
        )

    def scarce(*place, **options):
        connection = connect(*place, **options)
        connection.execute("SET memory_limit = '150MB'; SET threads = 1")
        return connection

    monkeypatch.setattr(duckdb, "connect", scarce)
    (tmp_path / "spilt").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "spilt"))
    engine._private.cache_clear()
    with open_source(tacit.Table(file, "t"), SAYS).snapshot() as snapshot:
        next(iter(snapshot.groups([["x"]])))
        assert {each.name for each in tmp_path.iterdir()} == {"x.duckdb", "spilt"}
        (folder,) = (tmp_path / "spilt").iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert list(folder.iterdir())
    engine._private.cache_clear()
    assert not list(folder.iterdir())


class TestSpark:
    pytestmark = spark_leaves_sockets

    @pytest.mark.parametrize("mode", ["CORRECTED", "EXCEPTION"])
    def test_a_cache_of_others_is_not_read(self, spark, tmp_path, mode):
        """It is of another version; and read as its owner set it, which may fail for one cell."""
        path = str(tmp_path / "days.parquet")
        setting = "spark.sql.parquet.datetimeRebaseModeInRead"
        pq.write_table(pa.table({"day": [dt.date(1550, 1, 1)] * 3}), path)
        spark.conf.set(setting, mode)
        spark.sql("DROP TABLE IF EXISTS days_here")
        spark.sql(f"CREATE TABLE days_here USING PARQUET LOCATION '{path}'")
        spark.sql("CACHE LAZY TABLE days_here")
        kept = spark.read.parquet(path).cache()
        if mode == "CORRECTED":
            assert kept.count() == 3
        pq.write_table(pa.table({"day": [dt.date(1550, 1, 1), dt.date(2004, 1, 1)]}), path)
        try:
            for name in (path, "days_here"):
                table = tacit.Table(spark, name)
                assert exact(table, OLD, Counts("day")).tolist() == [0, 1, 1]
        finally:
            kept.unpersist()
            spark.sql("UNCACHE TABLE days_here")
            spark.conf.unset(setting)

    def test_a_table_s_own_options_make_no_cell_fail(self, spark, tmp_path):
        path = str(tmp_path / "days.parquet")
        pq.write_table(pa.table({"day": [dt.date(1550, 1, 1)]}), path)
        spark.sql("DROP TABLE IF EXISTS strict_here")
        spark.sql(
            "CREATE TABLE strict_here (day DATE) USING PARQUET "
            f"OPTIONS (datetimeRebaseMode 'EXCEPTION') LOCATION '{path}'"
        )
        with pytest.raises(tacit.errors.SourceError, match="Nothing was charged"):
            tacit.Public(tacit.Table(spark, "strict_here"), OLD)

    def test_a_file_that_is_gone_is_not_passed_over(self, spark, tmp_path):
        """Counts of a lease would be of other rows than those before."""
        for name in ("a", "b"):
            pq.write_table(pa.table({"x": ["yes"]}), tmp_path / f"{name}.parquet")
        path = f"{tmp_path}"
        spark.sql("DROP TABLE IF EXISTS lossy_here")
        spark.sql(
            "CREATE TABLE lossy_here (x STRING) USING PARQUET "
            f"OPTIONS (ignoreMissingFiles 'true') LOCATION '{path}'"
        )
        with pytest.raises(tacit.errors.SourceError, match="Nothing was charged"):
            tacit.Public(tacit.Table(spark, "lossy_here"), SAYS)

    def test_settings_of_the_cluster_change_no_type(self, spark, tmp_path):
        path, cluster = tmp_path / "times.parquet", spark.sparkContext._jsc.sc().conf()
        moment = pa.array([0], pa.timestamp("us"))
        pq.write_table(pa.table({"seen": moment}), path)
        levels = tacit.Categorical("seen", ["1970-01-01 00:00:00", "1970-01-01 00:00:00+00:00"])
        schema = tacit.Schema(levels, neighbours="add_remove")
        setting = "spark.sql.parquet.inferTimestampNTZ.enabled"
        cluster.set(setting, "false")
        try:
            table = tacit.Table(spark, str(path))
            assert exact(table, schema, Counts("seen")).tolist() == [1, 0, 0]
        finally:
            cluster.remove(setting)

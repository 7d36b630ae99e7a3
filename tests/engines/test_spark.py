"""Spark: the same integers, and nothing that a cell can tell."""

import datetime as dt
import os
import random
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.queries import Counts
from tacit.sources.opening import open_source
from tests.conftest import exact
from tests.engines import cells

# Sockets to the JVM are left to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SMOKING = tacit.Schema(tacit.Categorical("smoker", ["no", "yes"]), neighbours="replace_one")


@pytest.mark.parametrize("seed", [None, 1])
def test_every_cell_gives_the_same_integers(spark, tmp_path, seed):
    rng = random.Random(seed)
    rows = cells.EVERY if seed is None else rng.choices(cells.EVERY, k=40)
    for part in range(2):  # two files, one of them without dictionaries
        pq.write_table(
            cells.table(rows[part::2]), tmp_path / f"{part}.parquet", use_dictionary=bool(part)
        )
    assert cells.statistics(tacit.Table(spark, str(tmp_path))) == cells.expected(rows)


def test_one_cell_changes_its_own_row_alone(spark, tmp_path):
    """What swapped cells add is what their row adds without company."""
    rng = random.Random(3)
    schema = tacit.Schema(*cells.COLUMNS, neighbours="add_remove")
    before = rng.sample(cells.EVERY, 20)
    after = [before[0] | {name: rng.choice(cells.CELLS[name]) for name in ("word", "whole", "day")}]
    found = {}
    for kind, rows in {"before": before, "after": [*after, *before[1:]]}.items():
        pq.write_table(cells.table(rows), tmp_path / f"{kind}.parquet")
        public = tacit.Public(tacit.Table(spark, str(tmp_path / f"{kind}.parquet")), schema)
        found[kind] = public.release(cells.QUERIES[0], tacit.Exact()).integers
    alone = [
        tacit.Public({k: [row[k]] for k in row}, schema)
        .release(cells.QUERIES[0], tacit.Exact())
        .integers
        for row in (after[0], before[0])
    ]
    np.testing.assert_array_equal(found["after"] - found["before"], alone[0] - alone[1])


def test_bytes_that_are_no_text_are_read(spark, tmp_path):
    texts = pa.array([b"yes", b"caf\xe9", b"no", b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"smoker": texts}), tmp_path / "x.parquet")
    table = tacit.Table(spark, str(tmp_path / "x.parquet"))
    assert exact(table, SMOKING, Counts("smoker")).tolist() == [1, 1, 2]


def test_a_collation_that_ignores_case_merges_no_levels(spark):
    spark.sql("DROP TABLE IF EXISTS folded")
    spark.sql("CREATE TABLE folded (smoker STRING COLLATE UTF8_LCASE) USING PARQUET")
    spark.sql("INSERT INTO folded VALUES ('yes'), ('YES'), ('no'), (NULL)")
    assert exact(tacit.Table(spark, "folded"), SMOKING, Counts("smoker")).tolist() == [1, 1, 2]


def test_what_could_fail_for_a_cell_is_refused_before_the_charge(spark, tmp_path):
    """A time in milliseconds overflowed in Spark's reader, and one cell ended the release."""
    seen = pa.array([0, 2**62], pa.int64())
    for unit in ("ms", "us"):
        pq.write_table(pa.table({"seen": seen.view(pa.timestamp(unit))}), tmp_path / f"{unit}.pq")
    time = tacit.Schema(tacit.Time("seen", "1970", "1971", every="year"), neighbours="add_remove")
    assert exact(tacit.Table(spark, str(tmp_path / "us.pq")), time, Counts("seen")).sum() == 2
    (tmp_path / "two").mkdir()
    for i, smoker in enumerate((["yes"], [1])):
        pq.write_table(pa.table({"smoker": smoker}), tmp_path / "two" / f"{i}.parquet")
    (tmp_path / "text.csv").write_text("smoker\nyes\n")
    spark.sql("DROP TABLE IF EXISTS parsed")
    spark.sql(f"CREATE TABLE parsed (smoker INT) USING CSV LOCATION '{tmp_path}/text.csv'")
    spark.sql("CREATE OR REPLACE VIEW seen_through AS SELECT CAST(smoker AS INT) FROM parsed")
    for name, schema, says in (
        (str(tmp_path / "ms.pq"), time, "in milliseconds"),
        (str(tmp_path / "two"), SMOKING, "do not agree|do not all have"),
        ("parsed", SMOKING, "stored as Parquet"),
        ("seen_through", SMOKING, "stored as Parquet"),
        ("nowhere", SMOKING, "Spark cannot read"),
        ("/nowhere", SMOKING, "Spark cannot read"),
    ):
        with pytest.raises(tacit.errors.SourceError, match=says) as error:
            tacit.Wall(tacit.Table(spark, name), schema, budget=tacit.Budget(1), ledger=":memory:")
        assert "Nothing was charged" in str(error.value)


def test_a_release_sees_the_files_that_were_there(spark, tmp_path):
    def write(name, size):
        pq.write_table(pa.table({"smoker": ["yes"] * size}), tmp_path / name)

    write("a.parquet", 3)
    source = open_source(tacit.Table(spark, str(tmp_path)), SMOKING)
    with source.snapshot() as snapshot:
        write("b.parquet", 5)
        assert sum(len(found) for (found,) in snapshot.batches(["smoker"])) == 3
        assert sum(int(group.rows.sum()) for group in snapshot.groups([["smoker"]])) == 3
    with source.snapshot() as snapshot:
        assert sum(len(found) for (found,) in snapshot.batches(["smoker"])) == 8


def test_files_that_are_gone_after_the_charge_are_one_sentence(spark, tmp_path):
    """The charge stands; the same question under its name goes on without another."""
    folder = tmp_path / "visits.parquet"
    folder.mkdir()
    rows = pa.table({"smoker": ["yes", "no"], "day": [dt.date(2004, 1, 1)] * 2})
    pq.write_table(rows, folder / "a.parquet")
    table = tacit.Table(spark, str(folder))
    terms = {"budget": tacit.Budget(1), "ledger": tmp_path / "visits.ledger"}
    wall = tacit.Wall(table, SMOKING, **terms)
    opened = wall._source.snapshot

    class Gone:
        def __enter__(self):
            self.inner = opened()
            snapshot = self.inner.__enter__()
            (folder / "a.parquet").unlink()
            return snapshot

        def __exit__(self, *error):
            return self.inner.__exit__(*error)

    object.__setattr__(wall._source, "snapshot", Gone)
    with pytest.raises(tacit.errors.SourceError) as error:
        wall.release(Counts("smoker"), tacit.Laplace(0.5), name="smoking")
    assert str(error.value).startswith("The source could not be read. The budget for this release")
    pq.write_table(rows, folder / "b.parquet")
    again = tacit.Wall(table, SMOKING, **terms)
    assert again.release(Counts("smoker"), tacit.Laplace(0.5), name="smoking").n == 2
    assert str(again.remaining.epsilon) == "0.5"


KILLED = """
import signal, sys, threading, time
import pyarrow as pa, pyarrow.parquet as pq
import tacit
from tests.spark import running

path, ledger = sys.argv[1:]
schema = tacit.Schema(tacit.Real("age", 0, 100), neighbours="replace_one")
pq.write_table(pa.table({"age": pa.array(range(20_000_000))}), path)
with running() as session:
    table = tacit.Table(session, path)
    wall = tacit.Wall(table, schema, budget=tacit.Budget(1), ledger=ledger)

    def kill():
        while len(tacit.Ledger(ledger).entries()) < 2:
            time.sleep(0.01)
        session.sparkContext._gateway.proc.send_signal(signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    try:
        wall.release(tacit.queries.Moments("age"), tacit.Laplace(1), name="age")
    except tacit.errors.SourceError as error:
        print("said:", error, error.__context__, flush=True)
    os._exit(0)
"""


@pytest.mark.usefixtures("spark")  # or skipped, with its reason
def test_after_a_kill_of_spark_the_charge_stands_and_a_rerun_is_free(tmp_path):
    path, ledger = tmp_path / "x.parquet", tmp_path / "x.ledger"
    done = subprocess.run(
        [sys.executable, "-c", "import os" + KILLED, str(path), str(ledger)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(["src", "."])},
    )
    (said,) = re.findall("said: (.*)", done.stdout) or [done.stderr]
    assert "The budget for this release is spent" in said
    assert said.endswith("None")  # nothing of the engine's own words
    assert tacit.Ledger(ledger).read().left.epsilon == 0
    schema = tacit.Schema(tacit.Real("age", 0, 100), neighbours="replace_one")
    wall = tacit.Wall(path, schema, budget=tacit.Budget(1), ledger=ledger)
    assert wall.release(tacit.queries.Moments("age"), tacit.Laplace(1), name="age").n == 20_000_000

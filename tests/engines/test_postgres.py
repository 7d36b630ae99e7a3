"""PostgreSQL: the same integers, one version, and nothing that a cell or an address can tell."""

import logging
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tacit
from tacit.queries import Counts, Moments
from tacit.sources.opening import open_source
from tests.conftest import exact
from tests.engines import cells

PASSWORD = "canary/p@ss:wörd"
SMOKING = tacit.Schema(tacit.Categorical("smoker", ["no", "yes"]), neighbours="replace_one")
SOME = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def visits(postgres, **options):
    postgres.run("DROP TABLE IF EXISTS visits", "CREATE TABLE visits (smoker text)")
    postgres.run("INSERT INTO visits VALUES ('yes'), ('no'), ('yes'), (NULL)")
    return tacit.Table(postgres.address(), "visits", **options)


def test_every_cell_gives_the_same_integers(postgres):
    postgres.fill("every", cells.table(cells.EVERY))
    assert cells.statistics(tacit.Table(postgres.address(), "every")) == cells.expected(cells.EVERY)


@SOME
@given(cells.ROWS)
def test_any_table_gives_the_same_integers(postgres, rows):
    postgres.fill("any_rows", cells.table(rows))
    assert cells.statistics(tacit.Table(postgres.address(), "any_rows")) == cells.expected(rows)


def test_one_cell_changes_its_own_row_alone(postgres):
    """What a swapped cell adds is what its row adds without company."""
    rng = random.Random(1)
    schema = tacit.Schema(*cells.COLUMNS, neighbours="add_remove")
    for name in cells.CELLS:
        before = rng.sample(cells.EVERY, 12)
        after = [*before[1:], before[0] | {name: rng.choice(cells.CELLS[name])}]
        found = []
        for rows in (before, after, before[:1], after[-1:]):
            postgres.fill("swapped", cells.table(rows))
            public = tacit.Public(tacit.Table(postgres.address(), "swapped"), schema)
            asked = [public.release(query, tacit.Exact()).integers for query in cells.QUERIES]
            found.append(np.concatenate(asked))
        np.testing.assert_array_equal(found[1] - found[0], found[3] - found[2])


def test_types_that_arrow_does_not_have_are_read_like_their_cells(postgres):
    """Infinities of time, numerics of any size, padded texts, ids and enumerations."""
    postgres.run(
        "DROP TABLE IF EXISTS odd",
        "DROP TYPE IF EXISTS mood",
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE TABLE odd (n numeric, d date, t timestamp, z timestamptz, c char(4), u uuid, "
        "m mood, b bytea, v varchar(9), j json)",
        "INSERT INTO odd VALUES ('NaN', 'infinity', 'infinity', '-infinity', 'a', "
        "'00000000-0000-0000-0000-000000000001', 'sad', 'a', 'A', '1'), "
        "('1.50', '2004-12-31', '2004-12-31 23:30', '2005-01-01 00:30+01', 'a   ', "
        "'00000000-0000-0000-0000-000000000002', 'glad', '\\xff', 'a', NULL), "
        "('1e300', '0044-03-15 BC', '294276-12-31', '0001-01-01', ' a', NULL, 'sad', '', '', NULL)",
    )
    table = tacit.Table(postgres.address(), "public.odd")
    for spec, counts in (
        (tacit.Categorical("n", ["1.5"]), [1, 2]),
        (tacit.Time("d", "2004", "2005", every="year"), [1, 0, 2]),
        (tacit.Time("t", "2004", "2005", every="year"), [1, 0, 2]),
        (tacit.Time("z", "2004", "2005", every="year"), [1, 0, 2]),
        (tacit.Categorical("c", ["a"]), [3, 0]),
        (tacit.Categorical("u", ["00000000-0000-0000-0000-000000000001"]), [1, 2]),
        (tacit.Categorical("m", ["glad", "sad"]), [1, 2, 0]),
        (tacit.Categorical("b", ["a"]), [1, 2]),
        (tacit.Categorical("v", ["a", "A"]), [1, 1, 1]),
    ):
        schema = tacit.Schema(spec, neighbours="add_remove")
        assert exact(table, schema, Counts(spec.name)).tolist() == counts, spec.name
    real = tacit.Schema(tacit.Real("n", 0, 2), neighbours="add_remove")
    assert exact(table, real, Moments("n", degree=1)).tolist() == [1.0, 0.5]
    with pytest.raises(tacit.errors.SourceError, match="'j' has type json"):
        tacit.Public(table, tacit.Schema(tacit.Categorical("j", ["1"]), neighbours="add_remove"))


def test_a_collation_that_ignores_case_merges_neither_levels_nor_units(postgres):
    postgres.run(
        "DROP TABLE IF EXISTS folded",
        "DROP COLLATION IF EXISTS nocase",
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', "
        "deterministic = false)",
        "CREATE TABLE folded (x text COLLATE nocase, who text COLLATE nocase)",
        "INSERT INTO folded VALUES ('a', 'p'), ('A', 'P'), ('A', 'P')",
    )
    table = tacit.Table(postgres.address(), "folded")
    levels = tacit.Schema(tacit.Categorical("x", ["a", "A"]), neighbours="add_remove")
    assert exact(table, levels, Counts("x")).tolist() == [1, 2, 0]
    units = tacit.Schema(
        tacit.Categorical("x", ["a", "A"]),
        unit="who",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    assert tacit.Public(table, units).n_units == 2


def test_a_release_and_a_lease_see_one_version(postgres):
    source = open_source(visits(postgres), SMOKING)
    with source.snapshot() as snapshot:
        before = sum(len(cells_) for (cells_,) in snapshot.batches(["smoker"]))
        postgres.run("INSERT INTO visits SELECT 'yes' FROM generate_series(1, 1000)")
        assert sum(len(cells_) for (cells_,) in snapshot.batches(["smoker"])) == before == 4
        assert sum(int(group.rows.sum()) for group in snapshot.groups([["smoker"]])) == 4
    with source.snapshot() as snapshot:
        assert sum(int(group.rows.sum()) for group in snapshot.groups([["smoker"]])) == 1004


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("CREATE VIEW target AS SELECT smoker::int AS smoker FROM visits", "is a view"),
        ("CREATE TABLE other (smoker text)", "has no table 'target'"),
        ("CREATE TABLE target (age int)", "no column 'smoker'"),
        ("CREATE TABLE target (smoker int[])", "has type _int4"),
        ("CREATE TABLE target (smoker money)", "has type money"),
        ("CREATE DOMAIN word AS text; CREATE TABLE target (smoker word)", "has type public.word"),
    ],
)
def test_what_could_fail_for_a_cell_is_refused_before_the_charge(postgres, made, says):
    visits(postgres)
    postgres.run(
        "DROP VIEW IF EXISTS target" if "VIEW" in made else "DROP TABLE IF EXISTS target",
        "DROP TABLE IF EXISTS other",
        *made.split("; "),
    )
    try:
        with pytest.raises(tacit.errors.SourceError, match=says):
            tacit.Wall(
                tacit.Table(postgres.address(), "target"),
                SMOKING,
                budget=tacit.Budget(1),
                ledger=":memory:",
            )
    finally:
        kind = "VIEW" if "VIEW" in made else "TABLE"
        postgres.run(f"DROP {kind} IF EXISTS target", "DROP DOMAIN IF EXISTS word")


def test_what_changes_after_the_wall_was_made_is_refused_before_the_charge(postgres):
    table = visits(postgres)
    wall = tacit.Wall(table, SMOKING, budget=tacit.Budget(1), ledger=":memory:")
    for statements, says in (
        (["ALTER TABLE visits ALTER smoker TYPE varchar(3)"], None),  # text as before
        (["ALTER TABLE visits RENAME smoker TO smokes"], "no column 'smoker'"),
        (["ALTER TABLE visits RENAME smokes TO smoker"], None),
        (["DROP TABLE visits"], "has no table"),
        (["CREATE TABLE visits (smoker int)"], "not those it had"),
        (["DROP TABLE visits", "CREATE VIEW visits AS SELECT 'yes' AS smoker"], "is a view"),
    ):
        postgres.run(*statements)
        left = wall.remaining
        if says is None:
            wall.release(Counts("smoker"), tacit.Laplace(0.1))
            continue
        with pytest.raises(tacit.errors.SourceError, match=says):
            wall.release(Counts("smoker"), tacit.Laplace(0.1))
        assert wall.remaining == left
    postgres.run("DROP VIEW visits")


def test_rights_and_policies_are_looked_at_before_the_charge(postgres, monkeypatch):
    analyst(postgres)
    visits(postgres)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    table = tacit.Table(f"postgresql://analyst@127.0.0.1:{postgres.port}/postgres", "visits")
    with pytest.raises(tacit.errors.SourceError, match=r"grant SELECT.*Nothing was charged"):
        tacit.Public(table, SMOKING)
    postgres.run("GRANT SELECT ON visits TO analyst")
    assert exact(table, SMOKING, Counts("smoker")).tolist() == [1, 2, 1]
    postgres.run(
        "ALTER TABLE visits ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY certain ON visits USING (smoker::bool)",
    )
    with pytest.raises(tacit.errors.SourceError, match="without policies for rows"):
        tacit.Public(table, SMOKING)


def test_a_database_whose_texts_would_be_converted_is_refused(postgres):
    postgres.run(
        "DROP DATABASE IF EXISTS latin",
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    )
    postgres.run("CREATE TABLE visits (smoker text)", database="latin")
    with pytest.raises(tacit.errors.SourceError, match="UTF8, got LATIN1"):
        tacit.Public(tacit.Table(postgres.address("latin"), "visits"), SMOKING)


@pytest.mark.parametrize("query", [Counts("smoker"), Moments("smoker")])
def test_a_server_that_is_gone_after_the_charge_is_one_sentence(postgres, tmp_path, query):
    """The charge stands; the same question under its name goes on without another."""
    yes = tacit.Schema(tacit.Integer("smoker", 0, 1), neighbours="replace_one")
    visits(postgres)
    ledger = tmp_path / "visits.ledger"
    table = tacit.Table(postgres.address(), "visits")
    wall = tacit.Wall(table, yes, budget=tacit.Budget(1), ledger=ledger)
    opened = wall._source.snapshot

    def killed():
        with opened() as snapshot:
            postgres.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in%'"
            )
            yield snapshot

    object.__setattr__(wall._source, "snapshot", lambda: _context(killed))
    with pytest.raises(tacit.errors.SourceError) as error:
        wall.release(query, tacit.Laplace(0.5), name="smoking")
    assert str(error.value).startswith("The source could not be read. The budget for this release")
    assert str(wall.remaining.epsilon) == "0.5"
    again = tacit.Wall(table, yes, budget=tacit.Budget(1), ledger=ledger)
    assert again.release(query, tacit.Laplace(0.5), name="smoking").n == 4
    assert str(again.remaining.epsilon) == "0.5"


def _context(generator):
    from contextlib import contextmanager

    return contextmanager(generator)()


def analyst(postgres):
    postgres.run(
        "DO $$ BEGIN CREATE ROLE analyst LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"ALTER ROLE analyst PASSWORD '{PASSWORD}'",
    )


def test_a_password_is_nowhere(postgres, tmp_path, monkeypatch, caplog, capfd):
    """Not in what is shown, logged, stored or raised; wherever it came from."""
    caplog.set_level(logging.DEBUG)
    analyst(postgres)
    visits(postgres)
    postgres.run("GRANT SELECT ON visits TO analyst")
    monkeypatch.setenv("VISITS_PASSWORD", PASSWORD)
    address = f"postgresql://analyst:${{VISITS_PASSWORD}}@127.0.0.1:{postgres.port}/postgres"
    table = tacit.Table(address, "visits", version="2026-11")
    wall = tacit.Wall(table, SMOKING, budget=tacit.Budget(1, 1e-6), ledger=tmp_path / "a.ledger")
    release = wall.release(Counts("smoker"), tacit.Laplace(0.5), name="smoking")
    shown = [repr(table), str(table), repr(wall), repr(wall._source), repr(release)]
    shown += [release.to_json(), release.certificate.to_json(), wall._repr_html_()]
    shown += [str(tacit.Ledger(tmp_path / "a.ledger").entries())]
    assert "'version': '2026-11'" in shown[-1]
    for wrong in (
        lambda: monkeypatch.setenv("VISITS_PASSWORD", PASSWORD + "x"),
        lambda: monkeypatch.delenv("VISITS_PASSWORD"),
    ):
        wrong()
        with pytest.raises(tacit.errors.SourceError, match="Nothing was charged") as error:
            wall.release(Counts("smoker"), tacit.Laplace(0.1))
        shown += [str(error.value), repr(error.value.__cause__), str(vars(error.value))]
    with pytest.raises(tacit.errors.SourceError) as error:
        tacit.Table(f"postgresql://analyst:{PASSWORD}@127.0.0.1/postgres", "visits")
    shown += [str(error.value)]
    for odd in ("password=canary", "oauth_client_secret=canary"):
        with pytest.raises(tacit.errors.SourceError) as error:
            tacit.Table(f"postgresql://host/base?{odd}", "visits")
        shown += [str(error.value)]
    shown += [caplog.text, *capfd.readouterr()]
    secrets = [PASSWORD, "canary", "w%C3%B6rd"]
    assert not [text for text in shown for secret in secrets if secret in text]
    for file in tmp_path.iterdir():
        assert not [secret for secret in secrets if secret.encode() in file.read_bytes()]
    assert "analyst" not in "".join(shown[:4])


def test_a_study_names_a_table(postgres, tmp_path):
    from tacit.datasets import STUDY
    from tacit.study.file import Study

    text = STUDY.replace(
        'source = "incidents.csv"', f'source = "{postgres.address()}"\ntable = "visits"'
    )
    (tmp_path / "study.toml").write_text(text)
    study = Study.load(tmp_path / "study.toml")
    assert study.source == tacit.Table(postgres.address(), "visits")

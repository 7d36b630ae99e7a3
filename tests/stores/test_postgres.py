"""What holds of a ledger in PostgreSQL beside what tests/wall/test_ledger.py asks of each store."""

import json
import multiprocessing as mp
import pickle
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.datasets import write_demo
from tacit.spec.errors import ReplacedError
from tacit.wall.statistics.counts import CountsAnswer
from tests.conftest import SMOKERS, smoking, without_note
from tests.custodian.serving import serving, write_smokers
from tests.postgres import LEDGERS

pg = pytest.importorskip("tacit.stores.postgres", exc_type=tacit.errors.LedgerError)

QUERY = tacit.queries.Counts("smoker")


def make_wall(address, epsilon=1):
    return tacit.Wall(SMOKERS, smoking(), budget=tacit.Budget(epsilon, 1e-6), ledger=address)


def kinds(address):
    return [entry["kind"] for entry in tacit.Ledger(address).entries()]


@pytest.fixture
def ledger(postgres):
    return postgres.ledger()


def name_of(address):
    return address.partition("#")[2]


def run(postgres, address, statements):
    """Statements of the server's owner, behind a ledger's back."""
    given = (f"SET search_path = {name_of(address)}", *statements.split(";"))
    return postgres.run(*given, database="ledgers")


# The address


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://host/db",
        "postgresql://host/db#",
        "postgresql://host/db#Visits",
        "postgresql://host/db#a-b",
        "postgresql://host/db#a;DROP",
        "postgresql://host/db#" + "a" * 52,
        "postgresql://host/d b#visits",
        "postgresql://host:port/db#visits?x",
        "postgresql://host/db?nonsense=1#visits",
        "postgres://host/db#visits",
        "mysql://host/db#visits",
    ],
)
def test_other_addresses_are_refused(address):
    with pytest.raises(tacit.errors.LedgerError, match=r"Expected ledger=.*Nothing was charged"):
        tacit.Ledger(address)


@pytest.mark.parametrize(
    "address", ["postgresql://me:hunter2@host/db#v", "postgresql://host/db?password=hunter2#v"]
)
def test_a_password_in_the_address_is_refused_and_not_repeated(address):
    with pytest.raises(tacit.errors.LedgerError, match=r"no password.*~/\.pgpass") as caught:
        tacit.Ledger(address)
    assert "hunter2" not in str(caught.value)


def test_no_secret_and_no_host_is_shown(postgres, ledger, monkeypatch):
    wall = make_wall(ledger)
    release = wall.release(QUERY, tacit.Laplace(0.1), name="x")
    shown = [repr(wall), str(wall._ledger.store), release.to_json(), repr(vars(wall._ledger))]
    shown.append(json.dumps(tacit.Ledger(ledger).entries()))
    for address, password in (
        (ledger, "wrong"),
        (ledger.replace("/ledgers", "/none"), LEDGERS),
        (ledger.replace(str(postgres.port), "1"), LEDGERS),
    ):
        monkeypatch.setenv("PGPASSWORD", password)
        with pytest.raises(tacit.errors.LedgerError, match="check its address, user") as caught:
            make_wall(address)
        assert "Nothing was charged" in str(caught.value)
        assert caught.value.__context__ is None
        shown.append(str(caught.value))
    for text in shown:
        assert LEDGERS not in text
        assert "127.0.0.1" not in text
        assert str(postgres.port) not in text
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(wall._ledger.store)


def test_a_service_file_may_say_where_and_a_password_file_by_which_right(
    postgres, ledger, tmp_path, monkeypatch
):
    services, passwords = tmp_path / "services", tmp_path / "passwords"
    services.write_text(
        f"[hospital]\nhost=127.0.0.1\nport={postgres.port}\nuser=tacit\ndbname=ledgers\n"
    )
    passwords.write_text(f"127.0.0.1:{postgres.port}:*:tacit:{LEDGERS}\n")
    passwords.chmod(0o600)
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(tacit.errors.LedgerError, match="cannot be reached"):
        make_wall(ledger)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    make_wall(f"postgresql:///?service=hospital#{name_of(ledger)}").release(
        QUERY, tacit.Laplace("0.4")
    )
    assert kinds(ledger) == ["created", "charge"]


# Changed behind its back


@pytest.mark.parametrize(
    "statements",
    [
        "UPDATE entries SET body = replace(body, '\"0.4\"', '\"0.1\"')",
        "DELETE FROM entries WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 3; UPDATE head SET seq = 2",
        "DELETE FROM entries",
        "DROP TABLE entries",
        "DROP TABLE releases",
        "INSERT INTO entries VALUES (9, '{}', 'x')",
        "UPDATE releases SET body = replace(body, 'integers', 'integerz')",
        "DELETE FROM releases",
        "COMMENT ON TABLE head IS 'tacit 0'",
        "ALTER TABLE entries SET UNLOGGED",
        "CREATE RULE r AS ON INSERT TO entries DO INSTEAD NOTHING",
        "ALTER TABLE entries ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE more () INHERITS (entries)",
        "CREATE TRIGGER t BEFORE UPDATE ON entries FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ],
)
def test_tampering_is_refused(postgres, ledger, statements):
    make_wall(ledger).release(QUERY, tacit.Laplace(0.4), name="a")
    run(postgres, ledger, statements)
    with pytest.raises(tacit.errors.LedgerError):
        tacit.Ledger(ledger).verify()
    with pytest.raises(tacit.errors.LedgerError):
        make_wall(ledger).release(QUERY, tacit.Laplace(0.4), name="a")


def test_an_open_wall_notices_a_rolled_back_ledger(postgres, ledger):
    wall, tables = make_wall(ledger), ("entries", "releases", "head")
    run(postgres, ledger, ";".join(f"CREATE TABLE old_{t} AS TABLE {t}" for t in tables))
    mark = wall.release(QUERY, tacit.Laplace(0.4)).certificate.ledger
    back = (f"DELETE FROM {t}; INSERT INTO {t} TABLE old_{t}" for t in tables)
    run(postgres, ledger, ";".join(back))
    with pytest.raises(tacit.errors.LedgerError, match="cut or rolled back"):
        wall.release(QUERY, tacit.Laplace(0.4))
    tacit.Ledger(ledger).verify()  # a chain alone cannot see it
    with pytest.raises(tacit.errors.LedgerError, match="cut, rolled back"):
        tacit.Ledger(ledger).verify(mark)  # a later head can


# Alone


def test_who_comes_second_waits_and_counts_what_the_first_has_charged(ledger, monkeypatch):
    first, second = make_wall(ledger), make_wall(ledger)
    said, insert = [], tacit.wall.ledger._insert
    inside, go_on = threading.Event(), threading.Event()

    def slow(*given):
        row = insert(*given)
        if threading.current_thread() is holder:
            inside.set()
            go_on.wait(30)
        return row

    monkeypatch.setattr(tacit.wall.ledger, "_insert", slow)

    def spend():
        try:
            second.release(QUERY, tacit.Laplace(0.6))
        except tacit.OverBudgetError as error:
            said.append(error)

    holder = threading.Thread(target=first.release, args=(QUERY, tacit.Laplace(0.6)))
    holder.start()
    assert inside.wait(30)
    waiter = threading.Thread(target=spend)
    waiter.start()
    waiter.join(0.5)
    assert waiter.is_alive()  # it has not decided on what it saw before
    assert kinds(ledger) == ["created"]  # who reads does not wait
    go_on.set()
    holder.join(30)
    waiter.join(30)
    assert len(said) == 1
    assert kinds(ledger) == ["created", "charge"]


def test_a_lock_that_is_held_too_long_is_refused(postgres, ledger, monkeypatch):
    wall = make_wall(ledger)
    monkeypatch.setattr(pg, "_WRITE", pg._WRITE.replace("'30s'", "'50ms'"))
    monkeypatch.setattr(CountsAnswer, "evaluate", pytest.fail)
    with (
        wall._ledger.store.session("", write=True),
        pytest.raises(tacit.errors.LedgerError, match=r"locked.*no budget was spent"),
    ):
        make_wall(ledger).release(QUERY, tacit.Laplace(0.1))
    assert kinds(ledger) == ["created"]


def test_ledgers_of_one_database_are_apart(ledger):
    other = f"{ledger}_staff"
    wall, staff = make_wall(ledger), make_wall(other)
    with wall._ledger.store.session("", write=True):
        staff.release(QUERY, tacit.Laplace(0.4))
    assert (str(wall.remaining.epsilon), str(staff.remaining.epsilon)) == ("1", "0.6")
    assert not tacit.Ledger(f"{ledger}_none").store.exists()


def _spend_five(wall):
    for _ in range(5):
        wall.release(QUERY, tacit.Laplace("0.01"))


def test_a_fork_leaves_its_parents_connection_alone(ledger):
    wall = make_wall(ledger)
    children = [mp.get_context("fork").Process(target=_spend_five, args=(wall,)) for _ in range(3)]
    for child in children:
        child.start()
    _spend_five(wall)
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0] * 3
    assert wall.remaining.epsilon == tacit.Budget("0.8").epsilon


# Durable


@pytest.mark.parametrize("waits", [True, False])
def test_a_charge_outlives_a_crash_of_the_server(postgres, ledger, monkeypatch, waits):
    """Whatever the database says of commits. The broken twin does not wait, and loses it."""
    postgres.run("ALTER DATABASE ledgers SET synchronous_commit = off")
    postgres.run("ALTER SYSTEM SET wal_writer_delay = '10s'", "SELECT pg_reload_conf()")
    wall = make_wall(ledger)
    if not waits:
        monkeypatch.setattr(pg, "_WRITE", pg._WRITE.replace("commit = on", "commit = off"))
    time.sleep(0.5)  # until the writer of the log has heard of it, and written what there was
    mark = wall.release(QUERY, tacit.Laplace("0.1")).certificate.ledger
    postgres.stop("immediate")
    postgres.start()
    postgres.run("ALTER SYSTEM RESET wal_writer_delay", "SELECT pg_reload_conf()")
    if waits:
        tacit.Ledger(ledger).verify(mark)
        wall.release(QUERY, tacit.Laplace("0.1"))
        assert kinds(ledger) == ["created", "charge", "charge"]
    else:
        assert kinds(ledger) == ["created"]
        with pytest.raises(tacit.errors.LedgerError, match="cut or rolled back"):
            wall.release(QUERY, tacit.Laplace("0.1"))


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_lose_what_it_confirms_is_refused(postgres, ledger, setting):
    wall = make_wall(ledger)
    postgres.stop("fast")
    postgres.start("-c", f"{setting}=off")
    try:
        with pytest.raises(tacit.errors.LedgerError, match=r"may lose.*set fsync"):
            wall.release(QUERY, tacit.Laplace("0.1"))
    finally:
        postgres.stop("fast")
        postgres.start()
    wall.release(QUERY, tacit.Laplace("0.1"))
    assert kinds(ledger) == ["created", "charge"]


def _end_connections(postgres):
    ours = "FROM pg_stat_activity WHERE datname = 'ledgers'"
    postgres.run(f"SELECT pg_terminate_backend(pid, 5000) {ours}")


def test_a_connection_that_was_dropped_while_idle_is_made_again(postgres, ledger):
    wall = make_wall(ledger)
    _end_connections(postgres)
    wall.release(QUERY, tacit.Laplace("0.1"))
    assert kinds(ledger) == ["created", "charge"]


@pytest.mark.parametrize("written", [False, True])
def test_a_connection_that_is_lost_at_the_commit_reads_nothing(
    postgres, ledger, monkeypatch, written
):
    """Nobody knows whether it was written: it is not taken as paid, and not given back."""
    wall, commit = make_wall(ledger), pg._Statements.commit

    def lost(self):
        if written:
            commit(self)
        _end_connections(postgres)
        if written:
            self._connection.execute(b"SELECT 1")
        commit(self)

    def lost_after(self):
        try:
            lost(self)
        except pg.psycopg.Error:
            commit(self)

    with monkeypatch.context() as patch:
        patch.setattr(pg._Statements, "commit", lost_after)
        patch.setattr(CountsAnswer, "evaluate", pytest.fail)
        with pytest.raises(tacit.errors.LedgerError, match="Whether this was written is not known"):
            wall.release(QUERY, tacit.Laplace(0.6), name="x")
    release = wall.release(QUERY, tacit.Laplace(0.6), name="x")
    assert kinds(ledger) == ["created", "charge", *["takeover"] * written, "release"]
    assert without_note(make_wall(ledger).release(QUERY, tacit.Laplace(0.6), name="x")) == release


def test_an_answer_that_cannot_be_stored_is_in_no_error(postgres, ledger):
    wall = make_wall(ledger)
    run(postgres, ledger, "ALTER TABLE releases ADD CONSTRAINT c CHECK (body = 'x')")
    with pytest.raises(tacit.errors.LedgerError, match=r"not stored.*budget is spent") as caught:
        wall.release(QUERY, tacit.Laplace(0.1), name="x")
    error = caught.value
    while error is not None:
        assert "integers" not in str(error)
        assert not isinstance(error, pg.psycopg.Error)
        error = error.__context__
    run(postgres, ledger, "ALTER TABLE releases DROP CONSTRAINT c")
    wall.release(QUERY, tacit.Laplace(0.1), name="x")
    assert kinds(ledger) == ["created", "charge", "takeover", "release"]


# The answers of leases

PLAN = tacit.queries.Plan(
    tacit.queries.Steps(40, tacit.Gaussian(noise_multiplier=90.0)), delta=1e-7
)


def question(at):
    state = np.eye(2) * at, np.array([0])
    kernel = tacit.queries.Kernel("table.scores")
    return tacit.queries.BoundedSum(kernel, "smoker", size=2, clip=1, geometry="box", state=state)


def asked(lease, steps):
    return [lease.release(question(1.0 + step)).value.tolist() for step in steps]


def test_a_state_stands_for_answers_and_what_is_gone_is_not_given_anew(postgres, ledger):
    lease = make_wall(ledger).prepay(PLAN, name="loop")
    answers = asked(lease, range(4))
    lease.keep_state({"step": 4}, since=1)
    again = make_wall(ledger).prepay(PLAN, name="loop")
    assert asked(again, range(1)) == answers[:1]
    with pytest.raises(ReplacedError, match="state after step 4"):
        asked(again, [1])
    assert asked(again, [4]) == asked(lease, [4])
    rows = "SELECT step FROM answers WHERE facts IS NULL ORDER BY step"
    assert run(postgres, ledger, rows) == [(1,), (2,), (3,)]
    run(postgres, ledger, "DROP TABLE answers; DROP TABLE facts")
    for _ in range(2):  # the second time there are tables again
        with pytest.raises(tacit.errors.LedgerError, match=r"are gone from .*another name"):
            make_wall(ledger).prepay(PLAN, name="loop")


def _walk(address, out):
    lease = make_wall(address).prepay(PLAN, name="loop")
    for step in range(40):
        answer = asked(lease, [step])
        with open(out, "ab", buffering=0) as file:
            file.write(f"{step} {answer}\n".encode())


def test_walks_that_are_killed_are_answered_once_for_each_step(ledger, tmp_path):
    """Two at once, each killed some times at random: they hand out the same answers."""
    out, rng, context = tmp_path / "answers", random.Random(9), mp.get_context("fork")
    out.touch()
    for last in (False, False, False, True):
        walks = [context.Process(target=_walk, args=(ledger, out)) for _ in range(2)]
        for walk in walks:
            walk.start()
        for walk in walks:
            if not last:
                time.sleep(rng.uniform(0.1, 0.4))
                walk.kill()
            walk.join(60)
    assert [walk.exitcode for walk in walks] == [0, 0]
    given = [line.split(" ", 1) for line in out.read_text().splitlines()]
    assert {int(step) for step, _ in given} == set(range(40))
    assert len(set(map(tuple, given))) == 40
    assert kinds(ledger).count("charge") == 1


# Rights


def test_who_may_only_read_sees_the_ledger_and_spends_nothing(postgres, ledger):
    make_wall(ledger)
    postgres.run(f"CREATE ROLE reader LOGIN PASSWORD '{LEDGERS}'")
    run(postgres, ledger, f"GRANT USAGE ON SCHEMA {name_of(ledger)} TO reader")
    run(postgres, ledger, f"GRANT SELECT ON ALL TABLES IN SCHEMA {name_of(ledger)} TO reader")
    reading = ledger.replace("//tacit@", "//reader@")
    assert kinds(reading) == ["created"]
    with pytest.raises(tacit.errors.LedgerError, match=r"not writable for this user.*No data were"):
        make_wall(reading).release(QUERY, tacit.Laplace(0.1))


def test_a_schema_that_an_administrator_made_will_do(postgres, ledger):
    postgres.run(f"CREATE ROLE owner LOGIN PASSWORD '{LEDGERS}'")
    address = ledger.replace("//tacit@", "//owner@")
    with pytest.raises(tacit.errors.LedgerError, match="not writable for this user"):
        make_wall(address)
    postgres.run(f"CREATE SCHEMA {name_of(ledger)} AUTHORIZATION owner", database="ledgers")
    make_wall(address).release(QUERY, tacit.Laplace(0.1))
    assert kinds(address) == ["created", "charge"]


def test_a_study_names_its_ledger_by_its_address(ledger, run, tmp_path, monkeypatch):
    write_demo(tmp_path)
    study = tmp_path / "study.toml"
    text = study.read_text()
    assert text.count('"incidents.ledger"') == 1
    study.write_text(text.replace('"incidents.ledger"', f'"{ledger}"'))
    harm = (study, "--analysis", "harm")
    assert "would leave" in run("plan", *harm)
    assert not tacit.Ledger(ledger).store.exists()
    assert "nothing was spent" in run("run", *harm, "--dry-run")
    assert not tacit.Ledger(ledger).store.exists()
    first, again = run("run", *harm), run("run", *harm)
    assert "a stored answer of" not in first
    assert "a stored answer of" in again
    assert kinds(ledger).count("charge") == 1
    certificate = tmp_path / "results" / "study" / "harm" / "certificate.json"
    assert "of the certificate is in it" in run(
        "ledger", "verify", ledger, "--against", certificate
    )
    run("ledger", "raise", ledger, "--epsilon", "9", "--reason", "approved")
    shown = run("ledger", "show", ledger)
    assert "raised" in shown
    assert "127.0.0.1" not in shown
    assert "not signed" in run("ledger", "export", ledger, "--output", tmp_path / "export.jsonl")
    assert "The chain of" in run("ledger", "verify", tmp_path / "export.jsonl")
    assert list(tmp_path.glob("*postgres*")) == []  # no file is named by an address


def test_two_servers_share_a_ledger_and_its_password_is_the_workers_alone(
    ledger, tmp_path, monkeypatch
):
    served = []
    for name in ("first", "second"):
        path = write_smokers(tmp_path / name, 'environment = ["PGPASSWORD"]', epsilon=1)
        path.write_text(path.read_text().replace('"smokers.ledger"', f'"{ledger}"'))
        served.append(path)
    with serving(served[0]) as one, serving(served[1]) as two:
        walls = [server.wall(name) for server, name in ((one, "ana"), (two, "bo"))]
        walls[0].release(QUERY, tacit.Laplace("0.6"), name="x")
        with pytest.raises(tacit.OverBudgetError):
            walls[1].release(QUERY, tacit.Laplace("0.6"), name="x")
        walls[1].release(QUERY, tacit.Laplace("0.4"), name="x")
        assert one.ledger().verify().left.epsilon == 0
        for server in (one, two):
            (web,), (worker,) = server.children("web"), server.children("worker")
            assert LEDGERS.encode() not in Path(f"/proc/{web}/environ").read_bytes()
            assert LEDGERS.encode() in Path(f"/proc/{worker}/environ").read_bytes()
        monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(RuntimeError) as told, serving(served[0]):
        pass
    assert "check its address, user and password" in str(told.value)
    assert "127.0.0.1" not in str(told.value)


def test_who_holds_the_lock_and_is_silent_is_put_off(ledger, monkeypatch):
    monkeypatch.setattr(pg, "_WRITE", pg._WRITE.replace("'60s'", "'300ms'"))
    silent, wall = tacit.Ledger(ledger), make_wall(ledger)
    silent.read()

    def meanwhile():
        with silent._transaction("") as session:
            silent._advance(session)
            silent._append(session, {"kind": "raised", "epsilon": "9", "delta": "0", "reason": "x"})
            wall.release(QUERY, tacit.Laplace("0.4"))  # waits, and then goes on

    with pytest.raises(tacit.errors.LedgerError, match="did not wait any longer"):
        meanwhile()
    assert kinds(ledger) == ["created", "charge"]

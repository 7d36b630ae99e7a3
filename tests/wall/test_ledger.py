"""The ledger's promises, one by one."""

import builtins
import io
import json
import multiprocessing as mp
import os
import random
import re
import resource
import sqlite3
import stat
import threading
import time
import traceback
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.spec.certificate import LedgerMark
from tacit.wall import wall as gate
from tacit.wall.statistics.counts import CountsAnswer
from tacit.wall.statistics.statistic import Statistic
from tests.conftest import SMOKERS, smoking, without_note

QUERY = tacit.queries.Counts(tacit.queries.Is("smoker", "yes"))


def make_wall(path, budget=None, schema=None) -> tacit.Wall:
    return tacit.Wall(
        SMOKERS, schema or smoking(), budget=budget or tacit.Budget(1, 1e-6), ledger=path
    )


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "visits.ledger"


def kinds(path) -> list[str]:
    return [entry["kind"] for entry in tacit.Ledger(path).entries()]


# 1 and 2: write-ahead, no refunds


@pytest.mark.parametrize("step", ["evaluate", "sample", "publish"])
def test_a_failure_after_the_charge_still_costs(place, monkeypatch, step):
    wall = make_wall(place)

    def fail(*_):
        raise RuntimeError("the canary 4711")

    monkeypatch.setattr(gate if step == "publish" else CountsAnswer, step, fail)
    with pytest.raises((tacit.errors.SourceError, RuntimeError)) as caught:
        wall.release(QUERY, tacit.Laplace(0.4))
    if step != "publish":
        assert "canary" not in str(caught.value)
        assert "spent" in str(caught.value)
        assert caught.value.__context__ is None
    assert kinds(place) == ["created", "charge"]
    assert str(wall.remaining.epsilon) == "0.6"


def test_nothing_is_read_unless_the_charge_is_on_disk(path, monkeypatch):
    wall = make_wall(path)
    seen = []
    monkeypatch.setattr(CountsAnswer, "evaluate", lambda *_: seen.append(kinds(path)))
    with pytest.raises(tacit.errors.SourceError):
        wall.release(QUERY, tacit.Laplace(0.4))
    assert seen == [["created", "charge"]]
    seen.clear()
    for how in (tacit.Laplace(0.7), tacit.Exact()):
        with pytest.raises(tacit.TacitError):
            wall.release(QUERY, how)
    path.chmod(0o400)
    monkeypatch.setattr(wall._ledger, "charge", _raise)
    with pytest.raises(OSError, match="disk full"):
        wall.release(QUERY, tacit.Laplace(0.1))
    assert seen == []


def _raise(*_, **__):
    raise OSError("disk full")


def test_a_charge_without_an_answer_is_answered_under_its_name(place, monkeypatch):
    wall = make_wall(place)
    with monkeypatch.context() as patch:
        patch.setattr(CountsAnswer, "sample", _raise)
        for name in ("smoking", None):
            with pytest.raises(tacit.errors.SourceError, match="spent"):
                wall.release(QUERY, tacit.Laplace(0.25), name=name)
        with pytest.raises(tacit.errors.SourceError, match="spent"):
            make_wall(place).release(QUERY, tacit.Laplace(0.25), name="smoking")
    wall.release(QUERY, tacit.Laplace(0.5))  # nothing is left: what follows is paid for
    first = wall.release(QUERY, tacit.Laplace(0.25), name="smoking")
    again = make_wall(place).release(QUERY, tacit.Laplace(0.25), name="smoking")
    assert without_note(again) == first
    takeovers = ["takeover", "charge", "takeover", "release"]
    assert kinds(place) == ["created", "charge", "charge", *takeovers]
    assert tacit.Ledger(place).entries()[1]["hash"] == first.certificate.ledger.head
    assert wall.remaining.epsilon == 0
    tacit.Ledger(place).verify(first.certificate.ledger)


def test_a_stored_answer_says_so_and_from_when(place):
    first = make_wall(place).release(QUERY, tacit.Laplace(0.25), name="smoking")
    grown = tacit.Wall(
        {"smoker": ["yes"] * 5000}, smoking(), budget=tacit.Budget(1, 1e-6), ledger=place
    )
    again = grown.release(QUERY, tacit.Laplace(0.25), name="smoking")
    (note,) = set(again.certificate.assumptions) - set(first.certificate.assumptions)
    time = tacit.Ledger(place).entries()[-1]["time"]
    assert note.startswith(f"answered again from the ledger: first released {time}; data that")
    assert without_note(again) == first
    assert note in str(again.certificate)
    assert tacit.Release.from_json(again.to_json()) == again
    third = grown.release(QUERY, tacit.Laplace(0.25), name="smoking")
    assert third == again  # one note, however often


def local_values(error):
    """All local variables that a traceback, or one that it hides, would show."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if Path(frame.f_code.co_filename).is_relative_to(Path(tacit.__file__).parent):
                yield from frame.f_locals.values()
        error = error.__context__


@contextmanager
def full_disk():
    """Not a byte more can be written to any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_answer_that_cannot_be_stored_is_not_shown_and_can_be_had(path, monkeypatch):
    wall, query = make_wall(path), tacit.queries.Counts("smoker")
    exact = tacit.Public(SMOKERS, smoking()).release(query, tacit.Exact()).integers
    attempts, publish, keep = [], gate.publish, wall._ledger.keep

    def recorded(*given):
        attempts.append(publish(*given))
        return attempts[-1]

    def failing(*given):
        with full_disk():
            return keep(*given)

    monkeypatch.setattr(gate, "publish", recorded)
    monkeypatch.setattr(wall._ledger, "keep", failing)
    with pytest.raises(
        tacit.errors.LedgerError, match=r"disk.*not stored.*budget is spent"
    ) as caught:
        wall.release(query, tacit.Laplace(0.9), name="x")
    assert "without another charge" in str(caught.value)
    assert "Nothing was read" not in str(caught.value)
    (lost,) = attempts
    values = list(local_values(caught.value))
    assert any(value is wall for given in values if isinstance(given, tuple) for value in given)
    for value in values:
        assert not isinstance(value, (Statistic, tacit.Release))
        assert not (isinstance(value, str) and lost.to_json() in value)
        if isinstance(value, np.ndarray):
            assert not np.array_equal(value, exact)
            assert not np.array_equal(value, lost.integers)
    monkeypatch.undo()
    again = wall.release(query, tacit.Laplace(0.9), name="x")
    assert without_note(wall.release(query, tacit.Laplace(0.9), name="x")) == again
    assert kinds(path) == ["created", "charge", "takeover", "release"]


def test_a_pin_that_the_ledger_lacks_is_not_taken_as_agreed(place):
    """What a ledger does not say was not agreed to when it was made."""
    pins = {"unit": None, "neighbours": "replace_one"}
    tacit.Ledger(place).open(pins, tacit.Budget(1))
    tacit.Ledger(place).open(pins, tacit.Budget(1))
    with pytest.raises(tacit.errors.LedgerError, match="created with allow = None"):
        tacit.Ledger(place).open({**pins, "allow": ["statistics"]}, tacit.Budget(1))
    with pytest.raises(tacit.errors.LedgerError, match="created with unit"):
        tacit.Ledger(place).open({"neighbours": "replace_one", "unit": "who"}, tacit.Budget(1))


def test_counting_units_shows_nothing_when_it_is_interrupted(path):
    class Interrupting:
        def __len__(self):
            return 9

        def __getitem__(self, place):
            if place > 2:
                raise KeyboardInterrupt
            return "canary"

    schema = tacit.Schema(
        tacit.Categorical("smoker", ["no", "yes"]),
        unit="who",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    data = {"smoker": ["yes"] * 9, "who": Interrupting()}
    wall = tacit.Wall(data, schema, budget=tacit.Budget(1), ledger=path)
    with pytest.raises(KeyboardInterrupt) as caught:
        _ = wall.n_units
    assert not any("canary" in repr(value) for value in local_values(caught.value))


def test_an_interrupted_release_shows_nothing(path, monkeypatch):
    wall = make_wall(path)

    def interrupted(self, statistic, noise, words):
        raise KeyboardInterrupt

    monkeypatch.setattr(CountsAnswer, "sample", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        wall.release(QUERY, tacit.Laplace(0.1))
    assert not any(isinstance(value, Statistic) for value in local_values(caught.value))
    assert "4711" not in repr(Statistic(np.array([4711]), 4711))


def test_a_charge_that_cannot_be_written_reads_and_costs_nothing(path, monkeypatch):
    wall = make_wall(path)
    monkeypatch.setattr(CountsAnswer, "evaluate", _raise)
    with (
        full_disk(),
        pytest.raises(tacit.errors.LedgerError, match=r"No data were read and no budget"),
    ):
        wall.release(QUERY, tacit.Laplace(0.1), name="x")
    assert kinds(path) == ["created"]


def test_what_is_stored_is_what_is_handed_out(place, monkeypatch):
    """A second process takes over and answers while the first is still busy."""
    wall, others = make_wall(place), []
    publish = gate.publish

    def slow(*given):
        monkeypatch.setattr(gate, "publish", publish)
        others.append(make_wall(place).release(QUERY, tacit.Laplace("0.001"), name="x"))
        return publish(*given)

    monkeypatch.setattr(gate, "publish", slow)
    late = wall.release(QUERY, tacit.Laplace("0.001"), name="x")
    assert late.integers.tolist() == others[0].integers.tolist()
    assert kinds(place) == ["created", "charge", "takeover", "release"]


def test_only_who_claimed_a_name_may_store(place):
    ledger = make_wall(place)._ledger
    with pytest.raises(tacit.errors.LedgerError, match="not claimed"):
        ledger.keep("x", "0" * 64, "{}")
    charge = ledger.charge(tacit.Budget("0.1"), {}, "x", "q", takeover=True)
    taken = tacit.Ledger(place).charge(tacit.Budget("0.1"), {}, "x", "q", takeover=True)
    other = ledger.charge(tacit.Budget("0.1"), {}, "y", "q", takeover=True)
    assert charge.mark == taken.mark
    for token in (other.token, "", "0" * 64):
        with pytest.raises(tacit.errors.LedgerError, match="not claimed"):
            ledger.keep("x", token, "{}")
    assert ledger.keep("x", charge.token, "first") is None
    assert ledger.keep("x", taken.token, "second").body == "first"
    assert tacit.Ledger(place).charge(tacit.Budget(9), {}, "x", "q").stored.body == "first"


def _ask_for_one_name(path: str, start, answers) -> None:
    wall = make_wall(path)
    start.wait(60)
    release = wall.release(tacit.queries.Counts("smoker"), tacit.Laplace("0.001"), name="x")
    answers.put((release.integers.tolist(), release.certificate.ledger.entry))


def test_eight_processes_that_ask_under_one_name_get_one_answer(place):
    make_wall(place)
    context = fresh_processes()
    start, answers = context.Barrier(8), context.Queue()
    asking = [
        context.Process(target=_ask_for_one_name, args=(str(place), start, answers))
        for _ in range(8)
    ]
    for process in asking:
        process.start()
    given = [answers.get(timeout=60) for _ in asking]
    for process in asking:
        process.join(60)
    assert given == [given[0]] * 8
    assert given[0][1] == 2
    assert sorted(set(kinds(place)) - {"takeover"}) == ["charge", "created", "release"]
    assert kinds(place).count("charge") == kinds(place).count("release") == 1
    tacit.Ledger(place).verify()


def test_a_used_name_answers_one_question_only(place):
    wall = make_wall(place)
    wall.release(QUERY, tacit.Laplace(0.25), name="smoking")
    for query, how in (
        (QUERY, tacit.Laplace(0.2)),
        (tacit.queries.Counts("smoker"), tacit.Laplace(0.25)),
        (QUERY, tacit.Gaussian(0.25, 1e-7)),
    ):
        with pytest.raises(
            tacit.errors.LedgerError, match=r"different question.*no budget was spent"
        ):
            wall.release(query, how, name="smoking")
    assert kinds(place).count("charge") == 1
    for bad in (" ", "\ud800", 3):
        with pytest.raises(tacit.errors.QueryError):
            wall.release(QUERY, tacit.Laplace(0.1), name=bad)


# 3: fail closed


def test_a_locked_ledger_refuses(path, monkeypatch):
    wall = make_wall(path)
    monkeypatch.setattr("tacit.wall.store._WAIT_SECONDS", 0.05)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(tacit.errors.LedgerError, match="locked"):
            wall.release(QUERY, tacit.Laplace(0.1))


@pytest.mark.parametrize(
    "content", [b"", b"not a ledger at all", b"SQLite format 3\x00" + b"x" * 200]
)
def test_a_file_that_is_no_ledger_is_refused_and_kept(path, content):
    path.write_bytes(content)
    with pytest.raises(tacit.errors.LedgerError, match="not a ledger"):
        make_wall(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = replace(body, '\"0.4\"', '\"0.1\"')",
        "DELETE FROM entries WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 1",
        "DELETE FROM entries",
        "DROP TABLE entries",
        "INSERT INTO entries VALUES (9, '{}', 'x')",
        "PRAGMA user_version = 7",
        "UPDATE releases SET body = replace(body, 'integers', 'integerz')",
        "DELETE FROM releases",
        "CREATE TRIGGER t BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
    ],
)
def test_tampering_is_refused(path, statement):
    wall = make_wall(path)
    wall.release(QUERY, tacit.Laplace(0.4), name="a")
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute(statement)
    with pytest.raises(tacit.errors.LedgerError):
        tacit.Ledger(path).verify()
    with pytest.raises(tacit.errors.LedgerError):
        make_wall(path).release(QUERY, tacit.Laplace(0.4), name="a")


def test_a_damaged_page_does_not_hide_charges(path):
    """Every single flipped bit of the file is refused, or changes nothing that was spent."""
    wall = make_wall(path, tacit.Budget(4))
    for _ in range(4):
        wall.release(QUERY, tacit.Laplace(1))
    whole = path.read_bytes()
    headers = [page + i for page in range(0, len(whole), 4096) for i in (*range(8), 100, 103, 104)]
    for where in [*headers, *range(0, len(whole), 97)]:
        for bit in (1, 4, 128):
            damaged = bytearray(whole)
            damaged[where] ^= bit
            path.write_bytes(damaged)
            try:
                left = make_wall(path, tacit.Budget(4)).remaining.epsilon
            except tacit.errors.LedgerError:
                continue
            assert left == 0, where


def test_an_open_wall_notices_a_rolled_back_ledger(path, tmp_path):
    wall = make_wall(path)
    before = path.read_bytes()
    mark = wall.release(QUERY, tacit.Laplace(0.4)).certificate.ledger
    for part in tmp_path.iterdir():
        part.unlink()
    path.write_bytes(before)
    with pytest.raises(tacit.errors.LedgerError, match="cut or rolled back"):
        wall.release(QUERY, tacit.Laplace(0.4))
    tacit.Ledger(path).verify()  # a chain alone cannot see it
    with pytest.raises(tacit.errors.LedgerError, match="cut, rolled back"):
        tacit.Ledger(path).verify(mark)  # a later head can


def test_a_ledger_with_two_hard_links_is_refused(path, tmp_path):
    """SQLite's journal belongs to a name: through another name a charge could be rolled back."""
    wall = make_wall(path)
    other = tmp_path / "other.ledger"
    os.link(path, other)
    ledger = tacit.Ledger(path)
    for ask in (
        lambda: wall.release(QUERY, tacit.Laplace(0.1)),
        lambda: wall.remaining,
        lambda: make_wall(path),
        lambda: make_wall(other),
        lambda: ledger.raise_budget(tacit.Budget(2, 1e-6), "more"),
        ledger.entries,
        ledger.verify,
    ):
        with pytest.raises(tacit.errors.LedgerError, match="2 hard links"):
            ask()
    other.unlink()
    wall.release(QUERY, tacit.Laplace(0.1))
    assert kinds(path) == ["created", "charge"]


def test_a_ledger_is_opened_by_its_real_path(path, tmp_path):
    (tmp_path / "a").mkdir()
    real = tmp_path / "a" / "real.ledger"
    path.symlink_to(real)
    wall = make_wall(path)  # creates the file that the link names
    assert real.is_file()
    assert path.is_symlink()
    path.unlink()  # what the link names later does not matter
    path.symlink_to(tmp_path / "b.ledger")
    wall.release(QUERY, tacit.Laplace(0.1))
    assert kinds(real) == ["created", "charge"]
    assert not (tmp_path / "b.ledger").exists()


def test_a_creator_that_died_before_it_removed_its_draft_does_no_harm(path, tmp_path):
    make_wall(path)
    (tmp_path / ".ledger-killed").mkdir()
    os.link(path, tmp_path / ".ledger-killed" / "draft")
    make_wall(path).release(QUERY, tacit.Laplace(0.1))
    assert path.stat().st_nlink == 1


def test_looking_at_the_file_never_opens_it(path, monkeypatch):
    """To close another descriptor of a SQLite file would drop its POSIX locks."""
    wall = make_wall(path)
    opened = []
    for module, name in ((os, "open"), (io, "open"), (builtins, "open")):
        real = getattr(module, name)
        monkeypatch.setattr(
            module,
            name,
            lambda file, *a, real=real, **k: (opened.append(file), real(file, *a, **k))[1],
        )
    wall.release(QUERY, tacit.Laplace(0.1))
    monkeypatch.undo()
    assert str(path) not in map(str, opened)


def test_two_histories_after_a_rollback_have_different_heads(path, monkeypatch):
    """The same charge in the same second, on a copy that was put back."""

    class Frozen(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr("tacit.wall.ledger.datetime", Frozen)
    make_wall(path)
    before = path.read_bytes()
    marks = []
    for _ in range(2):
        path.write_bytes(before)
        marks.append(make_wall(path).release(QUERY, tacit.Laplace(0.4)).certificate.ledger)
    assert marks[0].entry == marks[1].entry
    assert marks[0].head != marks[1].head
    tacit.Ledger(path).verify(marks[1])
    with pytest.raises(tacit.errors.LedgerError, match="rolled back"):
        tacit.Ledger(path).verify(marks[0])
    nonces = [entry["nonce"] for entry in tacit.Ledger(path).entries()]
    assert len({len(bytes.fromhex(nonce)) for nonce in nonces} | {16}) == 1


def test_an_unwritable_folder_is_said(tmp_path):
    with pytest.raises(tacit.errors.LedgerError, match="Cannot create"):
        make_wall(tmp_path / "nowhere" / "x.ledger")


# 4: atomic across processes and threads


def fresh_processes():
    """Each begins without a wall, as after a spawn, but the imports are done once for all."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["tacit", "pytest"])
    return context


def _spend(path: str, out: str) -> None:
    wall = make_wall(path, tacit.Budget(1, 1e-6))
    while True:
        try:
            release = wall.release(QUERY, tacit.Laplace("0.01"))
        except tacit.OverBudgetError:
            return
        mark = release.certificate.ledger
        with open(out, "ab", buffering=0) as file:
            file.write(f"{mark.entry} {mark.head}\n".encode())


def test_four_processes_racing_under_sigkill_never_exceed_the_cap(place, tmp_path):
    make_wall(place)
    out = tmp_path / "released"
    out.touch()
    context, rng = fresh_processes(), random.Random(5)

    def start():
        process = context.Process(target=_spend, args=(str(place), str(out)))
        process.start()
        return process

    racers = [start() for _ in range(4)]
    kills, deadline = 0, time.monotonic() + 120
    while any(p.is_alive() for p in racers) and time.monotonic() < deadline:
        time.sleep(0.002)
        # One of those at work is killed at every twelfth entry or so, whatever the machine's speed.
        if kills < 6 and len(kinds(place)) > 5 + 12 * kills:
            i = rng.randrange(4)
            racers[i].kill()
            racers[i].join()
            racers[i], kills = start(), kills + 1
    assert [p.exitcode for p in racers] == [0] * 4
    assert kills > 0
    chain = tacit.Ledger(place).verify()
    assert chain.spent.within(chain.adds_up.limits(chain.limit))
    assert chain.left.epsilon == 0  # they spent it all, exactly
    charges = {
        e["entry"]: e["hash"] for e in tacit.Ledger(place).entries() if e["kind"] == "charge"
    }
    assert len(charges) == 100
    lines = [line.split() for line in out.read_text().splitlines()]
    released = {int(entry): head for entry, head in lines}
    assert len(released) == len(lines)  # no charge paid for two releases
    assert released.items() <= charges.items()  # every release has its charge
    assert len(charges) - len(released) <= kills


def _ask_for_names(path: str, out: str) -> None:
    wall = make_wall(path)
    for at in range(40):
        name = f"name-{at}"
        release = wall.release(tacit.queries.Counts("smoker"), tacit.Laplace("0.001"), name=name)
        with open(out, "ab", buffering=0) as file:
            file.write(f"{name} {release.integers.tolist()}\n".encode())


def test_names_under_sigkill_have_one_charge_and_one_answer(place, tmp_path):
    make_wall(place)
    out = tmp_path / "released"
    out.touch()
    context, rng = fresh_processes(), random.Random(6)

    def start():
        process = context.Process(target=_ask_for_names, args=(str(place), str(out)))
        process.start()
        return process

    racers = [start() for _ in range(3)]
    kills, deadline = 0, time.monotonic() + 120
    while any(p.is_alive() for p in racers) and time.monotonic() < deadline:
        time.sleep(0.02)
        for i, process in enumerate(racers):
            if process.is_alive() and len(kinds(place)) > 3 and kills < 6 and rng.random() < 0.2:
                process.kill()
                process.join()
                racers[i], kills = start(), kills + 1
    assert [p.exitcode for p in racers] == [0] * 3
    assert kills > 0
    assert len(set(out.read_text().splitlines())) == 40  # each name has one answer
    assert kinds(place).count("charge") == kinds(place).count("release") == 40
    tacit.Ledger(place).verify()


def test_threads_share_one_wall(place):
    wall = make_wall(place, tacit.Budget(1))
    answers = []

    def spend():
        for _ in range(10):
            try:
                answers.append(wall.release(QUERY, tacit.Laplace("0.05")))
            except tacit.OverBudgetError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20
    assert wall.remaining.epsilon == 0


def test_processes_may_create_it_together(place):
    with fresh_processes().Pool(3) as pool:
        pool.map(make_wall_quietly, [str(place)] * 6)
    assert kinds(place) == ["created"]


def make_wall_quietly(path: str) -> None:
    make_wall(path)


# 5: facts, rounded up; 6: the head in each certificate; 7: pins, decimals, no statistics


def test_it_stores_facts(place):
    make_wall(place).release(QUERY, tacit.Gaussian(noise_multiplier=20, delta=1e-6), name="g")
    created, charge, kept = tacit.Ledger(place).entries()
    assert created["pins"]["neighbours"] == "replace_one"
    assert charge["event"]["noise"] == "discrete_gaussian"
    assert charge["event"]["norm"] == "L2"
    assert charge["event"]["query"] == QUERY.to_dict()
    assert float(charge["epsilon"]) >= tacit.accounting.gaussian_epsilon(
        charge["event"]["sensitivity"] / charge["event"]["scale"], 1e-6
    )
    assert kept["kind"] == "release"


def test_each_certificate_names_its_entry(place):
    wall = make_wall(place)
    marks = [wall.release(QUERY, tacit.Laplace(0.2)).certificate.ledger for _ in range(3)]
    entries = {e["entry"]: e["hash"] for e in tacit.Ledger(place).entries()}
    assert [entries[mark.entry] for mark in marks] == [mark.head for mark in marks]
    ledger = tacit.Ledger(place)
    for mark in marks:
        ledger.verify(mark)
    with pytest.raises(tacit.errors.LedgerError):
        ledger.verify(LedgerMark("other", 2, "0" * 64))


@pytest.mark.parametrize(
    ("budget", "schema", "says"),
    [
        (tacit.Budget(2, 1e-6), None, "epsilon 1, delta 0.000001, not epsilon 2"),
        (tacit.Budget(1, 1e-5), None, "budget"),
        (None, smoking("add_remove"), "neighbours = 'replace_one', not 'add_remove'"),
        (None, smoking(unit="who", max_rows_per_unit=2), "unit = None, not 'who'"),
    ],
)
def test_what_was_pinned_stays(place, budget, schema, says):
    make_wall(place)
    with pytest.raises(tacit.errors.LedgerError, match=says):
        make_wall(place, budget, schema)


def test_fifty_charges_of_two_hundredths_fit_in_one(place):
    wall = make_wall(place, tacit.Budget(1))
    for _ in range(50):
        wall._ledger.charge(tacit.Budget(0.02), {}, None, "q")
    with pytest.raises(tacit.OverBudgetError) as caught:
        wall.release(QUERY, tacit.Laplace("1e-9"))
    assert caught.value.remaining.startswith("epsilon 0")
    assert "No data were read" in str(caught.value)


def test_raising_the_budget_is_on_the_record(place):
    make_wall(place)
    ledger = tacit.Ledger(place)
    for budget, reason in (
        (tacit.Budget(1, 1e-6), "same"),
        (tacit.Budget(0.5, 1e-5), "less"),
        (tacit.Budget(2, 1e-6), " "),
    ):
        with pytest.raises(tacit.errors.LedgerError):
            ledger.raise_budget(budget, reason)
    ledger.raise_budget(tacit.Budget(2, 1e-6), "second wave, approved by the board")
    make_wall(place, tacit.Budget(2, 1e-6)).release(QUERY, tacit.Laplace(1.5))
    assert kinds(place) == ["created", "raised", "charge"]
    with pytest.raises(tacit.errors.LedgerError):
        make_wall(place)


def test_it_holds_no_statistic_and_is_private_to_its_owner(path, tmp_path):
    data = {"smoker": ["yes"] * 4711 + ["no"] * 1289}
    wall = tacit.Wall(data, smoking("add_remove"), budget=tacit.Budget(9), ledger=path)
    wall.release(tacit.queries.Counts("smoker"), tacit.Laplace(0.01))
    text = b"".join(part.read_bytes() for part in tmp_path.iterdir())
    text = re.sub(rb"[0-9a-f]{16,}", b"", text)  # hashes and nonces hold any four digits by chance
    for secret in (b"4711", b"1289", b"6000"):
        assert secret not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_memory_is_stamped_and_dies_with_its_process():
    wall = make_wall(":memory:")
    release = wall.release(QUERY, tacit.Laplace(0.4), name="x")
    assert without_note(wall.release(QUERY, tacit.Laplace(0.4), name="x")) == release
    assert any("memory" in text for text in release.certificate.assumptions)
    with pytest.raises(tacit.OverBudgetError):
        wall.release(QUERY, tacit.Laplace(0.7))
    here, there = mp.get_context("fork").Pipe()
    child = mp.get_context("fork").Process(target=_in_child, args=(wall, there))
    child.start()
    assert "fork" in here.recv()
    child.join()


def _in_child(wall, pipe) -> None:
    try:
        wall.release(QUERY, tacit.Laplace(0.1))
    except tacit.errors.LedgerError as error:
        pipe.send(str(error))


def test_a_fork_shares_the_budget_on_disk(place):
    wall = make_wall(place, tacit.Budget(1))
    child = mp.get_context("fork").Process(target=wall.release, args=(QUERY, tacit.Laplace(0.6)))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    with pytest.raises(tacit.OverBudgetError):
        wall.release(QUERY, tacit.Laplace(0.6))


def test_entries_are_plain(place):
    make_wall(place).release(QUERY, tacit.Laplace(0.4))
    entries = tacit.Ledger(place).entries()
    assert json.loads(json.dumps(entries)) == list(entries)

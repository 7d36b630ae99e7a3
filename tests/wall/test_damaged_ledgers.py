"""Whatever is in the file: a ledger is read, or refused with a LedgerError and nothing else."""

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

import tacit
from tacit.wall.chain import link
from tests.conftest import SMOKERS, smoking

DEEP = "[" * 100_000 + "]" * 100_000
HOSTILE = [
    *("null", "true", "7", "-1", "1e999", "NaN", "0.1", "9" * 4000, "9" * 5000, DEEP),
    *('""', '"x"', '"\\ud800"', '"\\u001b[31m"', '"NaN"', '"1e99999999999999999999"', '"-0.1"'),
    *("[]", "{}", "[1]", '{"x": 1}', '[["x"]]', '"2026-01-01T00:00:00+00:00"'),
]


@pytest.fixture
def path(tmp_path):
    """A ledger with an entry of each kind, and a stored release."""
    path = tmp_path / "visits.ledger"
    wall = tacit.Wall(SMOKERS, smoking(), budget=tacit.Budget(1, 1e-6), ledger=path)
    wall.release(tacit.queries.Counts("smoker"), tacit.Laplace("0.1"))
    wall._ledger.charge(tacit.Budget("0.1"), {"noise": "x"}, "x", "q", takeover=True)
    taken = wall._ledger.charge(tacit.Budget("0.1"), {"noise": "x"}, "x", "q", takeover=True)
    wall._ledger.keep("x", taken.token, "{}")
    wall._ledger.raise_budget(tacit.Budget(2, 1e-6), "more")
    kinds = [entry["kind"] for entry in wall._ledger.entries()]
    assert kinds == ["created", "charge", "charge", "takeover", "release", "raised"]
    return path


def outcome(path) -> str:
    try:
        tacit.Ledger(path).verify()
    except tacit.errors.LedgerError:
        return "refused"
    return "read"


def rewrite(path, bodies) -> None:
    """Entries with a chain that holds, and claims that are named by their new hashes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        old = [row[0] for row in connection.execute("SELECT hash FROM entries ORDER BY seq")]
        connection.execute("BEGIN")
        connection.execute("DELETE FROM entries")
        head, renamed = "", {}
        for seq, before in enumerate(old, 1):
            body = bodies[seq - 1]
            for was, now in renamed.items():
                body = body.replace(was, now) if isinstance(body, str) else body
            head = link(head, seq, body)
            renamed[before] = head
            connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (seq, body, head))
        connection.execute("UPDATE head SET seq = ?, hash = ?", (seq, head))
        connection.execute("COMMIT")


def bodies_of(path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT body FROM entries ORDER BY seq")]


def test_hostile_entries_in_a_chain_that_holds(path):
    whole, bodies = path.read_bytes(), bodies_of(path)
    rewrite(path, bodies)
    assert outcome(path) == "read"  # the chain is recomputed as it should be
    seen = []
    for at, body in enumerate(bodies):
        facts = json.loads(body)
        texts = [*HOSTILE, "", "{", '{"kind": "charge"}', body.encode(), b"\xff"]
        for key in facts:
            rest = {k: v for k, v in facts.items() if k != key}
            texts.append(json.dumps(rest))
            start = json.dumps(rest)[:-1]
            # Dropped or replaced; the seven of a kind that are tried vary with the key.
            chosen = random.Random(f"{at} {key}").sample(HOSTILE, 7)
            texts += [f'{start}, "{key}": {hostile}}}' for hostile in chosen]
        for text in texts:
            path.write_bytes(whole)
            rewrite(path, [*bodies[:at], text, *bodies[at + 1 :]])
            seen.append(outcome(path))
    assert len(seen) > 300
    assert seen.count("refused") > len(seen) / 2


@pytest.mark.parametrize("value", [None, 7, 2.5, b"x", b"\xff", "", "x" * 100_000])
@pytest.mark.parametrize("where", ["entries.body", "entries.hash", "head.hash", "releases.body"])
def test_values_of_a_wrong_type(path, where, value):
    table, column = where.split(".")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if value is None:
            connection.execute(f"DELETE FROM {table}")
        else:
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
    assert outcome(path) == "refused"
    with pytest.raises(tacit.errors.LedgerError):
        tacit.Ledger(path).charge(tacit.Budget("0.1"), {}, "x", "q")


def test_a_second_row_under_a_stored_name_is_refused(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO releases SELECT * FROM releases")
    assert outcome(path) == "refused"


def test_bytes_that_were_changed(path, tmp_path):
    whole, rng = path.read_bytes(), random.Random(11)
    used = [at for at, byte in enumerate(whole) if byte]
    for case in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.choice(used if case % 3 else range(110))
            size = rng.choice((1, 1, 4, 40))
            damaged[at : at + size] = rng.randbytes(len(damaged[at : at + size]))
        for part in tmp_path.iterdir():
            part.unlink()
        path.write_bytes(damaged[: rng.choice((len(whole), len(whole), at))])
        outcome(path)


def test_marks_that_no_ledger_can_hold(path):
    ledger = tacit.Ledger(path)
    mark = ledger.read().mark
    ledger.verify(mark)
    for entry in (0, -1, 10**30, "6", None, [], 2.0, True):
        with pytest.raises(tacit.errors.LedgerError, match="does not hold"):
            ledger.verify(replace(mark, entry=entry))
    for head in ("", None, [], 0):
        with pytest.raises(tacit.errors.LedgerError, match="does not hold"):
            ledger.verify(replace(mark, head=head))

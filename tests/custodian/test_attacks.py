"""What people with tokens tried against a server, each of which once worked."""

import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import numpy as np
import pytest

import tacit
from tacit.accounting.filters import GaussianFilter
from tacit.custodian.custody import Custody
from tacit.custodian.desk import Desk
from tacit.custodian.messages import BYTES, JSON, encoded
from tacit.spec.errors import FileError, PolicyError, QueryError, StoppedError
from tacit.spec.mechanisms import mechanism_to_dict
from tacit.spec.wire import from_bytes, from_json
from tests.custodian.serving import PEOPLE, serving, write_smokers
from tests.custodian.test_serving import COUNTS, mean_of, plan, raw

ADDRESS = "/api/v1/datasets/smokers/"
LAPLACE = tacit.Laplace(1)


def with_array(**facts):
    """A body with the facts of an array, and no bytes behind it."""
    text = json.dumps({"a": facts}).encode()
    return b"\x93tc1" + len(text).to_bytes(4, "little") + text


@pytest.mark.parametrize("dtype", ["8)f", "f8)", "(f", "8f8", "(2,)f8", "f8,", "int", "", "f888"])
def test_types_of_arrays_are_not_evaluated(dtype):
    with pytest.raises(FileError):
        from_bytes(with_array(array=dtype, shape=[0]))
    with pytest.raises(FileError):
        from_json(json.dumps({"a": {"array": "", "dtype": dtype, "shape": [0]}}))


def test_a_body_that_fails_stops_nothing(server):
    """Whatever is raised before anything is read is a refusal, also under a name that is paid."""
    wall = server.wall("bodies")
    token = wall._line._token
    for verb in ("release", "prepay", "step", "quote", "units"):
        status, said = raw(server, token, ADDRESS + verb, with_array(array="8)f", shape=[0]), BYTES)
        assert (status, json.loads(said)["error"]) == (400, "FileError")
    lease = wall.prepay(plan(), name="loop")
    lease.release(mean_of(1))
    facts = {"name": "loop", "step": 1, "query": {**mean_of(1).to_dict(), "columns": np.zeros(2)}}
    status, said = raw(server, token, ADDRESS + "step", encoded(facts, BYTES), BYTES)
    assert (status, json.loads(said)["error"]) == (400, "QueryError")
    assert lease.release(mean_of(1)).n == PEOPLE
    assert server.accounts.stopped("smokers") is None


def test_a_plan_that_is_long_to_price_stops_nothing(tmp_path):
    """Before anything is read, a limit that is passed is a refusal, by whichever verb."""
    with serving(write_smokers(tmp_path, "limits = { seconds = 8 }")) as server:
        wall = server.wall("ana")
        kinds = (
            tacit.queries.Steps(
                1, tacit.Gaussian(noise_multiplier=50.0 + i), tacit.subsampling.Poisson(0.01)
            )
            for i in range(2000)
        )
        long = tacit.queries.Plan(*kinds, delta=1e-6)
        for ask in (lambda: wall.ask("price", plan=long.to_dict()), lambda: wall.prepay(long)):
            with pytest.raises(QueryError, match="checked within 8 seconds"):
                ask()
        assert wall.release(COUNTS, LAPLACE).n == PEOPLE
        assert server.ledger().read().alone.epsilon == 1


def test_what_waited_while_a_data_set_was_stopped_is_not_answered(server):
    wall, said = server.wall("waits"), []

    def ask():
        try:
            said.append(wall.release(COUNTS, LAPLACE, name="waiting").n)
        except StoppedError as error:
            said.append(str(error))

    waits = threading.Thread(target=ask)
    (worker,) = server.children("worker")
    os.kill(worker, signal.SIGSTOP)  # busy, for as long as it takes
    try:
        waits.start()
        time.sleep(0.5)  # the question is past what is looked at when it arrives
        server.accounts.stop("smokers", "a fault of another")
    finally:
        os.kill(worker, signal.SIGCONT)
    waits.join()
    server.accounts.resume("smokers")
    assert "stopped until its custodian" in said[0]
    assert "waits/waiting" not in server.ledger().read().claims


def test_an_approval_is_good_for_one_charge(tmp_path):
    with serving(write_smokers(tmp_path, "policy = { largest_epsilon = 0.5 }")) as server:
        wall = server.wall("ana")
        officer = tacit.connect(server.url, server.accounts.add("officer", "custodian"))
        with pytest.raises(PolicyError) as told:
            wall.release(COUNTS, LAPLACE, name="large")
        facts = {"question": told.value.question, "cost": told.value.cost, "reason": "board"}
        officer.ask("approve", **facts)
        for _ in range(2):
            assert wall.release(COUNTS, LAPLACE, name="large").n == PEOPLE
        with pytest.raises(PolicyError, match="may approve"):
            wall.release(COUNTS, LAPLACE, name="again")
        assert server.ledger().read().alone.epsilon == 1


def test_entries_about_others_let_no_guess_be_checked(server):
    """A digest of an answer, or an entry's nonce beside its hash, tells who guesses right."""
    wall, other = server.wall("guessed"), server.wall("guesses")
    wall.release(COUNTS, LAPLACE, name="secret")
    wall.prepay(plan(), name="secret loop").release(mean_of(1))
    hidden = {"nonce", "sha256", "claim", "begun", "by", "reason"}
    mine = wall.ask("charges")["entries"]
    assert any(hidden & set(entry) for entry in mine if entry.get("name") == "guessed/secret")
    theirs = [e for e in other.ask("charges")["entries"] if e["kind"] != "created"]
    assert {"charge", "release", "opened"} <= {entry["kind"] for entry in theirs}
    for entry in theirs:
        assert not hidden & set(entry)
        assert not any(entry.get(key) for key in ("name", "question", "event"))
    costs = [entry["epsilon"] for entry in theirs if entry["kind"] == "charge"]
    assert "1" in costs


def test_what_is_free_does_not_tell_when_an_answer_was_ready(tmp_path):
    """It waits behind what is not, so it leaves in slots too."""
    with serving(write_smokers(tmp_path, "policy = { answer_every = 1 }")) as server:
        wall = server.wall("ana")
        for ask in (wall.describe, lambda: wall.ask("ledger"), lambda: wall.quote(COUNTS, LAPLACE)):
            ask()
            assert time.time() % 1 < 0.5
        # Who may not ask learns not even that it is there.
        stranger, long = server.accounts.add("stranger"), b" " * (2**20 + 1)
        for verb, body in (("describe", b"{}"), ("describe", long)):
            began = time.monotonic()
            answers = [
                raw(server, stranger, f"/api/v1/datasets/{name}/{verb}", body)
                for name in ("smokers", "nothing")
            ]
            assert time.monotonic() - began < 0.5
            assert answers[0][0] == answers[1][0]
            assert answers[0][1] == answers[1][1].replace(b"nothing", b"smokers")


def test_accounts_that_cannot_be_read_are_refused_without_words(server):
    token, path = server.token("shut"), server.accounts.path
    os.rename(path, path.with_suffix(".away"))
    try:
        for address, body in ((ADDRESS + "describe", b"{}"), ("/api/v1/datasets", None)):
            status, said = raw(server, token, address, body, JSON)
            assert status == 503
            assert b"sqlite" not in said
    finally:
        os.rename(path.with_suffix(".away"), path)
    assert raw(server, token, ADDRESS + "describe", b"{}", JSON)[0] == 200


def opened(server):
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=10)


@pytest.mark.parametrize("part", [b"a" * 2**16, b"a: b\r\n" * 2**14])
def test_headers_have_an_end(server, part):
    """Nobody knows yet who asks, and all of them are in the memory of the web process."""
    with opened(server) as connection:
        connection.sendall(b"GET /api/v1/health HTTP/1.1\r\nX: ")
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall(part * 1000)
    assert raw(server, "", "/api/v1/health", None)[0] == 200


def test_one_account_cannot_take_all_places(server):
    tokens = [server.token(name) for name in ("greedy", "modest")]
    head = (
        f"POST {ADDRESS}describe HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {tokens[0]}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    with ExitStack() as stack:
        for _ in range(260):
            stack.enter_context(opened(server)).sendall(head.encode())
        until = time.monotonic() + 20
        while raw(server, tokens[0], ADDRESS + "describe", b"{}")[0] != 429:
            assert time.monotonic() < until
        assert raw(server, tokens[1], ADDRESS + "describe", b"{}")[0] == 200


def test_no_time_is_told_beside_the_slots(tmp_path):
    """What was charged had waited for the answer before: entries tell the day, and no hash more."""
    with serving(write_smokers(tmp_path, "policy = { answer_every = 0.2 }")) as server:
        wall, other = server.wall("ana"), server.wall("bo")
        lease = wall.prepay(plan(), name="loop")
        wall.release(COUNTS, LAPLACE, name="it")
        lease.release(mean_of(1))
        again = wall.prepay(plan(), name="loop").release(mean_of(1))
        for release in (wall.release(COUNTS, LAPLACE, name="it"), again):
            (note,) = (t for t in release.certificate.assumptions if "answered again" in t)
            assert ":" not in note.partition("first released")[2]
        for asker in (wall, other):
            for entry in asker.ask("charges")["entries"]:
                assert entry["time"].endswith("T00:00:00+00:00")
                assert "nonce" not in entry


def test_a_filters_price_is_found_before_anything_is_read(tmp_path, monkeypatch):
    """It takes as long as the plan's own: past the limit, that is a refusal."""
    path = write_smokers(tmp_path)
    path.write_text(path.read_text().replace("delta =", 'composition = "gdp", delta ='))
    desk, happened, cost = Desk(Custody.load(path).datasets[0]), [], GaussianFilter.cost

    def priced(self, alone, event):
        happened.append("price")
        return cost(self, alone, event)

    monkeypatch.setattr(GaussianFilter, "cost", priced)
    asker = {"account": "ana", "role": "analyst", "allowance": {"epsilon": "9", "delta": "1e-3"}}
    facts = {"name": "n", "plan": plan().to_dict()}
    desk.answer("prepay", asker, facts, lambda: happened.append("reading"))
    assert happened[:2] == ["price", "reading"]


def test_what_is_quoted_in_a_refusal_is_short(server):
    token = server.token("long")
    for facts in ({"name": "\x01" * 100_000}, {"query": {"columns": ["x" * 100_000]}}):
        given = {"query": COUNTS.to_dict(), "mechanism": mechanism_to_dict(LAPLACE), "name": "n"}
        given["query"].update(facts.get("query", {}))
        given |= {"name": facts.get("name", "n")}
        status, said = raw(server, token, ADDRESS + "release", json.dumps(given).encode())
        assert status == 400
        assert len(said) < 10_000


def test_a_plan_has_so_many_kinds_of_steps(server):
    wall = server.wall("kinds")
    steps = tacit.queries.Steps(1, tacit.Laplace("0.000001"))
    with pytest.raises(QueryError, match="at most 10000 kinds"):
        wall.prepay(tacit.queries.Plan(*[steps] * 10_001, delta=1e-6))

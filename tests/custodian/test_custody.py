"""Who may ask, on which terms; what a fault does; and that nothing else is told."""

import json
import os
import re
import signal
import sqlite3
import stat
import time
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.custodian.accounts import Accounts
from tacit.custodian.custody import Custody, Limits, Policy
from tacit.custodian.desk import Desk
from tacit.custodian.messages import VERBS
from tacit.spec.mechanisms import mechanism_to_dict
from tests.custodian.serving import PEOPLE, serving, write_smokers
from tests.custodian.test_serving import COUNTS, raw

LAPLACE = tacit.Laplace(1)


def tacit_custody(*words):
    result = CliRunner().invoke(app, ["custody", *map(str, words)])
    if isinstance(result.exception, tacit.TacitError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("epsilon = 200", "epsilons = 200", "Unknown 'epsilons' in .datasets.smokers.budget.*mean"),
        ("[datasets.smokers]", "[datasets.Smokers]", "small letters"),
        ("port = 0", "ports = 0", "Unknown 'ports' in .server."),
        ("port = 0", "port = 70000", "from 0 to 65535"),
        ("port = 0", 'key = "k.pem"', "certificate and key"),
        ("ledger =", "ledgers =", "Unknown 'ledgers' in .datasets.smokers."),
        ('source = "smokers.csv"\n', "", "Expected 'source'"),
        ("ledger =", "policy = { allow = ['all'] }\nledger =", "statistics, steps, draws"),
        ("ledger =", "policy = { answer_every = -1 }\nledger =", "answer_every"),
        ("ledger =", "policy = { analysts = 'ana' }\nledger =", "a list of texts"),
        ("ledger =", "limits = { seconds = 0 }\nledger =", "seconds in"),
        ("ledger =", "limits = { second = 1 }\nledger =", "did you mean seconds"),
    ],
)
def test_a_slip_in_custody_toml_is_refused_in_a_sentence(tmp_path, old, new, says):
    path = write_smokers(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(tacit.TacitError, match=says):
        Custody.load(path)


def test_a_server_that_cannot_open_its_data_says_why_and_ends(tmp_path):
    path = write_smokers(tmp_path, 'environment = ["NO_SUCH_VARIABLE"]')
    with pytest.raises(RuntimeError, match="environment variable NO_SUCH_VARIABLE"), serving(path):
        pass
    path = write_smokers(tmp_path)
    (tmp_path / "smokers.csv").unlink()
    with pytest.raises(RuntimeError, match=r"smokers: .*smokers\.csv"), serving(path):
        pass


def test_the_page_shows_a_custody(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-custodian.md"
    text = re.search(r"```toml\n(\[server\].*?)```", page.read_text(), re.DOTALL)[1]
    (tmp_path / "custody.toml").write_text(text)
    custody = Custody.load(tmp_path / "custody.toml")
    (visits,) = custody.datasets
    assert visits.offer.policy.answer_every == 10
    for table in (Policy, Limits):
        for field in fields(table):
            assert f"`{field.name}`" in page.read_text(), field.name


def test_two_data_sets_never_share_a_ledger(tmp_path):
    path = write_smokers(tmp_path)
    text = path.read_text()
    path.write_text(text + text.partition("port = 0")[2].replace("datasets.smokers", "datasets.b"))
    with pytest.raises(tacit.errors.StudyError, match="a ledger of its own"):
        Custody.load(path)


def test_tokens_are_kept_hashed_and_end(tmp_path):
    accounts = Accounts(tmp_path / "web" / "accounts.sqlite")
    accounts.create()
    token = accounts.add("ana", days=2)
    assert accounts.account_of(token).name == "ana"
    secret = token.split("_", 2)[2].encode()
    assert secret not in accounts.path.read_bytes()
    assert len(token.split("_", 2)[2]) >= 43  # 256 bits
    for wrong in ("", "tacit", token[:-1], token + "x", token.replace("tacit_", "tacit_0", 1)):
        assert accounts.account_of(wrong) is None
    other = accounts.add("bo", role="custodian")
    swapped = "_".join([*token.split("_", 2)[:2], other.split("_", 2)[2]])
    assert accounts.account_of(swapped) is None
    newer = accounts.renew("ana")
    assert accounts.account_of(token) is None
    assert accounts.account_of(newer).name == "ana"
    accounts.revoke("ana")
    assert accounts.account_of(newer) is None
    with sqlite3.connect(accounts.path) as connection:
        connection.execute("UPDATE tokens SET expires = '2020-01-01T00:00:00+00:00'")
    connection.close()
    assert accounts.account_of(other) is None
    with pytest.raises(tacit.errors.StudyError, match="already"):
        accounts.add("ana")
    with pytest.raises(tacit.errors.StudyError, match="small letters"):
        accounts.add("ana/bo")
    with pytest.raises(tacit.errors.StudyError, match="no account 'cy'"):
        accounts.renew("cy")


def test_who_has_no_token_or_no_allowance_asks_nothing(server):
    good = server.accounts.add("nobody")
    for token in ("", "tacit_0_0", good + "0"):
        status, body = raw(server, token, "/api/v1/datasets/smokers/describe")
        assert (status, json.loads(body)["error"]) == (401, "PolicyError")
        with pytest.raises(tacit.errors.PolicyError, match="valid token"):
            tacit.connect(f"{server.url}/smokers", token or "-")
    with pytest.raises(tacit.errors.PolicyError, match="no data set 'smokers' for the account"):
        tacit.connect(f"{server.url}/smokers", good)
    with pytest.raises(tacit.errors.RemoteError, match="there are none for this account"):
        tacit.connect(server.url, good)
    with pytest.raises(tacit.errors.RemoteError, match="token that the custodian gave"):
        tacit.connect(server.url)
    with pytest.raises(tacit.errors.RemoteError, match="Expected https://"):
        tacit.connect("http://data.example/visits", good)
    wall = server.wall("analyst")
    facts = {"question": "0" * 64, "cost": {"epsilon": "1", "delta": "0"}, "reason": "mine"}
    with pytest.raises(tacit.errors.PolicyError, match="for the custodian alone"):
        wall.ask("approve", **facts)


def test_what_the_policy_does_not_allow_is_refused_before_the_charge(tmp_path):
    policy = (
        'policy = { allow = ["statistics", "steps"], largest_epsilon = 0.5, analysts = ["ana"] }'
    )
    path = write_smokers(tmp_path, policy)
    with serving(path) as server:
        wall = server.wall("ana")
        with pytest.raises(tacit.errors.PolicyError, match="no data set"):
            server.wall("bo", dataset="smokers")
        with pytest.raises(tacit.errors.QueryError, match="answers statistics, steps"):
            tacit.fit(
                tacit.BetaBernoulli("smoker", success="yes"),
                wall,
                tacit.OnePosteriorSample(0.1, truncation=0.05),
            )
        with pytest.raises(tacit.errors.PolicyError, match=r"at most epsilon 0\.5") as refused:
            wall.release(COUNTS, LAPLACE, name="large")
        assert str(refused.value).endswith("Nothing was read or spent.")
        assert [entry["kind"] for entry in server.ledger().entries()] == ["created"]
        # Decided on question and price, written into the ledger, and good for these alone.
        shown = tacit_custody("requests", path)
        assert "ana asks smokers for epsilon 1, delta 0 as 'large'" in shown
        words = ("--by", "officer", "--reason", "board of 3 May")
        assert "ana may ask smokers" in tacit_custody("approve", path, shown[:12], *words)
        assert "Nothing waits" in tacit_custody("requests", path)
        assert wall.release(COUNTS, LAPLACE, name="large").n == PEOPLE
        entries = server.ledger().entries()
        assert [entry["kind"] for entry in entries] == ["created", "approved", "charge", "release"]
        assert (entries[1]["by"], entries[1]["reason"]) == ("officer", "board of 3 May")
        for query, mechanism in (
            (COUNTS, tacit.Laplace(2)),
            (tacit.queries.Counts("smoker", by=()), tacit.Laplace("1.01")),
        ):
            with pytest.raises(tacit.errors.PolicyError, match="may approve"):
                wall.release(query, mechanism, name="larger")
        server.ledger().verify()


def test_programs_are_bounded_before_the_charge(tmp_path):
    jax = pytest.importorskip("jax")
    with serving(write_smokers(tmp_path, "limits = { work = 1000, numbers = 50 }")) as server:
        wall = server.wall("ana")

        def asked(function, size=1):
            query = tacit.queries.BoundedSum(function, "age", size=size, clip=1.0)
            return wall.release(query, tacit.Gaussian(1, 1e-6), name="program")

        def until(row, state):
            return jax.lax.while_loop(lambda x: x[0] < 90, lambda x: x + 1.0, row)

        def long(row, state):
            return jax.lax.fori_loop(0, 2000, lambda i, x: x * 0.5, row)

        with pytest.raises(tacit.errors.QueryError, match="loops whose length depends"):
            asked(until)
        with pytest.raises(tacit.errors.QueryError, match="at most 1000 numbers for a row"):
            asked(long)
        with pytest.raises(tacit.errors.QueryError, match="at most 50 numbers, got 60"):
            asked(lambda row, state: jax.numpy.ones(60) * row[0], 60)
        with pytest.raises(tacit.errors.QueryError, match="at most 50 numbers in a step"):
            wall.prepay(
                tacit.queries.Plan(
                    tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=1.0)), delta=1e-6
                )
            )
        assert [entry["kind"] for entry in server.ledger().entries()] == ["created"]
        assert asked(lambda row, state: row / 100).n == PEOPLE


def broken_parquet(folder: Path) -> Path:
    """A custody whose table has a whole header and no readable cell."""
    path = write_smokers(folder, epsilon=20)
    table = pd.DataFrame({"smoker": ["yes", "no"] * 2000, "age": np.arange(4000) % 80.0})
    table.to_parquet(folder / "smokers.parquet")
    path.write_text(path.read_text().replace("smokers.csv", "smokers.parquet"))
    whole = (folder / "smokers.parquet").read_bytes()
    (folder / "whole.parquet").write_bytes(whole)
    (folder / "smokers.parquet").write_bytes(whole[:4] + b"\xff" * 400 + whole[404:])
    return path


def test_a_fault_after_the_charge_stops_the_data_set_until_its_custodian_looked(tmp_path):
    path = broken_parquet(tmp_path)
    with serving(path) as server:
        wall, other = server.wall("ana"), server.wall("bo")
        with pytest.raises(tacit.errors.StoppedError, match="withheld") as told:
            wall.release(COUNTS, LAPLACE, name="it")
        assert "parquet" not in str(told.value)
        for asker in (wall, other):
            with pytest.raises(tacit.errors.StoppedError, match="stopped until its custodian"):
                asker.release(COUNTS, LAPLACE, name="it")
        assert other.describe()["name"] == "smokers"  # what is public is still told
        assert len([e for e in server.ledger().entries() if e["kind"] == "charge"]) == 1
        assert "smokers is stopped since" in tacit_custody("list", path)
        (tmp_path / "whole.parquet").rename(tmp_path / "smokers.parquet")
        tacit_custody("resume", path, "smokers")
        assert wall.release(COUNTS, LAPLACE, name="it").n == 4000
        assert len([e for e in server.ledger().entries() if e["kind"] == "charge"]) == 1
        with pytest.raises(tacit.errors.StudyError, match="not stopped"):
            tacit_custody("resume", path, "smokers")


def test_an_older_copy_of_the_ledger_is_noticed_by_certificates(tmp_path):
    path, ledger = write_smokers(tmp_path), tmp_path / "smokers.ledger"
    with serving(path) as server:
        token = server.token("ana")
        wall = tacit.connect(f"{server.url}/smokers", token)
        first = wall.release(COUNTS, LAPLACE, name="first").certificate
        (tmp_path / "backup").write_bytes(ledger.read_bytes())
        second = wall.release(COUNTS, LAPLACE, name="second").certificate
        for certificate in (first, second):
            wall.verify(certificate)
        ledger.write_bytes((tmp_path / "backup").read_bytes())  # under the server that runs
        with pytest.raises(tacit.errors.LedgerError, match="ledger cannot be used now"):
            wall.release(COUNTS, LAPLACE, name="third")
    with serving(path) as server:
        wall = tacit.connect(f"{server.url}/smokers", token)
        wall.verify(first)
        with pytest.raises(tacit.errors.LedgerError, match="does not hold entry"):
            wall.verify(second)
        with pytest.raises(tacit.errors.LedgerError, match="names no ledger"):
            wall.verify(wall.rehearsal(9).release(COUNTS, LAPLACE).certificate)


def test_a_worker_that_cannot_open_its_data_again_says_why(tmp_path):
    with serving(write_smokers(tmp_path)) as server:
        (tmp_path / "smokers.csv").rename(tmp_path / "away.csv")
        for worker in server.children("worker"):
            os.kill(worker, signal.SIGKILL)
        assert "smokers.csv" in server.process.stdout.readline()
        (tmp_path / "away.csv").rename(tmp_path / "smokers.csv")
        assert server.wall("ana").release(COUNTS, LAPLACE).n == PEOPLE


def test_a_desk_that_failed_answers_nothing_more(tmp_path):
    """Until its process has ended: others may be waiting for their turn in it."""
    (dataset,) = Custody.load(broken_parquet(tmp_path)).datasets
    desk = Desk(dataset)
    asker = {"account": "ana", "role": "analyst", "allowance": {"epsilon": "9", "delta": "0"}}
    facts = {"query": COUNTS.to_dict(), "mechanism": mechanism_to_dict(LAPLACE)}
    for name in ("it", "other"):
        with pytest.raises(tacit.errors.StoppedError, match="withheld"):
            desk.answer("release", asker, {"name": name, **facts})
    with pytest.raises(tacit.errors.StoppedError):
        desk.answer("units", asker, {})
    assert desk.answer("describe", asker, {})["stopped"]
    entries = tacit.Ledger(dataset.ledger).entries()
    assert [entry["name"] for entry in entries if entry["kind"] == "charge"] == ["ana/it"]


def test_a_question_that_takes_too_long_stops_the_data_set(tmp_path):
    """Only where that may be because of the records: what is checked before is refused."""
    jax = pytest.importorskip("jax")
    path = write_smokers(tmp_path, "limits = { seconds = 6, work = 100_000_000 }", epsilon=20)
    with (tmp_path / "smokers.csv").open("a") as table:
        table.write("yes,40\n" * 400_000)
    with serving(path) as server:
        wall = server.wall("ana")

        def slow(row, state, rounds):
            return jax.lax.fori_loop(0, rounds, lambda i, x: jax.numpy.sin(x), row)

        def query(rounds):
            return tacit.queries.BoundedSum(
                lambda row, state: slow(row, state, rounds), "age", size=1, clip=1.0
            )

        for ask in (wall.quote, wall.release):
            with pytest.raises(tacit.errors.QueryError, match="checked within 6 seconds"):
                ask(query(900_000), tacit.Gaussian(1, 1e-6))
        assert wall.release(COUNTS, LAPLACE).n == PEOPLE + 400_000
        wall.quote(query(40_000), tacit.Gaussian(1, 1e-6))
        with pytest.raises(tacit.errors.StoppedError, match="withheld"):
            wall.release(query(40_000), tacit.Gaussian(1, 1e-6), name="slow")
        with pytest.raises(tacit.errors.StoppedError):
            wall.release(COUNTS, LAPLACE)


def test_answers_leave_at_the_end_of_a_slot(tmp_path):
    with serving(write_smokers(tmp_path, "policy = { answer_every = 1 }")) as server:
        wall = server.wall("ana")
        wall.quote(COUNTS, LAPLACE)
        left = []
        for name in "ab":
            release = wall.release(COUNTS, LAPLACE, name=name)
            left.append(time.time())
            (note,) = (t for t in release.certificate.assumptions if "public slot" in t)
            slot = datetime.fromisoformat(note.rpartition(" ")[2]).timestamp()
            assert slot % 1 == 0
            assert 0 <= left[-1] - slot < 1
        with pytest.raises(tacit.errors.NameTakenError):
            wall.release(COUNTS, tacit.Laplace(0.5), name="a")
        assert time.time() % 1 < 0.5  # a refusal waits too


def test_nothing_is_told_that_is_not_public(tmp_path, monkeypatch):
    """Files, environments, the audit log and answers: neither tokens nor paths nor variables."""
    monkeypatch.setenv("DATA_PASSWORD", "hunter2hunter2")
    path = write_smokers(tmp_path, 'environment = ["DATA_PASSWORD"]')
    with serving(path) as server:
        token = server.token("ana")
        wall = tacit.connect(server.url, token)
        wall.release(COUNTS, LAPLACE, name="mine")
        (worker,), (web,) = server.children("worker"), server.children("web")
        assert b"hunter2" in Path(f"/proc/{worker}/environ").read_bytes()
        assert b"hunter2" not in Path(f"/proc/{web}/environ").read_bytes()
        opened = {os.readlink(each) for each in Path(f"/proc/{web}/fd").iterdir()}
        assert not any("smokers.csv" in each or ".ledger" in each for each in opened)
        for process in (worker, web):
            assert b"smokers.csv" not in Path(f"/proc/{process}/cmdline").read_bytes()
        folder = tmp_path / "state" / "web"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for each in folder.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
            if each.is_file():
                text = each.read_bytes()
                assert token.encode() not in text
                assert token.split("_", 2)[2].encode() not in text
        audit = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
        assert [(line["verb"], line["name"]) for line in audit][-1] == ("release", "mine")
        assert {line["account"] for line in audit} == {"ana"}
        assert set(audit[-1]) == {"time", "account", "dataset", "verb", "name", "outcome"}
        (tmp_path / "smokers.csv").unlink()
        with pytest.raises(tacit.errors.SourceError) as told:
            wall.release(COUNTS, LAPLACE, name="other")
        assert str(told.value).endswith("No budget was spent.")
        assert "smokers.csv" not in str(told.value)
        os.rename(tmp_path / "smokers.ledger", tmp_path / "elsewhere")
        with pytest.raises(tacit.errors.LedgerError) as told:
            wall.release(COUNTS, LAPLACE, name="third")
        assert str(tmp_path) not in str(told.value)


def test_others_see_what_is_spent_and_not_what_was_asked(server):
    wall, other = server.wall("seen"), server.wall("watcher")
    release = wall.release(COUNTS, LAPLACE, name="secret study")
    mine = [e for e in wall.ask("charges")["entries"] if e.get("name") == "seen/secret study"]
    assert [entry["kind"] for entry in mine] == ["charge", "release"]
    told = json.dumps(other.ask("charges"))
    assert "secret study" not in told
    assert mine[0]["question"] not in told
    assert other.ask("stored", name="secret study")["release"] is None
    assert other.ask("stored", name="seen/secret study")["release"] is None
    stored = wall.ask("stored", name="secret study")["release"]
    assert tacit.Release.from_dict(stored).integers.tolist() == release.integers.tolist()
    assert "secret study" not in other.ask("ledger")["claims"]
    assert "secret study" in wall.ask("ledger")["claims"]
    token = server.accounts.add("officer", role="custodian")
    officer = tacit.connect(f"{server.url}/smokers", token)
    assert "secret study" in json.dumps(officer.ask("charges"))
    assert officer.ask("stored", name="seen/secret study")["release"] == stored
    mark = vars(release.certificate.ledger)
    assert wall.ask("verify", mark=mark)["holds"]
    assert not wall.ask("verify", mark={**mark, "head": "0" * 64})["holds"]
    assert str(server.ledger().store) not in str(wall.ask("verify", mark={**mark, "entry": 99999}))
    with pytest.raises(tacit.errors.PolicyError, match="no allowance"):
        officer.release(COUNTS, LAPLACE)


def test_every_verb_is_in_the_description(server):
    status, body = raw(server, "", "/api/v1/openapi.json", None)
    assert status == 200
    paths = json.loads(body)["paths"]
    assert {path.rpartition("/")[2] for path in paths if "{dataset}" in path} == set(VERBS)
    assert raw(server, "", "/api/v1/health", None)[0] == 200
    assert raw(server, "", "/api/v1/nothing", None)[0] == 404
    assert raw(server, "", "/api/v1/datasets/smokers/release", None)[0] == 405


def test_accounts_by_the_command_line(tmp_path):
    path = write_smokers(tmp_path)
    token = tacit_custody("add", path, "ana", "--days", 3).split()[-1]
    tacit_custody("allow", path, "ana", "smokers", "--epsilon", "0.5", "--delta", "1e-6")
    shown = tacit_custody("list", path)
    assert "ana" in shown
    accounts = Accounts(Custody.load(path).accounts)
    assert accounts.allowance("ana", "smokers") == tacit.Budget("0.5", "1e-6")
    newer = tacit_custody("renew", path, "ana").split()[-1]
    assert accounts.account_of(token) is None
    assert accounts.account_of(newer).role == "analyst"
    tacit_custody("revoke", path, "ana")
    assert accounts.account_of(newer) is None
    with pytest.raises(tacit.errors.StudyError, match="no data set 'other'"):
        tacit_custody("allow", path, "ana", "other", "--epsilon", "1")
    with pytest.raises(tacit.errors.StudyError, match="Expected one question"):
        tacit_custody("approve", path, "abc", "--by", "x", "--reason", "y")

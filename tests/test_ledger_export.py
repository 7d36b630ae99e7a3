"""Exports of a ledger: what an outsider can check, and what no custodian can take back."""

import json
import random
import re
import shutil
import subprocess

import pytest

import tacit
from tacit.errors import FileError, LedgerError
from tacit.ledger_export import _line, export_ledger, new_key, read_export
from tacit.wall.chain import link
from tests.conftest import SMOKERS, smoking

pytest.importorskip("cryptography", reason='pip install "tacit[signing]" is missing')

QUERY = tacit.queries.Counts("smoker")


def make_wall(path, composition="basic"):
    budget = tacit.Budget(1, 1e-6)
    return tacit.Wall(SMOKERS, smoking(), budget=budget, ledger=path, composition=composition)


@pytest.fixture
def path(tmp_path):
    """A ledger with an entry of most kinds."""
    path = tmp_path / "visits.ledger"
    wall = make_wall(path)
    wall.release(QUERY, tacit.Gaussian(0.1, 1e-7), name="smoking, été")
    wall.release(QUERY, tacit.Laplace("0.2"))
    tacit.Ledger(path).raise_budget(tacit.Budget(2, 1e-6), "approved")
    return path


@pytest.fixture(scope="module")
def keys():
    return new_key()


def test_an_export_says_what_the_ledger_says(path, keys):
    private, public = keys
    export = read_export(export_ledger(tacit.Ledger(path), private), public)
    chain = tacit.Ledger(path).read()
    assert (export.chain.seq, export.chain.head) == (chain.seq, chain.head) == (5, chain.head)
    assert export.chain.spent == chain.spent
    assert read_export(export_ledger(tacit.Ledger(path))).public_key is None


@pytest.mark.parametrize("composition", ["gdp", "rdp"])
def test_a_ledger_with_a_filter_is_exported_too(tmp_path, keys, composition):
    path = tmp_path / "l.ledger"
    make_wall(path, composition).release(QUERY, tacit.Gaussian(0.1, 1e-7))
    export = read_export(export_ledger(tacit.Ledger(path), keys[0]), keys[1])
    assert export.chain.spent == tacit.Ledger(path).read().spent


def test_any_changed_byte_is_caught(path, keys):
    """Each byte of the file, with one of its bits turned, gone, or there twice."""
    private, public = keys
    data, rng = export_ledger(tacit.Ledger(path), private), random.Random(3)
    read_export(data, public)
    for at in range(len(data)):
        turned = bytes([data[at] ^ 1 << rng.randrange(8)])
        for other in (turned, b"", data[at : at + 1] * 2):
            with pytest.raises(LedgerError):
                read_export(data[:at] + other + data[at + 1 :], public)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b',"hash"', b', "hash"'), (b'"seq"', b'"\\u0073eq"'), (b'{"body"', b'{"seq":9,"body"')],
)
def test_there_is_one_way_to_write_an_export(path, keys, old, new):
    """Else who compares files by their bytes could be told of two that say the same."""
    data = export_ledger(tacit.Ledger(path), keys[0])
    assert old in data
    with pytest.raises(LedgerError, match="broken at line 2"):
        read_export(data.replace(old, new), keys[1])


def test_an_export_that_was_cut_is_caught(path, keys):
    private, public = keys
    lines = export_ledger(tacit.Ledger(path), private).splitlines(keepends=True)
    for kept in (lines[:-1], lines[:-2] + lines[-1:], lines[1:], lines[:1], lines[:1] + lines[2:]):
        with pytest.raises(LedgerError):
            read_export(b"".join(kept), public)
    for rest in (b"", b"\n", b"SQLite format 3\x00", lines[0]):
        with pytest.raises(LedgerError, match="not a whole export"):
            read_export(rest, public)


def rewritten(data, change):
    """An export whose entries were changed, with a chain that holds and no signature."""
    first, *entries, last = [json.loads(line) for line in data.splitlines()]
    head = ""
    for entry in entries:
        entry["body"] = change(entry["body"])
        head = entry["hash"] = link(head, entry["seq"], entry["body"])
    statement = {**last, "head": head}
    return first, entries, statement


def test_who_has_no_key_cannot_rewrite_history(path, keys):
    private, public = keys
    data = export_ledger(tacit.Ledger(path), private)
    first, entries, statement = rewritten(data, lambda body: body.replace('"0.2"', '"0.1"'))
    lines = [first, *entries, statement]
    with pytest.raises(LedgerError, match="signature of the export does not fit"):
        read_export("".join(f"{_line(line)}\n" for line in lines).encode(), public)
    lines[-1] = {**statement, "signature": None, "public_key": None}
    unsigned = "".join(f"{_line(line)}\n" for line in lines).encode()
    assert read_export(unsigned).chain.head == statement["head"]  # why exports are signed
    with pytest.raises(LedgerError, match="not signed by the holder"):
        read_export(unsigned, public)
    with pytest.raises(LedgerError, match="not signed by the holder"):
        read_export(export_ledger(tacit.Ledger(path), new_key()[0]), public)
    # The holder of the key cannot either, before those who have seen an earlier export.
    with pytest.raises(LedgerError, match="taken back or changed"):
        read_export(unsigned).check_extends(read_export(data))


def test_an_overdraft_is_seen_though_it_is_signed(path, keys):
    data = export_ledger(tacit.Ledger(path))
    lines = [*rewritten(data, lambda body: body.replace('"epsilon": "0.2"', '"epsilon": "20"'))]
    text = [lines[0], *lines[1], lines[2]]
    with pytest.raises(LedgerError, match=r"More was spent|charged less"):
        read_export("".join(f"{_line(line)}\n" for line in text).encode())


def test_a_later_export_extends_an_earlier_one(path, keys):
    private, public = keys
    ledger, before = tacit.Ledger(path), path.read_bytes()
    first = read_export(export_ledger(ledger, private), public)
    make_wall_raised(path).release(QUERY, tacit.Laplace("0.3"))
    second = read_export(export_ledger(ledger, private), public)
    second.check_extends(first)
    second.check_extends(second)
    with pytest.raises(LedgerError, match="does not extend"):
        first.check_extends(second)  # rolled back
    path.write_bytes(before)
    make_wall_raised(path).release(QUERY, tacit.Laplace("0.3"))
    other = read_export(export_ledger(tacit.Ledger(path), private), public)
    other.check_extends(first)
    with pytest.raises(LedgerError, match="does not extend"):
        other.check_extends(second)  # another history of the same length


def make_wall_raised(path):
    return tacit.Wall(SMOKERS, smoking(), budget=tacit.Budget(2, 1e-6), ledger=path)


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
        "public",
        "encrypted",
        "rsa",
    ],
)
def test_other_keys_are_refused(path, keys, key):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    if key == "public":
        key = keys[1]
    elif key == "encrypted":
        made = serialization.load_pem_private_key(keys[0], None)
        key = made.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"x"))
    elif key == "rsa":
        made = ec.generate_private_key(ec.SECP256R1())
        key = made.private_bytes(pem, pkcs8, serialization.NoEncryption())
    with pytest.raises(FileError, match="Expected a private Ed25519 key"):
        export_ledger(tacit.Ledger(path), key)
    with pytest.raises(FileError, match="Expected a public Ed25519 key"):
        read_export(export_ledger(tacit.Ledger(path), keys[0]), keys[0])


def test_openssl_agrees_on_the_signature(path, tmp_path, keys):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    last = json.loads(export_ledger(tacit.Ledger(path), keys[0]).splitlines()[-1])
    (tmp_path / "signature").write_bytes(bytes.fromhex(last.pop("signature")))
    (tmp_path / "public").write_bytes(keys[1])
    for text, good in ((_line(last), True), (_line({**last, "entries": 4}), False)):
        (tmp_path / "statement").write_text(text)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "public", "-rawin"]
        done = subprocess.run(
            [*command, "-in", "statement", "-sigfile", "signature"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert (done.returncode == 0) is good, done.stderr


def test_the_command_line(path, tmp_path, run):
    key, export, old = tmp_path / "key", tmp_path / "export.jsonl", tmp_path / "old.jsonl"
    assert "Keep" in run("ledger", "key", key)
    assert key.stat().st_mode & 0o777 == 0o600
    assert "Cannot write" in run("ledger", "key", key, ok=False)
    public = ("--public-key", f"{key}.pub")
    assert "5 entries, signed" in run("ledger", "export", path, "--output", export, "--key", key)
    shutil.copy(export, old)
    release = make_wall_raised(path).release(QUERY, tacit.Laplace("0.3"))
    certificate = tmp_path / "certificate.json"
    certificate.write_text(release.certificate.to_json())
    against = ("--against", certificate)
    assert "does not hold entry 6" in run("ledger", "verify", export, *against, ok=False)
    assert "6 entries" in run("ledger", "export", path, "--output", export, "--key", key)
    said = run("ledger", "verify", export, *public, "--extends", old, *against)
    for words in ("extends the export of", "by the holder of", "Entry 6 of the certificate is in"):
        assert words in said
    assert "name --public-key" in run("ledger", "verify", export)
    assert "does not extend" in run("ledger", "verify", old, "--extends", export, ok=False)
    path.write_bytes(b"")  # neither ledger nor data are needed
    run("ledger", "verify", export, *public)
    other = tmp_path / "other.ledger"
    make_wall(other)
    kept = export.read_bytes()
    assert "does not extend" in run("ledger", "export", other, "-o", export, ok=False)
    assert export.read_bytes() == kept
    assert "Expected an export" in run("ledger", "verify", other, *public, ok=False)
    assert "not signed" in run("ledger", "export", other, "-o", tmp_path / "unsigned")
    assert "compare its head" in run("ledger", "verify", tmp_path / "unsigned")
    assert re.search(
        "not signed by", run("ledger", "verify", tmp_path / "unsigned", *public, ok=False)
    )
    assert "Cannot read" in run("ledger", "verify", export, "--public-key", "none", ok=False)
    assert "Cannot write" in run("ledger", "export", other, "-o", tmp_path / "no" / "x", ok=False)

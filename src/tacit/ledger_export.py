"""Exports of a ledger: what was spent, signed, for outsiders who have neither ledger nor data.

An export is a file of JSON lines: a format, the ledger's entries, each with a hash that covers all
entries before it, and a statement of where that chain ends, signed with Ed25519. A later export
begins with all entries of an earlier one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tacit.accounting.filters import check_charge
from tacit.spec.certificate import LedgerMark
from tacit.spec.errors import FileError, LedgerError
from tacit.wall import Ledger
from tacit.wall.chain import Chain

_FORMAT = {"format": "tacit ledger export", "version": 1}
# What json.loads and a look into its result raise.
_HOSTILE = (LookupError, ValueError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Export:
    """An export that was checked: its chain, its charges and, where it is signed, its signature."""

    entries: tuple[str, ...]  # lines
    chain: Chain
    time: str
    public_key: str | None  # of who signed it, in hexadecimal digits

    def check_extends(self, earlier: Export) -> None:
        """Refuse an export that does not begin with all entries of an earlier one."""
        if self.entries[: len(earlier.entries)] != earlier.entries:
            raise LedgerError(
                f"The export of {self.time} does not extend that of {earlier.time}: entries were "
                "taken back or changed, or it is another ledger."
            )

    def check_holds(self, mark: LedgerMark) -> None:
        """Refuse an export without the entry that a certificate names."""
        whole = type(mark.entry) is int and 0 < mark.entry <= len(self.entries)
        if not whole or json.loads(self.entries[mark.entry - 1])["hash"] != mark.head:
            raise LedgerError(
                f"The export does not hold entry {mark.entry} of this certificate: it was made "
                "before, or of another ledger."
            )


def is_export(data: bytes) -> bool:
    """Whether this is an export, or the beginning of one, and no ledger."""
    return data.startswith(_line(_FORMAT).encode())


def export_ledger(ledger: Ledger, key: bytes | None = None) -> bytes:
    """The whole ledger as it is now, after checking it; `key` is a private key in PEM."""
    ledger.verify()
    lines, chain = [_line(_FORMAT)], Chain()
    for entry in ledger.entries():
        seq, hash_ = entry.pop("entry"), entry.pop("hash")
        body = json.dumps(entry)  # as the ledger wrote it, or the chain does not hold
        chain.follow(seq, body, hash_)
        lines.append(_line({"seq": seq, "body": body, "hash": hash_}))
    private = None if key is None else _private(key)
    statement = {
        **_FORMAT,
        "ledger": chain.ledger,
        "entries": chain.seq,
        "head": chain.head,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "public_key": None if private is None else _digits(private.public_key()),
    }
    signature = None if private is None else private.sign(_line(statement).encode()).hex()
    lines.append(_line({**statement, "signature": signature}))
    return "".join(f"{line}\n" for line in lines).encode()


def read_export(data: bytes, public_key: bytes | None = None) -> Export:
    """Check an export, and that it is signed by who holds the key of `public_key`, in PEM."""
    lines = data.split(b"\n")
    if len(lines) < 3 or lines[0] != _line(_FORMAT).encode() or lines.pop() != b"":
        raise LedgerError("This is not a whole export of a ledger: its beginning or end is gone.")
    chain, at = Chain(), 1
    try:
        for at, line in enumerate(lines[1:-1], 2):  # noqa: B007 - the error says where
            entry = _facts(line, {"seq", "body", "hash"})
            chain.follow(entry["seq"], entry["body"], entry["hash"])
            check_charge(chain.adds_up, entry["seq"], json.loads(entry["body"]))
        at = len(lines)
        names = {*_FORMAT, "ledger", "entries", "head", "time", "public_key", "signature"}
        statement = _facts(lines[-1], names)
        time = datetime.fromisoformat(statement["time"]).isoformat()
        ends = {**_FORMAT, "ledger": chain.ledger, "entries": chain.seq, "head": chain.head}
        signer = _checked_signature(statement)
    except _HOSTILE:
        raise LedgerError(f"The export is broken at line {at}.") from None
    if any(statement[name] != value for name, value in ends.items()):
        raise LedgerError("The export is broken: entries are missing at its end.")
    if not chain.spent.within(chain.adds_up.limits(chain.limit)):
        raise LedgerError("More was spent than the budget allows.")
    if public_key is not None and signer != _digits(_public(public_key)):
        raise LedgerError("The export is not signed by the holder of this key.")
    return Export(tuple(line.decode() for line in lines[1:-1]), chain, time, signer)


def _line(facts: dict[str, Any]) -> str:
    return json.dumps(facts, sort_keys=True, separators=(",", ":"))


def _facts(line: bytes, names: set[str]) -> dict[str, Any]:
    """What a line says, if it is written as it would be written here: there is no second way."""
    facts = json.loads(line)
    if set(facts) != names or _line(facts).encode() != line:
        raise ValueError("another line")
    return dict(facts)


def _checked_signature(statement: dict[str, Any]) -> str | None:
    """By whose key a statement is signed, if it is."""
    signature, signer = statement.pop("signature"), statement["public_key"]
    if signature is None and signer is None:
        return None
    ed25519, _ = _cryptography()
    from cryptography.exceptions import InvalidSignature

    key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer))
    try:
        key.verify(bytes.fromhex(signature), _line(statement).encode())
    except InvalidSignature:
        raise LedgerError("The signature of the export does not fit it.") from None
    if bytes.fromhex(signature).hex() != signature:
        raise ValueError("another way to write a number")
    return str(signer)


def new_key() -> tuple[bytes, bytes]:
    """A private key and its public one, in PEM."""
    ed25519, serialization = _cryptography()
    pem, key = serialization.Encoding.PEM, ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public


def _private(pem: bytes) -> Any:
    ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise FileError("Expected a private Ed25519 key in PEM, without a password.")
    return key


def _public(pem: bytes) -> Any:
    ed25519, serialization = _cryptography()
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise FileError("Expected a public Ed25519 key in PEM.")
    return key


def _digits(key: Any) -> str:
    return str(key.public_bytes_raw().hex())


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise FileError(
            'Signatures need cryptography: pip install "tacit[signing]". Nothing was written.'
        ) from None
    return ed25519, serialization

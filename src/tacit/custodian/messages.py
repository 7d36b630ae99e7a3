"""What crosses processes: verbs with their fields, errors in the words of home, and frames.

A request is facts in JSON or in bytes with arrays (`tacit.spec.wire`), and so is its answer.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.spec import errors
from tacit.spec.errors import FileError, QueryError, RemoteError, TacitError
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.wire import from_bytes, from_json, to_bytes, to_json

# Frames of a worker: it begins to check a request; it is about to read, and waits for a word.
BEGUN, READING, GO = b"begun", b"reading", b"go"
CHECKING = 120.0  # seconds for what comes before reading, at most
JSON, BYTES = "application/json", "application/vnd.tacit"
VERSION = "v1"
_MOST_NAME, _MOST_WORDS = 200, 4000  # letters

_NAME = {
    "type": "string",
    "minLength": 1,
    "maxLength": _MOST_NAME,
    "description": "Chosen by the client and scoped to the account: the idempotency key. The same "
    "question under it is answered again and paid once; another question is a conflict.",
}
_FACTS = {"type": "object"}
_QUERY = {**_FACTS, "description": "What `to_dict` of a query gives."}
_MECHANISM = {**_FACTS, "description": "What `mechanism_to_dict` gives."}
_STEP = {"type": "integer", "minimum": 0, "description": "Which step, counted from 0."}


@dataclass(frozen=True)
class Verb:
    """What can be asked of a data set: its fields as JSON schemas, and who may ask.

    A verb that is `charged` reads data, or may.
    """

    summary: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    charged: bool = False
    custodian: bool = False


VERBS: Mapping[str, Verb] = {
    "describe": Verb("The schema, the terms, and what is left of the budget and of the allowance."),
    "units": Verb("How many units there are, where that is public.", charged=True),
    "quote": Verb(
        "What a release would cost and how noisy it would be.",
        {"query": _QUERY, "mechanism": _MECHANISM},
    ),
    "price": Verb("What a lease would cost.", {"plan": _FACTS}),
    "release": Verb(
        "Charge, read, and answer one question.",
        {"name": _NAME, "query": _QUERY, "mechanism": _MECHANISM},
        charged=True,
    ),
    "prepay": Verb(
        "Charge for all steps of a plan.", {"name": _NAME, "plan": _FACTS}, charged=True
    ),
    "step": Verb(
        "Answer one step of a lease.",
        {"name": _NAME, "step": _STEP, "query": _QUERY},
        charged=True,
    ),
    "state": Verb(
        "Store a method's public state in place of the answers before a step.",
        {"name": _NAME, "step": _STEP, "since": _STEP, "facts": _FACTS},
        charged=True,
    ),
    "ledger": Verb("What is charged so far, and the names of this account."),
    "charges": Verb("The entries of the ledger: of other accounts without what they asked."),
    "stored": Verb("The release that is stored under a name, if there is one.", {"name": _NAME}),
    "approve": Verb(
        "Let a question cost more than the policy allows, never more than the budget.",
        {
            "question": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            "cost": _FACTS,
            "reason": {"type": "string"},
        },
        custodian=True,
    ),
    "verify": Verb("Check the whole ledger.", {"mark": {"type": ["object", "null"]}}),
}
# The status of a refusal, by its class; 400 for others.
STATUS: Mapping[str, int] = {
    "OverBudgetError": 402,
    "PolicyError": 403,
    "NameTakenError": 409,
    "ReplacedError": 409,
    "RemoteError": 400,
    "LedgerError": 503,
    "SourceError": 503,
    "StoppedError": 503,
}


def check_fields(verb: str, facts: Any) -> None:
    """Refuse a request without the fields of its verb."""
    expected = VERBS[verb].fields
    if not isinstance(facts, Mapping) or set(facts) != set(expected):
        raise QueryError(f"Expected {', '.join(expected) or 'no fields'} in {verb!r}.")
    name = facts.get("name", "-")
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise QueryError(f"Expected name={name!r} to be a printable text.")
    if len(name) > _MOST_NAME:
        raise QueryError(f"Expected a name of at most {_MOST_NAME} letters, got {len(name)}.")


# Facts as the bytes of a body


def encoded(facts: Any, type_: str) -> bytes:
    """The body of a request or answer."""
    return to_bytes(facts) if type_ == BYTES else to_json(facts).encode()


def decoded(body: bytes | bytearray, type_: str) -> Any:
    """The facts of a body, whoever wrote it."""
    if type_ == BYTES:
        return from_bytes(body)
    if type_ == JSON:
        return from_json(bytes(body)) if body else {}
    raise FileError(f"Expected a body of type {BYTES} or {JSON}.")


# Releases: without what the asker has


def release_to_facts(release: Release) -> dict[str, Any]:
    """A release without its schema and query."""
    return {"header": release.header("schema", "query"), "integers": release.integers}


def release_from_facts(facts: Mapping[str, Any], schema: Schema, query: Query) -> Release:
    return Release.from_header(facts["header"], schema, facts["integers"], query)


# Errors


def error_to_facts(error: TacitError) -> dict[str, Any]:
    """A refusal as facts: its class, its sentence and its numbers."""
    words = str(error)
    if len(words) > _MOST_WORDS:  # of a question that was quoted
        words = f"{words[: _MOST_WORDS // 2]} ... {words[-_MOST_WORDS // 2 :]}"
    return {"error": type(error).__name__, "message": words, "facts": dict(vars(error))}


def error_from_facts(facts: Any) -> TacitError:
    """A refusal as it would have been raised at home."""
    try:
        cls = getattr(errors, str(facts["error"]), RemoteError)
        known = isinstance(cls, type) and issubclass(cls, TacitError)
        found = (cls if known else RemoteError).__new__(cls if known else RemoteError)
        found.args = (str(facts["message"]),)
        vars(found).update(facts["facts"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return RemoteError("Expected an answer of Tacit's server, got another one.")
    return found


# Frames on a socket: eight bytes of length, then as many


def send(connection: socket.socket, *parts: bytes) -> None:
    for part in parts:
        connection.sendall(len(part).to_bytes(8, "little"))
        connection.sendall(part)


def receive(connection: socket.socket, most: int = 2**40) -> bytearray:
    """The next frame; ConnectionError where the other side has ended."""
    size = int.from_bytes(_exactly(connection, 8), "little")
    if size > most:
        raise ConnectionError("too long a frame")
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    view = memoryview(found)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the other side has ended")
        view = view[count:]
    return found

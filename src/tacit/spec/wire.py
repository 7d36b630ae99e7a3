"""Facts as text: JSON with arrays of numbers in it, and digests of both.

`to_dict` of a query, plan or release gives plain values and NumPy arrays. Here they become text
that can be stored and sent, or a digest by which a question is recognised.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tacit.spec.errors import FileError, TacitError

_ARRAY = "array"
_MOST_NUMBERS = 10**8
# What constructors raise for facts of other types and shapes than `to_dict` writes.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def to_json(facts: Any) -> str:
    """JSON, with an array as its type, shape and bytes in base64.

    Examples
    --------
    >>> from_json(to_json({"a": np.arange(3)}))["a"]
    array([0, 1, 2])
    """
    return json.dumps(facts, default=_plain)


def from_json(text: str | bytes) -> Any:
    """What `to_json` wrote; whoever wrote it."""
    try:
        return json.loads(text, object_hook=_array)
    except (ValueError, RecursionError):
        raise FileError("Expected JSON as Tacit writes it.") from None


@contextmanager
def reading(what: str, refusal: type[TacitError] = FileError) -> Iterator[None]:
    """Refuse malformed facts in one sentence, whatever a constructor raises for them."""
    try:
        yield
    except _MALFORMED as error:
        if isinstance(error, TacitError):
            raise
        raise refusal(f"This is not a Tacit {what}.") from None


def digest(facts: Any) -> str:
    """The SHA-256 of facts: the same for equal facts, in whatever order a mapping has them."""
    found = hashlib.sha256()
    _feed(facts, found)
    return found.hexdigest()


def described(facts: Any) -> Any:
    """The facts for a ledger or a certificate: arrays and programs by their digests."""
    match facts:
        case np.ndarray():
            return f"sha256:{digest(facts)}"
        case {"format": "tacit-program/1"}:
            own = {name: value for name, value in facts.items() if name != "jax"}
            return f"sha256:{digest(own)}"
        case Mapping():
            return {name: described(value) for name, value in facts.items()}
        case list() | tuple():
            return [described(value) for value in facts]
        case _:
            return facts


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        little = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"))
        raw = base64.b64encode(little.tobytes()).decode()
        return {_ARRAY: raw, "dtype": little.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"no JSON for {type(value).__name__}")


def _array(facts: dict[str, Any]) -> Any:
    if _ARRAY not in facts:
        return facts
    try:
        dtype = np.dtype(str(facts["dtype"]))
        shape = tuple(facts["shape"])
        if dtype.kind not in "biufc" or min(shape, default=0) < 0:
            raise ValueError
        if math.prod(shape) > _MOST_NUMBERS:
            raise ValueError
        raw = base64.b64decode(facts[_ARRAY], validate=True)
        return np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise FileError("Expected an array as Tacit writes it.") from None


def _feed(facts: Any, found: Any) -> None:
    """Each kind of value in a form that no other has, so that different facts feed differently."""
    match facts:
        case np.ndarray():
            little = np.ascontiguousarray(facts).astype(facts.dtype.newbyteorder("<"), copy=False)
            found.update(f"a{little.dtype.str}{facts.shape}".encode())
            found.update(little.data if little.size else b"")
        case Mapping():
            found.update(f"m{len(facts)}".encode())
            for name in sorted(facts):
                _feed(name, found)
                _feed(facts[name], found)
        case list() | tuple():
            found.update(f"l{len(facts)}".encode())
            for value in facts:
                _feed(value, found)
        case _:
            text = json.dumps(facts, default=_plain).encode()
            found.update(b"v%d:%b" % (len(text), text))

"""Facts: records as plain values, as JSON or bytes with arrays of numbers in it, and their digests.

`to_dict` of a query, plan or release gives plain values and NumPy arrays. Here they become text
that can be stored, bytes that can be sent, or a digest by which a question is recognised.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Self, get_args, get_type_hints

import numpy as np

from tacit.spec.errors import FileError, QueryError, TacitError

_ARRAY = "array"
_MOST_NUMBERS = 10**8
_MARK = b"\x93tc1"  # before facts in bytes; no JSON begins with it
# What constructors raise for facts of other types and shapes than `to_dict` writes.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def to_json(facts: Any) -> str:
    """JSON, with an array as its type, shape and bytes in base64.

    Examples
    --------
    >>> from_json(to_json({"a": np.arange(3)}))["a"]
    array([0, 1, 2])
    """
    return json.dumps(facts, default=_json)


def from_json(text: str | bytes) -> Any:
    """What `to_json` wrote; whoever wrote it."""
    try:
        return json.loads(text, object_hook=_array)
    except (ValueError, RecursionError):
        raise FileError("Expected JSON as Tacit writes it.") from None


def to_bytes(facts: Any) -> bytes:
    """JSON and behind it the bytes of its arrays, integers as small as they fit.

    Examples
    --------
    >>> from_bytes(to_bytes({"a": np.arange(3), "b": 0.5}))
    {'a': array([0, 1, 2]), 'b': 0.5}
    """
    arrays: list[np.ndarray] = []

    def placed(value: Any) -> Any:
        if not (isinstance(value, np.ndarray) and value.dtype.kind in "biufc"):
            return _json(value)
        whole = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
        arrays.append(_narrowed(whole))
        own = {"as": whole.dtype.str} if arrays[-1].dtype != whole.dtype else {}
        return {_ARRAY: arrays[-1].dtype.str, "shape": list(value.shape), **own}

    header = json.dumps(facts, default=placed).encode()
    parts = (array.data.cast("B") for array in arrays if array.size)
    return b"".join((_MARK, len(header).to_bytes(4, "little"), header, *parts))


def from_bytes(raw: bytes | bytearray) -> Any:
    """What `to_bytes` wrote; whoever wrote it."""
    view, size = memoryview(raw), int.from_bytes(raw[4:8], "little")
    if bytes(view[:4]) != _MARK or len(view) < 8 + size:
        raise FileError("Expected facts in bytes as Tacit writes them.")
    at = 8 + size

    def array(facts: dict[str, Any]) -> Any:
        nonlocal at
        if _ARRAY not in facts:
            return facts
        dtype, shape = _dtype(facts[_ARRAY]), _shape(facts["shape"])
        whole = _dtype(facts.get("as", facts[_ARRAY]))
        if whole != dtype and (dtype.kind + whole.kind not in ("ii", "iu")):
            raise ValueError
        begin, at = at, at + dtype.itemsize * math.prod(shape)
        # Behind one another, so that few bytes do not stand for many arrays.
        found = np.frombuffer(view[begin:at], dtype).reshape(shape)
        return found.astype(whole.newbyteorder("="))

    try:
        facts = json.loads(bytes(view[8:at]), object_hook=array)
        if at != len(view):
            raise ValueError
    except (LookupError, RecursionError, TypeError, ValueError):
        raise FileError("Expected facts in bytes as Tacit writes them.") from None
    return facts


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Integers in the smallest type that holds them all."""
    if array.dtype.kind not in "iu" or not array.size:
        return array
    low, high = array.min(), array.max()
    for name in ("<i1", "<i2", "<i4"):
        limits = np.iinfo(name)
        if limits.min <= low and high <= limits.max:
            smaller = np.dtype(name).itemsize < array.dtype.itemsize
            return array.astype(name) if smaller else array
    return array


def _dtype(name: Any) -> np.dtype[Any]:
    if not re.fullmatch("[<>|=]?[biufc][0-9]{1,2}", str(name)):  # NumPy evaluates other texts
        raise ValueError
    return np.dtype(str(name))


def _shape(given: Any) -> tuple[int, ...]:
    shape = tuple(given)
    if any(type(side) is not int or side < 0 for side in shape):
        raise ValueError
    if math.prod(shape) > _MOST_NUMBERS:
        raise ValueError
    return shape


@contextmanager
def reading(what: str, refusal: type[TacitError] = FileError) -> Iterator[None]:
    """Refuse malformed facts in one sentence, whatever a constructor raises for them."""
    try:
        yield
    except _MALFORMED as error:
        if isinstance(error, TacitError):
            raise
        raise refusal(f"This is not a Tacit {what}.") from None


class Record:
    """A frozen dataclass that is plain data: its facts can be stored, sent and read back.

    Facts are the name of the type and every field: tuples as lists, records and programs as their
    own facts, an infinite number as None. They are read by the declared types of the fields, which
    are a closed set, and checked by the constructors, whoever wrote them.
    """

    def to_dict(self) -> dict[str, Any]:
        return {"type": type(self).__name__, **facts_of(self)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        with reading(cls.__name__, QueryError):
            types = _types(cls)  # type: ignore[arg-type]
            if set(facts) != {"type", *types} or facts["type"] != cls.__name__:
                raise ValueError
            return cls(**{name: _value(facts[name], known) for name, known in types.items()})


@cache
def _types(record: type) -> dict[str, dict[str, Any]]:
    """The fields of a record, each with the types that its facts may name."""
    hints = get_type_hints(record)
    known = {field.name: _parts(hints[field.name]) for field in fields(record)}
    return {name: {cls.__name__: cls for cls in types} for name, types in known.items()}


def _parts(hint: Any) -> list[Any]:
    """The types with facts of their own in a hint, inside unions and tuples too."""
    found = [part for inner in get_args(hint) for part in _parts(inner)]
    return [*found, hint] if hasattr(hint, "from_dict") else found


def facts_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass as facts, by name."""
    return {field.name: plain(getattr(record, field.name)) for field in fields(record)}


def plain(value: Any) -> Any:
    """A value as facts; arrays, and what a mapping holds, stay as they are."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return facts_of(value)
    match value:
        case tuple() | list() | range():
            return [plain(part) for part in value]
        case Mapping():
            return dict(value)
        case Decimal():
            return str(value)
        case float() if math.isinf(value):
            return None  # JSON has no inf
    return value


def _value(facts: Any, known: dict[str, Any]) -> Any:
    match facts:
        case Mapping():
            return known[facts.get("type", "Program")].from_dict(facts)
        case list() | tuple():
            return tuple(_value(part, known) for part in facts)
        case _:
            return facts


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


def _json(value: Any) -> Any:
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
        dtype, shape = _dtype(facts["dtype"]), _shape(facts["shape"])
        raw = base64.b64decode(facts[_ARRAY], validate=True)
        return np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise FileError("Expected an array as Tacit writes it.") from None


def _feed(facts: Any, found: Any) -> None:
    """Feed each type of value in a form of its own, so that different facts differ."""
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
            text = json.dumps(facts, default=_json).encode()
            found.update(b"v%d:%b" % (len(text), text))

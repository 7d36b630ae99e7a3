"""What the wall is asked, as a copy of its own made of Tacit's own kinds.

A question or mechanism of a kind that someone else derived could say one thing when its price is
computed and another when noise is drawn; and one that its owner still holds could change between.
"""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any, TypeVar, cast

import numpy as np

from tacit.spec.errors import QueryError

_PLAIN = (bool, int, float, str, Decimal)
_Asked = TypeVar("_Asked")


def genuine(asked: _Asked) -> _Asked:
    """A copy, field by field, whose kinds check it again.

    Functions, and the numbers of a state, are looked at where they are used.
    """
    return cast(_Asked, _copied(asked))  # proof: genuine


def _copied(asked: Any, field: str = "") -> Any:
    kind = type(asked)
    if field == "state" or (field == "function" and callable(asked)):
        return asked
    if is_dataclass(kind):
        return _of_ours(asked, kind)
    if kind is tuple:  # vocabularies are long, and plain values cannot change
        if {type(part) for part in asked} <= set(_PLAIN):
            return asked
        return tuple(map(_copied, asked))
    if kind is range or asked is None:
        return asked
    if isinstance(asked, np.ndarray):
        return np.array(asked)
    if isinstance(asked, np.generic):
        return asked.item()
    for plain in _PLAIN:
        if isinstance(asked, plain):  # a kind that someone derived is taken for the plain one
            return asked if kind is plain else plain(asked)
    raise QueryError(f"Expected numbers, texts and Tacit's own kinds, got a {kind.__qualname__}.")


def _of_ours(asked: Any, kind: type[Any]) -> Any:
    home = sys.modules.get(kind.__module__)
    ours = kind.__module__.startswith("tacit.spec.")
    if not (ours and getattr(home, kind.__qualname__, None) is kind):
        raise QueryError(
            f"Expected one of Tacit's own queries and mechanisms, got a {kind.__qualname__}."
        )
    copy = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(copy, field.name, _copied(getattr(asked, field.name), field.name))
    if hasattr(kind, "__post_init__"):
        copy.__post_init__()
    return copy

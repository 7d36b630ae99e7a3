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
    """A copy, field by field. Functions, and the numbers of a state, are looked at elsewhere."""
    return cast(_Asked, _copied(asked))  # proof: genuine


def _copied(asked: Any) -> Any:
    kind = type(asked)
    if is_dataclass(kind):
        home = sys.modules.get(kind.__module__)
        ours = kind.__module__.startswith("tacit.spec.")
        if not ours or getattr(home, kind.__qualname__, None) is not kind:
            raise QueryError(
                f"Expected one of Tacit's own queries and mechanisms, got a {kind.__qualname__}."
            )
        copy = object.__new__(kind)
        for field in fields(kind):
            object.__setattr__(copy, field.name, _copied(getattr(asked, field.name)))
        return copy
    if kind is tuple:
        return tuple(map(_copied, asked))
    if isinstance(asked, np.ndarray):
        return np.array(asked)
    if isinstance(asked, _PLAIN) and kind not in _PLAIN:  # np.float64 is a float
        return next(plain for plain in _PLAIN if isinstance(asked, plain))(asked)
    return asked

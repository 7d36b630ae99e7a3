"""What the wall is asked, as a copy of its own made of Tacit's own kinds.

A question or mechanism of a kind that someone else derived could say one thing when its price is
computed and another when noise is drawn; and one that its owner still holds could change between.
"""

from __future__ import annotations

import pkgutil
from dataclasses import fields, is_dataclass
from decimal import Decimal
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np

import tacit.spec
from tacit.spec.errors import QueryError

_PLAIN = (bool, int, float, str, Decimal)
_AS_THEY_ARE = (*_PLAIN, range, type(None))
# By what they are: what someone else made may say that it equals any of them.
_OURS = {
    id(kind): kind
    for module in pkgutil.iter_modules(tacit.spec.__path__, "tacit.spec.")
    for kind in vars(import_module(module.name)).values()
    if isinstance(kind, type) and is_dataclass(kind)
}
_Asked = TypeVar("_Asked")


def genuine(asked: _Asked) -> _Asked:
    """A copy, field by field; what has checks of its own is checked again.

    Functions, and the numbers of a state, are looked at where they are used.
    """
    return cast(_Asked, _copied(asked))  # proof: genuine


def _copied(asked: Any, field: str = "") -> Any:
    kind = type(asked)
    if field == "state" or (field == "function" and callable(asked)):
        return asked
    if any(kind is plain for plain in _AS_THEY_ARE):
        return asked
    if _OURS.get(id(kind)) is kind:
        return _of_ours(asked, kind)
    if kind is tuple:
        return tuple([_copied(part) for part in asked])
    if kind is np.ndarray and asked.dtype.kind in "biufSU":
        return np.array(asked)
    return _plain(asked, kind)


def _plain(asked: Any, kind: type[Any]) -> Any:
    """A number or text of another kind, as a plain one: asked of the plain kind, not of itself."""
    if any(kind is known for known in np.sctypeDict.values()):
        asked = np.generic.item(asked)
        kind = type(asked)
    for plain in _PLAIN:
        if kind is plain:
            return asked
        if issubclass(kind, plain):
            found = str.__str__(asked) if plain is str else plain(asked)
            if type(found) is plain:
                return found
    raise QueryError(
        f"Expected one of Tacit's own queries and mechanisms, numbers or texts, got a "
        f"{kind.__qualname__}."
    )


def _of_ours(asked: Any, kind: type[Any]) -> Any:
    copy = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(copy, field.name, _copied(getattr(asked, field.name), field.name))
    if hasattr(kind, "__post_init__"):
        copy.__post_init__()
    return copy

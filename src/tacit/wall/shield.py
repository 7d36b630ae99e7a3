"""What happens to an exception: it leaves the wall without what was read from the data."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

from tacit.spec.errors import SourceError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def shielded(read: Callable[[], Result], *, paid: bool = True) -> Result:
    """Run what touches the data. What a library says of a failure may quote a cell: it stays."""
    # proof: errors
    try:
        # Nor does it warn of a number that is too large, or not one.
        with np.errstate(all="ignore"):
            return read()
    except Exception:  # noqa: BLE001
        pass
    spent = "The budget for this release is spent" if paid else "Nothing was charged"
    raise SourceError(
        f"The source could not be read. {spent}; check that the file or database is still there."
    )


def without_locals(method: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Clear what the frames of a failed call hold: exact sums, noise, answers not handed out.

    A debugger, an error reporter or a traceback with local variables would show them.
    """  # proof: frames

    @wraps(method)
    def sealed(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            return method(*args, **options)
        except BaseException as error:
            _clear(error)
            raise

    return sealed


def _clear(error: BaseException) -> None:
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            pending += [one.__context__, one.__cause__]

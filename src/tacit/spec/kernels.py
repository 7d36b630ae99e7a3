"""What one unit contributes to a sum, as data: the name of a kernel, or a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.spec.errors import QueryError
from tacit.spec.programs import Program


@dataclass(frozen=True)
class Kernel:
    """A function of one unit that ships with Tacit, by its name in `tacit.kernels.KERNELS`.

    Examples
    --------
    >>> Kernel("columns.values").name
    'columns.values'
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or len(self.name) > 100:
            raise QueryError(f"Expected the name of a kernel, got {self.name!r}.")


Contribution = Kernel | Program


def contribution_to_dict(kernel: Contribution) -> dict[str, Any]:
    if isinstance(kernel, Kernel):
        return {"kernel": kernel.name}
    return {"program": kernel.to_dict()}


def contribution_from_dict(facts: Any) -> Contribution:
    match facts:
        case {"kernel": name}:
            return Kernel(name)
        case {"program": program} if isinstance(program, Mapping):
            return Program.from_dict(dict(program))
        case _:
            raise QueryError("Expected a kernel or a program in this query.")

"""What one unit contributes to a sum, as data: the name of a kernel, or a program."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.spec.errors import QueryError
from tacit.spec.programs import Program
from tacit.spec.wire import Record


@dataclass(frozen=True)
class Kernel(Record):
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

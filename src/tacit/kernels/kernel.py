"""What a kernel is: a compiled function of one unit's data, and the check that makes it safe.

Kernels run without index checks. `check` stands before them: it refuses every state, list of
columns and output shape for which an index could fall outside an array, before anything is charged
or read. It may rely on what the wall guarantees of data:

- a row has one finite double for each column: reals and integers within their public bounds,
  categories and periods as positions among their labels;
- a document has distinct int32 positions of words within the vocabulary (or its subset), and a
  finite weight for each between 0 and the column's `max_length`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tacit.spec.errors import QueryError

Shapes = Sequence[tuple[int, ...]]
State = tuple[np.ndarray, ...]


class Array(NamedTuple):
    """One array of a state: its name, its type and what its axes are."""

    name: str
    dtype: str
    axes: tuple[str, ...]


@cache
def arrays_of(layout: str) -> tuple[Array, ...]:
    """The arrays that a layout declares, as in "theta f8[parameters]; limits f8[2]".

    Axes of one name have one length in all arrays of a state; a number is a fixed length.
    """
    declared = re.findall(r"(\w+) (\w+)\[(.*?)\]", layout)
    return tuple(Array(name, dtype, tuple(axes.split(", "))) for name, dtype, axes in declared)


@dataclass(frozen=True)
class Given:
    """What a kernel is given, with the types and axes of its state already checked.

    Of a kernel of documents, `sizes` has the shape of its block too: "words" and "width".
    """

    kernel: str
    arrays: Mapping[str, np.ndarray]
    sizes: dict[str, int]
    columns: tuple[Column, ...]

    def expect(self, held: bool | np.bool_, what: str) -> None:
        if not held:
            raise _refusal(self.kernel, what)

    def expect_columns(self, count: int) -> int:
        """Refuse any other number of columns; returns the number."""
        self.expect(len(self.columns) == count, f"{count} columns instead of {len(self.columns)}")
        return count

    def range_of(self, index: int, *, whole: bool = False) -> tuple[float, float]:
        """The smallest and largest number that a row can hold in the column of this index."""
        column = self.columns[index]
        self.expect(not whole or not isinstance(column, Real), f"labels of {column.name!r}")
        match column:
            case Real(low=low, high=high) | Integer(low=low, high=high):
                return low, high
            case Categorical(levels=levels):
                return 0, len(levels) - 1
            case Time(first=first, last=last):
                return 0, last - first
        raise _refusal(self.kernel, f"{column.name!r} to have a number in each row")


def _frozen(kernel: AnyKernel, state: Sequence[Any]) -> State:
    """A defensive copy of a state: the declared types, C-contiguous, not writable."""
    declared = arrays_of(kernel.layout)
    if len(state) != len(declared):
        raise _misfit(kernel)
    parts = []
    for array, given in zip(declared, state):
        part = np.asarray(given)
        if part.dtype.kind not in "biuf" or not np.can_cast(part.dtype, array.dtype, "same_kind"):
            raise _refusal(kernel.name, f"numbers of type {array.dtype} for {array.name}")
        with np.errstate(over="ignore"):  # inf, which `check` refuses
            copy = np.array(part, dtype=array.dtype, order="C", copy=True, subok=False)
        copy.setflags(write=False)
        parts.append(copy)
    return tuple(parts)


@dataclass(frozen=True)
class RowKernel:
    """`function(row, state, out)` adds what one row contributes to the zeroed vector `out`.

    `layout` declares the state. `rules` refuses values of it that could become wild indices, and
    returns how many numbers `out` has.
    """

    name: str
    function: Callable[[Any, Any, Any], None]
    layout: str
    rules: Callable[[Given], int]

    def check(self, state: State, columns: Sequence[Column], shapes: Shapes) -> None:
        """Refuse with a QueryError what the kernel cannot be run on safely."""
        given = _given(self, state, columns, shapes)
        for index in range(len(columns)):
            given.range_of(index)
        expected, numbers = self.rules(given), sum(map(math.prod, shapes))
        given.expect(numbers == expected, f"blocks of {expected} numbers instead of {numbers}")

    frozen = _frozen


@dataclass(frozen=True)
class DocumentKernel:
    """`function(words, weights, state, out)` adds what one document contributes.

    `words` are distinct positions of words, `weights` how often each occurs, and `out` has a zeroed
    row of `width` numbers for each of these words. The block that is asked for has the shape
    (words, width). With `pairs`, `out` has a number for each pair of the document's words instead,
    and the block the shape (words, words). With `vocabulary_subset` the state begins with an index
    map: for each word of the vocabulary its position among the words of the block, or -1 to leave
    it out; `words` then holds such positions.
    """

    name: str
    function: Callable[[Any, Any, Any, Any], None]
    layout: str
    rules: Callable[[Given], None] = lambda _: None
    vocabulary_subset: bool = False
    pairs: bool = False

    def check(self, state: State, columns: Sequence[Column], shapes: Shapes) -> None:
        """Refuse with a QueryError what the kernel cannot be run on safely."""
        given = _given(self, state, columns, shapes)
        if len(shapes) != 1 or len(shapes[0]) != 2:
            raise _refusal(self.name, "one block of the shape (words, width)")
        if len(columns) != 1 or not isinstance(columns[0], Tokens):
            raise _refusal(self.name, "one column of the type Tokens")
        (words, width), vocabulary = shapes[0], len(columns[0].vocabulary)
        if self.vocabulary_subset:
            _check_index_map(given, state[0], vocabulary, words)
        else:
            given.expect(words == vocabulary, f"a block with {vocabulary} words, not {words}")
        given.expect(not self.pairs or width == words, "as many numbers for each word as words")
        given.sizes.update(words=words, width=width)
        self.rules(given)

    frozen = _frozen


AnyKernel = RowKernel | DocumentKernel


def _given(kernel: AnyKernel, state: State, columns: Sequence[Column], shapes: Shapes) -> Given:
    """Check the types, axes and finiteness of a state, and the types of columns and shapes."""
    declared = arrays_of(kernel.layout)
    if type(state) is not tuple or len(state) != len(declared):
        raise _misfit(kernel)
    sizes: dict[str, int] = {}
    for array, part in zip(declared, state):
        if not (
            type(part) is np.ndarray
            and part.dtype == np.dtype(array.dtype)
            and part.ndim == len(array.axes)
            and part.flags.c_contiguous
            and part.flags.aligned
        ):
            raise _misfit(kernel)
        for axis, length in zip(array.axes, part.shape):
            known = sizes.setdefault(axis, int(axis) if axis.isdigit() else length)
            if length != known or length < 1:
                what = f"axis {axis!r} of {array.name} to have length {max(known, 1)}"
                raise _refusal(kernel.name, what)
        if part.dtype.kind == "f" and not np.isfinite(part).all():
            raise _refusal(kernel.name, f"finite numbers in {array.name}")
    if not columns or not all(isinstance(column, Column) for column in columns):
        raise _refusal(kernel.name, "columns of the schema, at least one")
    if not shapes or not all(type(n) is int and n > 0 for shape in shapes for n in shape):
        raise _refusal(kernel.name, "shapes of blocks as positive whole numbers")
    arrays = {array.name: part for array, part in zip(declared, state)}
    return Given(kernel.name, arrays, sizes, tuple(columns))


def _check_index_map(given: Given, positions: np.ndarray, vocabulary: int, words: int) -> None:
    given.expect(positions.shape == (vocabulary,), f"a position for each of {vocabulary} words")
    given.expect(
        positions.min() >= -1 and positions.max() < words, f"positions from -1 to {words - 1}"
    )
    kept = positions[positions >= 0]
    # proof: index-map. Two words at one position would add up there, beyond the clipped norm.
    given.expect(np.unique(kept).size == kept.size, "an injective index map: each position once")


def _misfit(kernel: AnyKernel) -> QueryError:
    count = len(arrays_of(kernel.layout))
    return _refusal(kernel.name, f"a state of {count} arrays ({kernel.layout}), each C-contiguous")


def _refusal(kernel: str, what: str) -> QueryError:
    return QueryError(
        f'Expected {what}, for kernel "{kernel}". No data were read and no budget was spent.'
    )

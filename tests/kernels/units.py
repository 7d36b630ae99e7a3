"""Synthetic units for any kernel, and mutations of what a kernel is given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit.kernels import AnyKernel, DocumentKernel
from tacit.kernels.kernel import arrays_of
from tacit.spec.columns import Categorical, Column, Integer, Real, Time, Tokens
from tests.kernels.examples import Example


@dataclass(frozen=True)
class Case:
    """What a kernel is asked: a state, columns and shapes of blocks."""

    state: Any
    columns: tuple[Column, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, kernel: AnyKernel, example: Example) -> Case:
        return cls(kernel.frozen(example.state), example.columns, example.shapes)


def units_of(
    kernel: AnyKernel, case: Case, rng: np.random.Generator
) -> list[tuple[np.ndarray, ...]]:
    """Rows (values,) or documents (words, weights), at the ends of their domain and within."""
    if isinstance(kernel, DocumentKernel):
        return _documents(kernel, case, rng)
    ends = np.array([_ends(column) for column in case.columns])
    whole = np.array([not isinstance(column, Real) for column in case.columns])
    random = ends[:, 0] + rng.random((5, len(ends))) * (ends[:, 1] - ends[:, 0])
    alternating = ends[np.arange(len(ends)), np.arange(len(ends)) % 2]
    rows = np.vstack([ends.T, alternating, alternating, random])
    rows = np.where(whole, np.floor(rows), rows)
    return [(row.copy(),) for row in np.clip(rows, ends[:, 0], ends[:, 1])]


def run(kernel: AnyKernel, unit: tuple[np.ndarray, ...], case: Case) -> np.ndarray:
    """What one unit contributes, from arrays of its own."""
    out = np.zeros(out_shape(kernel, unit, case))
    kernel.function(*(part.copy() for part in unit), case.state, out)
    return out


def out_shape(kernel: AnyKernel, unit: tuple[np.ndarray, ...], case: Case) -> tuple[int, ...]:
    if isinstance(kernel, DocumentKernel):
        return unit[0].size, unit[0].size if kernel.pairs else case.shapes[0][1]
    return (sum(map(math.prod, case.shapes)),)


def _ends(column: Column) -> tuple[float, float]:
    match column:
        case Real(low=low, high=high) | Integer(low=low, high=high):
            return float(low), float(high)
        case _:
            return 0.0, float(len(column.labels) - 1)


def _documents(
    kernel: DocumentKernel, case: Case, rng: np.random.Generator
) -> list[tuple[np.ndarray, ...]]:
    (column,) = case.columns
    assert isinstance(column, Tokens)
    positions = np.arange(len(column.vocabulary))
    if kernel.vocabulary_subset:
        positions = case.state[0][case.state[0] >= 0]
    words = positions.astype(np.int32)
    most = float(column.max_length)
    some = words[rng.random(words.size) < 0.5]
    made = [
        (words[:0], np.zeros(0)),
        (words, np.zeros(words.size)),
        (words, np.full(words.size, most / max(words.size, 1))),
        (some, rng.dirichlet(np.ones(some.size)) * most if some.size else np.zeros(0)),
        (some, np.floor(rng.random(some.size) * 3) * min(1, most / (3 * words.size + 1))),
    ]
    made += [(words[i : i + 1], np.full(1, weight)) for i in (0, -1) for weight in (1.0, most)]
    return [(word.copy(), weight) for word, weight in made if word.size == weight.size]


def mutations(kernel: AnyKernel, case: Case, rng: np.random.Generator) -> Iterator[Case]:
    """Cases that are wrong, or may be: each array, axis, entry, column and shape changed a bit."""
    for i, array in enumerate(case.state):
        for other in (*_resized(array), *_with_other_entries(array, rng)):
            yield replace(case, state=(*case.state[:i], _read_only(other), *case.state[i + 1 :]))
        yield replace(case, state=(*case.state[:i], *case.state[i + 1 :]))
    for state in _with_resized_axes(kernel, case.state):
        yield replace(case, state=state)
    for b, shape in enumerate(case.shapes):
        for axis, step in ((axis, step) for axis in range(len(shape)) for step in (-1, 1)):
            other = (*shape[:axis], shape[axis] + step, *shape[axis + 1 :])
            yield replace(case, shapes=(*case.shapes[:b], other, *case.shapes[b + 1 :]))
        yield replace(case, shapes=(*case.shapes, (1,)))
        yield replace(case, shapes=case.shapes[:b])
    yield replace(case, columns=case.columns[:-1])
    for other in (Real("more", 0, 1), Categorical("more", (0, 1)), Tokens("more", ("a",), 3)):
        yield replace(case, columns=(*case.columns, other))
    for i, column in enumerate(case.columns):
        for other in _other_columns(column):
            yield replace(case, columns=(*case.columns[:i], other, *case.columns[i + 1 :]))


def of_wrong_type(case: Case) -> Iterator[Case]:
    """Cases whose states have the wrong type or layout."""
    yield replace(case, state=list(case.state))
    yield replace(case, state=(*case.state, np.zeros(1)))
    for i, array in enumerate(case.state):
        others: list[Any] = [
            np.zeros(array.shape, np.float16),
            array.astype(array.dtype.newbyteorder()),
            array[None],
            array.tolist(),
            None,
            np.ma.masked_array(array),
        ]
        if array.shape[-1] > 1:
            others.append(np.repeat(array, 2, axis=-1)[..., ::2])
        if array.dtype.kind == "f":
            others += [np.full_like(array, bad) for bad in (np.nan, np.inf, -np.inf)]
        for other in others:
            yield replace(case, state=(*case.state[:i], other, *case.state[i + 1 :]))


def _resized(array: np.ndarray) -> Iterator[np.ndarray]:
    for axis in range(array.ndim):
        yield from _resized_along(array, axis)


def _with_resized_axes(kernel: AnyKernel, state: Any) -> Iterator[tuple[np.ndarray, ...]]:
    """Each named axis shorter or longer by one, in all arrays alike: only the rules can refuse."""
    for name in {axis for array in arrays_of(kernel.layout) for axis in array.axes}:
        for longer in (False, True):
            changed = []
            for declared, array in zip(arrays_of(kernel.layout), state):
                other = array
                for axis in np.flatnonzero([each == name for each in declared.axes]):
                    other = list(_resized_along(other, int(axis)))[longer]
                changed.append(_read_only(other))
            yield tuple(changed)


def _resized_along(array: np.ndarray, axis: int) -> Iterator[np.ndarray]:
    yield np.delete(array, -1, axis)
    last = [-1] if array.shape[axis] else []
    yield np.concatenate([array, np.take(array, last, axis)], axis)


def _with_other_entries(array: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    integers = [-1, int(array.max(initial=0)) + 1, 2**62, -(2**63)]
    largest = np.finfo(array.dtype).max if array.dtype.kind == "f" else 0
    floats = [np.nan, np.inf, largest, -largest, 0.0, -1.0, 1e-30, 0.3]
    for value in integers if array.dtype.kind == "i" else floats:
        for place in {0, array.size - 1, int(rng.integers(array.size))}:
            other = array.copy()
            other.flat[place] = value
            yield other
        yield np.full_like(array, value)
    if array.dtype.kind == "i":
        yield from (array + 1, array - 1, np.roll(array, 1), array[::-1].copy(), array * 2)


def _other_columns(column: Column) -> Iterator[Column]:
    yield Real(column.name, -1e100, 1e100)
    yield Real(column.name, -1, 0.5)
    yield Time(column.name, "2004-01", "2004-12")
    yield Tokens(column.name, ("a", "b"), 3)
    match column:
        case Categorical(levels=levels):
            yield Categorical(column.name, tuple(range(len(levels) + 1)))
            yield Integer(column.name, 0, len(levels))
            yield Integer(column.name, -1, len(levels) - 1)
        case Integer(low=low, high=high) if abs(low) < 2**52:
            yield Integer(column.name, low, high + 1)
            yield Integer(column.name, low - 1, high)
        case Tokens(vocabulary=words):
            yield Tokens(column.name, (*words, "more"), column.max_length)


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array

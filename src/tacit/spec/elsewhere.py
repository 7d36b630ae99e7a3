"""Releases made elsewhere: noisy numbers and the law of their noise, as stated by others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import combinations_with_replacement, product
from numbers import Integral, Real
from typing import Any

import numpy as np

from tacit.spec.budget import delta_of, epsilon_of
from tacit.spec.certificate import Certificate
from tacit.spec.columns import Label
from tacit.spec.errors import QueryError
from tacit.spec.keys import Is, Key, labels_of, name_of
from tacit.spec.moments import Moments, scale_of
from tacit.spec.queries import Counts, Query
from tacit.spec.release import Axis, Block, Family, Noise, Release
from tacit.spec.schema import Schema

_FAMILIES: Mapping[str, Family] = {
    "laplace": "laplace",
    "gaussian": "gaussian",
    "geometric": "discrete_laplace",
    "discrete_laplace": "discrete_laplace",
    "discrete_gaussian": "discrete_gaussian",
}
_LARGEST = 1e15  # as large as counts and sums get while doubles still tell neighbours apart


def release_from_table(
    values: Mapping[Any, float],
    *,
    schema: Schema,
    query: Query,
    noise: str,
    scale: float | Mapping[str, float],
    n: int | None = None,
    epsilon: Any = None,
    delta: Any = 0,
) -> Release:
    """A release that was made elsewhere, such as by OpenDP, Tumult or a census bureau.

    Parameters
    ----------
    values
        The noisy numbers. For `Counts` of one column: from level to count, None being the
        missing values; one of two levels is enough where both add up to `n`. For columns
        counted together, or within `by`: from a tuple of levels to count. For several tables:
        from each entry of the query's columns to such a mapping. For `Moments`: from name to
        number, "rows", "bmi", "bmi*bmi", as sums in the original units.
    schema, query
        What the numbers are about. `Moments(..., centred=False)` for sums of x itself.
    noise
        "laplace", "gaussian", or on whole numbers "geometric" (the same as
        "discrete_laplace") and "discrete_gaussian".
    scale
        Laplace's b or the Gaussian's sigma, in the units of the numbers; one for all, or a
        mapping from name to scale.
    n
        The number of units where it is public, as it is under replace_one.
    epsilon, delta
        What those who released it said it cost; Tacit cannot know.

    Examples
    --------
    >>> import tacit
    >>> schema = tacit.Schema(
    ...     tacit.Categorical("smoker", ["no", "yes"], default="no"), neighbours="add_remove"
    ... )
    >>> release = tacit.release_from_table(
    ...     {"no": 812, "yes": 193}, schema=schema, query=tacit.queries.Counts("smoker"),
    ...     noise="geometric", scale=2.0, epsilon=0.5,
    ... )
    >>> posterior = tacit.BetaBernoulli("smoker", success="yes").posterior(release)
    """
    family = _FAMILIES.get(noise)
    if family is None:
        raise QueryError(f"Expected noise={noise!r} among {', '.join(_FAMILIES)}.")
    if not isinstance(values, Mapping) or not values:
        raise QueryError("Expected values as a mapping from names to noisy numbers.")
    if (n is None) != (schema.neighbours == "add_remove"):
        raise QueryError("Expected n= under replace_one, where it is public, and only there.")
    # Whole numbers of NumPy and pandas are as good as Python's.
    if n is not None and (isinstance(n, bool) or not isinstance(n, Integral) or n < 0):
        raise QueryError(f"Expected n={n!r} to be a whole number >= 0.")
    units = None if n is None else int(n)
    match query:
        case Counts():
            query, blocks, parts = _counts(values, query, schema, scale, units)
        case Moments():
            blocks, parts = _moments(values, query, schema, scale)
        case _:
            raise QueryError("Expected a query of tacit.queries.Counts or tacit.queries.Moments.")
    whole = family.startswith("discrete") and isinstance(query, Counts)
    laws = tuple(Noise(family, b, 1.0 if whole else _grid(numbers, b)) for numbers, b in parts)
    integers = [np.rint(numbers / law.grid) for (numbers, _), law in zip(parts, laws, strict=True)]
    if whole and any(np.any(i != numbers) for i, (numbers, _) in zip(integers, parts, strict=True)):
        raise QueryError(f'Expected whole numbers with noise={noise!r}, or noise="laplace".')
    return Release(
        integers=np.concatenate(integers).astype(np.int64),
        blocks=blocks,
        noise=laws,
        n=units,
        schema=schema,
        query=query,
        certificate=_certificate(schema, laws, epsilon, delta),
    )


Parts = list[tuple[np.ndarray, float]]  # numbers of a block, and the scale of their noise


def _counts(
    values: Mapping[Any, float],
    query: Counts,
    schema: Schema,
    scale: float | Mapping[str, float],
    n: int | None,
) -> tuple[Counts, tuple[Block, ...], Parts]:
    """The tables, and the query that they answer: a count of each level where given so."""
    match query.columns:
        case (Is(column=name) as key,) if not set(values) <= {*labels_of(key, schema), None}:
            query = Counts((name,))  # proportions of a whole add up
    if len(query.columns) == 1:
        given: Mapping[Any, Any] = {query.names[0]: values}
    else:
        asked = dict(zip(query.columns, query.names, strict=True))
        given = {asked.get(entry, entry): cells for entry, cells in values.items()}
        if set(given) != set(query.names) or not all(
            isinstance(c, Mapping) for c in given.values()
        ):
            raise QueryError(f"Expected a mapping of counts for each of {_listed(query.names)}.")
    blocks, parts = [], []
    for name, keys in zip(query.names, query.tables, strict=True):
        block, numbers = _table(given[name], name, (*query.by, *keys), schema, n)
        blocks.append(block)
        parts.append((numbers, _scale(scale, name)))
    return query, tuple(blocks), parts


def _table(
    values: Mapping[Any, Any], name: str, keys: tuple[Key, ...], schema: Schema, n: int | None
) -> tuple[Block, np.ndarray]:
    """One table: from labels, or tuples of them, to counts."""
    levels = [labels_of(key, schema) for key in keys]
    one = len(keys) == 1
    cells = {(at,) if one else at: value for at, value in values.items()}
    if not all(isinstance(at, tuple) and len(at) == len(keys) for at in cells):
        raise QueryError(f"Expected {len(keys)} labels for each count of {name!r}.")
    axes: list[tuple[Label, ...]] = []
    for i, (key, labels) in enumerate(zip(keys, levels, strict=True)):
        column, total = name_of(key), schema[name_of(key)].default is not None
        gaps = any(at[i] is None for at in cells)
        if gaps and total:
            raise QueryError(f"Expected no missing values: {column!r} has a default.")
        if n is not None and not total and not gaps:
            raise QueryError(
                f"Expected how many of the n rows have no {column!r}, as None: ..., or a schema "
                f"with default= for it, if all of them have one."
            )
        axes.append((*labels, None) if gaps else labels)
    omitted: tuple[Label, ...] = ()
    numbers = {at: _number(value, _shown(at)) for at, value in cells.items()}
    labels = levels[0]
    if one and n is not None and None not in axes[0] and len(labels) == 2:
        if schema.max_rows_per_unit == 1 and set(numbers) == {labels[:1]}:  # they add up to n
            numbers = {labels[1:]: n - numbers[labels[:1]]}
        if schema.max_rows_per_unit == 1 and set(numbers) == {labels[1:]}:
            axes, omitted = [labels[1:]], labels[:1]
    if math.prod(map(len, axes)) != len(numbers) or set(numbers) != set(product(*axes)):
        wanted = _listed(labels) if one else "each combination of levels"
        raise QueryError(f"Expected values for {wanted}, got {_listed(map(_shown, cells))}.")
    block = Block(name, tuple(map(Axis, map(name_of, keys), axes)), omitted)
    return block, np.array([numbers[at] for at in product(*axes)])


def _shown(at: tuple[Label, ...]) -> str:
    return str(at[0]) if len(at) == 1 else str(at)


def _moments(
    values: Mapping[Any, float], query: Moments, schema: Schema, scale: float | Mapping[str, float]
) -> tuple[tuple[Block, ...], Parts]:
    names = query.names[1:] if query.rows_are_public(schema) else query.names
    if set(names) - set(values) or set(values) - set(query.names):
        raise QueryError(f"Expected values for {_listed(names)}, got {_listed(values)}.")
    if query.centred:
        raise QueryError(
            "Expected query=tacit.queries.Moments(..., centred=False) for sums of x itself."
        )
    largest = [scale_of(schema[column], centred=False)[1] for column in query.columns]
    units = [1.0, *largest]
    if query.degree == 2:
        units += [a * b for a, b in combinations_with_replacement(largest, 2)]
    parts: Parts = []
    for name, unit in zip(query.names, units, strict=True):
        if name in names:
            number = _number(values[name], name) / unit
            parts.append((np.array([number]), _scale(scale, name) / unit))
    return tuple(Block(name, ()) for name in names), parts


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(str, names))


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise QueryError(f"Expected a number for {name!r}, got {value!r}.")
    if not abs(float(value)) <= _LARGEST:
        raise QueryError(f"Expected a number up to {_LARGEST:g} for {name!r}, got {value!r}.")
    return float(value)


def _scale(scale: float | Mapping[str, float], name: str) -> float:
    given = scale.get(name) if isinstance(scale, Mapping) else scale
    if isinstance(given, bool) or not isinstance(given, (Real, Decimal)) or not given > 0:
        raise QueryError(f"Expected scale > 0 for {name!r}, got {given!r}.")
    return _number(given, name)


def _grid(numbers: np.ndarray, scale: float) -> float:
    """A step so fine beside the noise that rounding to it does not matter."""
    largest = max(float(np.abs(numbers).max()), scale)
    return 2.0 ** (math.ceil(math.log2(largest)) - 50)


def _certificate(schema: Schema, laws: tuple[Noise, ...], epsilon: Any, delta: Any) -> Certificate:
    claim = "at a cost that was not stated"
    cost = Decimal("Infinity")
    if epsilon is not None:
        cost = epsilon_of(epsilon)
        claim = (
            f"said to be ({cost}, {delta_of(delta)})-differentially private for {schema.protects}"
        )
    return Certificate(
        unit=schema.protects,
        neighbours=schema.neighbours,
        epsilon=cost,
        delta=delta_of(delta),
        accountant="stated by those who released it",
        events=tuple({"noise": law.family, "scale": law.scale} for law in laws),
        assumptions=(claim, "Tacit trusts the stated law of the noise and vouches for nothing"),
        data="released elsewhere",
    )

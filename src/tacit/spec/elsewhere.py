"""Releases made elsewhere: noisy numbers and the law of their noise, as stated by others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.spec.budget import delta_of, epsilon_of
from tacit.spec.certificate import Certificate
from tacit.spec.errors import QueryError
from tacit.spec.keys import Is, labels_of, name_of
from tacit.spec.moments import ROWS, Moments, scale_of
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


def release_from_table(
    values: Mapping[Any, float],
    schema: Schema,
    query: Query,
    noise: str,
    scale: float | Mapping[str, float],
    n: int | None,
    epsilon: Any,
    delta: Any,
) -> Release:
    """See `Release.from_table`."""
    family = _FAMILIES.get(noise)
    if family is None:
        raise QueryError(f"Expected noise={noise!r} among {', '.join(_FAMILIES)}.")
    if not isinstance(values, Mapping) or not values:
        raise QueryError("Expected values as a mapping from names to noisy numbers.")
    if (n is None) != (schema.neighbours == "add_remove"):
        raise QueryError("Expected n= under replace_one, where it is public, and only there.")
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 0):
        raise QueryError(f"Expected n={n!r} to be a whole number >= 0.")
    match query:
        case Counts():
            blocks, parts = _counts(values, query, schema, scale)
        case Moments():
            blocks, parts = _moments(values, query, schema, scale)
        case _:
            raise QueryError("Expected a query of tacit.Counts or tacit.Moments.")
    whole = family.startswith("discrete") and isinstance(query, Counts)
    laws = tuple(Noise(family, b, 1.0 if whole else _grid(numbers, b)) for numbers, b in parts)
    steps = [np.rint(numbers / law.grid) for (numbers, _), law in zip(parts, laws, strict=True)]
    if whole and any(np.any(s * law.grid != p[0]) for s, law, p in zip(steps, laws, parts)):
        raise QueryError(f'Expected whole numbers with noise={noise!r}, or noise="laplace".')
    return Release(
        steps=np.concatenate(steps).astype(np.int64),
        blocks=blocks,
        noise=laws,
        n=n,
        schema=schema,
        query=query,
        certificate=_certificate(schema, laws, epsilon, delta),
    )


Parts = list[tuple[np.ndarray, float]]  # numbers of a block, and the scale of their noise


def _counts(
    values: Mapping[Any, float], query: Counts, schema: Schema, scale: float | Mapping[str, float]
) -> tuple[tuple[Block, ...], Parts]:
    if len(query.columns) != 1 or query.by:
        raise QueryError("Expected Counts of one column; combine more by hand.")
    (key,) = query.columns
    name = name_of(key)
    labels = labels_of(key, schema)
    if isinstance(key, Is) and not set(values) <= {*labels, None}:  # given level by level
        known = schema[name].labels
        _check_names(values, known)
        merged = {False: 0.0, True: 0.0}
        for level in known:
            merged[level in key.levels] += float(values[level])
        if len(known) > 2:
            raise QueryError("Expected values for False and True: merged cells add up their noise.")
        values = {**merged, **({None: values[None]} if None in values else {})}
    _check_names(values, labels)
    if None in values:
        labels = (*labels, None)
    numbers = np.array([_number(values[label], str(label)) for label in labels])
    return (Block(name, (Axis(name, labels),)),), [(numbers, _scale(scale, name))]


def _moments(
    values: Mapping[Any, float], query: Moments, schema: Schema, scale: float | Mapping[str, float]
) -> tuple[tuple[Block, ...], Parts]:
    names = query.names[1:] if query.rows_are_public(schema) else query.names
    missing = [name for name in names if name not in values]
    if missing or set(values) - set(query.names):
        raise QueryError(f"Expected values for {', '.join(names)}, got {', '.join(values)}.")
    if query.centred:
        raise QueryError("Expected query=tacit.Moments(..., centred=False) for sums of x itself.")
    parts: Parts = []
    for name in names:
        columns = [] if name == ROWS else [name] if name in query.columns else name.split("*")
        unit = math.prod(scale_of(schema[column], centred=False)[1] for column in columns)
        parts.append((np.array([_number(values[name], name) / unit]), _scale(scale, name) / unit))
    return tuple(Block(name, ()) for name in names), parts


def _check_names(values: Mapping[Any, float], labels: tuple[Any, ...]) -> None:
    wanted, given = set(labels), set(values) - {None}
    if given != wanted:
        raise QueryError(
            f"Expected values for {', '.join(map(str, labels))}, got {', '.join(map(str, values))}."
        )


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not np.isscalar(value) or not math.isfinite(value):  # type: ignore[arg-type]
        raise QueryError(f"Expected a finite number for {name!r}, got {value!r}.")
    return float(value)  # type: ignore[arg-type]


def _scale(scale: float | Mapping[str, float], name: str) -> float:
    given = scale.get(name) if isinstance(scale, Mapping) else scale
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < math.inf:
        raise QueryError(f"Expected scale > 0 for {name!r}, got {given!r}.")
    return float(given)


def _grid(numbers: np.ndarray, scale: float) -> float:
    """A step so fine beside the noise that rounding to it does not matter."""
    largest = max(float(np.abs(numbers).max()), scale)
    return 2.0 ** (math.ceil(math.log2(largest)) - 50)


def _certificate(schema: Schema, laws: tuple[Noise, ...], epsilon: Any, delta: Any) -> Certificate:
    said = "at a cost that was not stated"
    cost = Decimal("Infinity")
    if epsilon is not None:
        cost = epsilon_of(epsilon)
        said = (
            f"said to be ({cost}, {delta_of(delta)})-differentially private for {schema.protects}"
        )
    return Certificate(
        unit=schema.protects,
        neighbours=schema.neighbours,
        epsilon=cost,
        delta=delta_of(delta),
        accountant="stated by those who released it",
        events=tuple({"noise": law.family, "scale": law.scale} for law in laws),
        assumptions=(said, "Tacit trusts the stated law of the noise and vouches for nothing"),
        data="released elsewhere",
    )

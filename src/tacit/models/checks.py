"""What a model refuses: options that make no sense, and releases that do not answer its query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.spec.checks import is_number, set_fields
from tacit.spec.draws import (
    BallRegression,
    BoundedMeanSd,
    BoundedNormal,
    ConjugateDraw,
    TruncatedDirichlet,
)
from tacit.spec.errors import ModelError
from tacit.spec.keys import Is
from tacit.spec.moments import Moments, bounds_of
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import SamplingOptions
from tacit.spec.schema import Schema

# Parameters: with more, noise hides most of a Hessian at the budgets that people have, and
# coordinates in which it is even are worse than public ones.
MOST_WHITENED = 30


def check_answers(release: Release, query: Counts | Moments) -> None:
    """Refuse a release that cannot serve: other counts, or without the moments that are needed.

    Counts of each level serve for some of them together, and draws from counts under any prior.
    """
    match query, release.query:
        case Counts(columns=(Is(column=column),)), Counts(columns=(str() as counted,), by=()):
            serves = column == counted  # each of its levels
        case Counts(columns=columns), ConjugateDraw(law=TruncatedDirichlet(key=key)):
            serves = (key,) == columns
        case Moments(columns=(column,)), ConjugateDraw(law=BoundedNormal(column=drawn)):
            serves = column == drawn
        case Moments(columns=(column,), degree=2), ConjugateDraw(law=BoundedMeanSd(column=drawn)):
            serves = column == drawn
        case Moments(columns=columns), ConjugateDraw(law=BallRegression() as law):
            serves = columns == (*law.features, law.target)
        case Moments(), Moments() as asked:
            serves = set(query.columns) <= set(asked.columns) and query.degree <= asked.degree
        case _:
            serves = query == release.query
    if not serves:
        raise ModelError(f"This release answers {release.query}, not {query}.")


def refuse_draws(options: SamplingOptions) -> None:
    """Refuse draws= and chains= where a release holds the draws."""
    for what in ("draws", "chains"):
        if options.get(what) is not None:
            raise ModelError(f"Expected no {what}=: there are as many draws as were paid for.")


def keep_numbers(model: Any, *names: str, above: float | None = 0) -> None:
    """Check that options are numbers, and keep them as floats; None stays."""
    for name in names:
        value = getattr(model, name)
        set_fields(model, **{name: None if value is None else number(value, name, above=above)})


def number(value: Any, what: str, *, above: float | None = None) -> float:
    """Return an option as a finite float, larger than `above`."""
    if not is_number(value) or abs(value) > 1e100:
        raise ModelError(f"Expected a finite number for {what}, got {value!r}.")
    if above is not None and not value > above:
        raise ModelError(f"Expected {what}={value} > {above:g}.")
    return float(value)


def several(values: Any, length: int, what: str) -> tuple[Any, ...]:
    """Return a tuple of `length` values."""
    if not isinstance(values, (tuple, list)) or len(values) != length:
        raise ModelError(f"Expected {what} with {length} numbers, got {values!r}.")
    return tuple(values)


def positive(values: Any, length: int, what: str) -> tuple[float, ...]:
    """Return prior parameters as floats: finite and positive, so that the prior is proper."""
    for value in several(values, length, what):
        if not is_number(value) or not 1e-6 <= value <= 1e12:
            raise ModelError(f"Expected {what} between 1e-6 and 1e12, got {value!r}.")
    return tuple(float(value) for value in values)


def concentration(model: Any, *names: str) -> None:
    """Check concentrations of Dirichlet priors, one number each, and keep them as floats."""
    for name in names:
        set_fields(model, **{name: positive((getattr(model, name),), 1, name)[0]})


def check_reach(schema: Schema, name: str, *, mean: Any = None, sd: Any = None) -> None:
    """Refuse a mean or a standard deviation that has nothing to do with the column's bounds."""
    low, high = bounds_of(schema[name])
    width = high - low
    if mean is not None and not low - 100 * width <= mean <= high + 100 * width:
        raise ModelError(
            f"Expected a prior mean of {name!r} near its bounds, {low:g} to {high:g}, got {mean:g}."
        )
    if sd is not None and not 1e-5 * width <= sd <= 100 * width:
        raise ModelError(
            f"Expected a standard deviation of {name!r} from {1e-5 * width:g} to {100 * width:g}, "
            f"since its bounds are {low:g} and {high:g}; got {sd:g}."
        )


def names_of(value: Any, what: str, *, but: str | None = None) -> tuple[str, ...]:
    """Return names of columns: one or more, each once, and not the target `but`."""
    if isinstance(but, str) and "~" in but:
        target, _, rest = (part.strip() for part in but.partition("~"))
        listed = [part.strip() for part in rest.split("+")]
        raise ModelError(
            f"Expected columns, not a formula: write target={target!r}, features={listed}."
        )
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names or len(set(names)) < len(names) or not all(isinstance(n, str) for n in names):
        raise ModelError(f"Expected at least one {what}, each once, got {value!r}.")
    if but in names:
        raise ModelError(f"Expected the target {but!r} not to be a {what} too.")
    return names


def features_of(schema: Schema, names: Sequence[str], *types: type[Any]) -> list[Any]:
    """Return the columns of these names, all of them of the types that a model can use."""
    for name in names:
        if not isinstance(schema[name], types):
            wanted = " or ".join(each.__name__ for each in types)
            raise ModelError(f"Expected feature {name!r} to be {wanted}.")
    return [schema[name] for name in names]

"""From a query to what is measured, and from a source to the data: the wall's two dispatches."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse

from tacit.accounting import Calibration
from tacit.spec.choice import Choice
from tacit.spec.columns import Tokens
from tacit.spec.density import DensityDraw
from tacit.spec.draws import ConjugateDraw
from tacit.spec.errors import BudgetError, QueryError, SourceError
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles
from tacit.spec.logistic import LogisticDraw, LogisticMinimum
from tacit.spec.mechanisms import Exact, Exponential, Gaussian, Laplace, Mechanism
from tacit.spec.moments import Moments
from tacit.spec.queries import Counts, Query
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.wall.answers._choice import ResolvedChoice, resolve_choice
from tacit.wall.answers._counts import ResolvedCounts, resolve_counts
from tacit.wall.answers._density import ResolvedDensity, resolve_density
from tacit.wall.answers._draw import ResolvedDraw, resolve_draw
from tacit.wall.answers._logistic import ResolvedLogistic, resolve_logistic
from tacit.wall.answers._moments import ResolvedMoments, resolve_moments
from tacit.wall.answers._states import ResolvedStates, resolve_states
from tacit.wall.data._documents import DocumentSource, open_documents
from tacit.wall.data._rows import count_units
from tacit.wall.data._source import open_source, shielded
from tacit.wall.data._texts import TextSource, open_texts
from tacit.wall.sums._sums import AnySource, ResolvedSum, resolve_sum

Draws = ResolvedDraw | ResolvedChoice | ResolvedDensity | ResolvedStates
Resolved = ResolvedCounts | ResolvedMoments | ResolvedSum | ResolvedLogistic | Draws


def open_data(data: Any, schema: Schema, units: Any = None) -> AnySource:
    """Check path, header, shapes and types. No cell is looked at."""
    if issparse(data):
        return open_documents(data, schema, units)
    if units is not None:
        raise SourceError("Expected units= beside a sparse matrix only; a table has a column.")
    source = open_source(data, schema)
    if any(isinstance(column, Tokens) for column in schema.columns):
        return open_texts(source, schema)
    return source


def public_units(source: AnySource, schema: Schema) -> int | None:
    """How many units there are; None where neighbours differ in it."""  # proof: units
    if schema.neighbours != "replace_one":
        return None
    if isinstance(source, (DocumentSource, TextSource)):
        return shielded(source.units, paid=False)
    return shielded(lambda: count_units(source, schema), paid=False)


def resolve(query: Query, schema: Schema) -> Resolved:
    """Look up what is public, derive the sensitivity, compile the map. Opens no data."""
    match query:
        case Counts():
            return resolve_counts(query, schema)
        case Moments():
            return resolve_moments(query, schema)
        case BoundedSum():
            return resolve_sum(query, schema)
        case ConjugateDraw():
            return resolve_draw(query, schema)
        case LogisticDraw() | LogisticMinimum():
            return resolve_logistic(query, schema)
        case Choice():
            return resolve_choice(query, schema)
        case DensityDraw():
            return resolve_density(query, schema)
        case StatePaths() | StateProfiles() | StateChain():
            return resolve_states(query, schema)
        case _:
            raise QueryError(f"Expected a query such as tacit.Counts(...), got {query!r}.")


def calibrated(mechanism: Mechanism, resolved: Resolved) -> Calibration:
    """The noise of a private release, or the temperature of a private draw."""
    match resolved, mechanism:
        case _, Exact():
            raise BudgetError("Exact() is not private: only tacit.Public accepts it.")
        case ResolvedDraw() | ResolvedChoice() | ResolvedStates(), Exponential():
            return resolved.calibrate(mechanism)
        case ResolvedDensity(), Exponential():
            return resolved.calibrate(mechanism)
        case ResolvedDraw() | ResolvedChoice() | ResolvedStates() | ResolvedDensity(), _:
            raise BudgetError(f"Expected tacit.Exponential(epsilon) for a draw, got {mechanism!r}.")
        case ResolvedLogistic(), _:
            return resolved.calibrate(mechanism)
        case _, Laplace() | Gaussian():
            return resolved.calibrate(mechanism)
        case _:
            raise BudgetError(f"Expected tacit.Laplace or tacit.Gaussian, got {mechanism!r}.")

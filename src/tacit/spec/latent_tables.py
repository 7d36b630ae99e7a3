"""Tables of latent classes, drawn given assignments that stay behind the wall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.spec.checks import distinct_columns, doubles, number, set_fields
from tacit.spec.draws import checked_share
from tacit.spec.errors import QueryError
from tacit.spec.hidden_states import MOST_STATES
from tacit.spec.wire import Record

WEIGHTS = "(weights)"  # the classes' own probabilities, among what is drawn
_LEAST, _LARGEST = 1e-12, 1e9


@dataclass(frozen=True, eq=False)
class LatentTables(Record):
    """Probabilities of levels in each class, from a Dirichlet law given latent assignments.

    Behind the wall each row is assigned to a class, with its probability given the public `weights`
    and `probabilities`; of a document each word is, given topic proportions that are drawn for the
    document. Then `drawn` are drawn given how often each class has each level, and the assignments
    are forgotten.

    Parameters
    ----------
    columns
        Categories, or a single column of documents.
    weights
        The probabilities of the classes; of documents the Dirichlet concentrations of their topics.
    probabilities
        For each column the probabilities of its levels (classes x levels), all positive.
    drawn
        Columns whose tables are drawn, and "(weights)" for the classes' probabilities.
    prior
        The Dirichlet prior's concentration, of levels and of classes.
    truncation
        The smallest probability that is drawn, as a share of 1 / levels: 0 < truncation < 1.

    Examples
    --------
    >>> fever = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> LatentTables(("fever",), [0.5, 0.5], (fever,), ("fever",), truncation=0.1).classes
    2
    """

    columns: tuple[str, ...]
    weights: np.ndarray
    probabilities: tuple[np.ndarray, ...]
    drawn: tuple[str, ...]
    prior: float = 1.0
    truncation: float = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        columns = distinct_columns(self.columns)
        weights, *tables = (doubles(x) for x in (self.weights, *self.probabilities))
        classes = weights.size
        if weights.ndim != 1 or not 1 <= classes <= MOST_STATES or len(tables) != len(columns):
            raise QueryError(
                f"Expected weights of 1 to {MOST_STATES} classes, and a table for each column."
            )
        for array in (weights, *tables):
            positive = np.all((array >= _LEAST) & (array <= _LARGEST))  # refuses NaN, too
            if array.shape[0] != classes or not positive:
                raise QueryError(
                    f"Expected numbers from 1e-12 to 1e9 for each of {classes} classes."
                )
        if any(table.ndim != 2 or table.shape[1] < 1 for table in tables):
            raise QueryError("Expected tables of the shape (classes, levels).")
        drawn = tuple(self.drawn) if isinstance(self.drawn, (tuple, list)) else ()
        if (
            WEIGHTS in columns
            or not drawn
            or len(set(drawn)) < len(drawn)
            or not (set(drawn) <= {*columns, WEIGHTS})
        ):
            raise QueryError(f"Expected drawn to be some of {[*columns, WEIGHTS]}, each once.")
        set_fields(
            self,
            columns=columns,
            weights=weights,
            probabilities=tuple(tables),
            drawn=drawn,
            prior=number(self.prior, "prior", 1e-6, 1e9),
            truncation=checked_share(self.truncation),
        )

    @property
    def classes(self) -> int:
        return len(self.weights)

    def count_levels(self, name: str) -> int:
        """How many probabilities a class has of a column, or there are of classes."""
        if name == WEIGHTS:
            return self.classes
        return int(self.probabilities[self.columns.index(name)].shape[1])

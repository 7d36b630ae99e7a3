"""About how many rows had no value: by a release's own noisy numbers, never by the data.

A level that is misspelt, another encoding or another way to write dates makes cells that match
nothing. What a release counted says so, at no cost: it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.spec.columns import Categorical, Column
from tacit.spec.keys import Is, name_of
from tacit.spec.moments import ROWS, Moments
from tacit.spec.queries import Counts, columns_of

if TYPE_CHECKING:
    from tacit.spec.release import Block, Release

# Ends of intervals, in standard deviations of the noise: 90% for a Gaussian, 90.2% for one Laplace
# number and between the two for sums of them.
Z = 1.645
# Above this share at the lower end of the interval a warning stands. Beyond it, rows that are
# missing for a reason can move a share of a half by more than 10 points, which is more than most
# intervals are wide; and if it is no more than this, at most 5% of releases warn.
MUCH = 0.2
# Below this share, and not significantly more than none, a level beside a default is suspected. At
# most 5% of releases whose levels all have this share or more warn, however many levels they count.
FEW = 0.01


@dataclass(frozen=True)
class Missing:
    """About which share of rows has no value in at least one of `columns`.

    Attributes
    ----------
    columns
        The columns that were looked at together.
    low, high
        The ends of a 90% interval of the share, the noise of the release included; None where the
        share was not measured, and `reason` says why.
    share
        An estimate, where there is one.
    replaced
        Whether a default stood in for them, so that nothing counts them.
    """

    columns: tuple[str, ...]
    share: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    replaced: bool = False

    @property
    def much(self) -> bool:
        """Whether it is certainly more than a fifth."""
        return self.low is not None and self.low > MUCH

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return self.reason
        if self.high < 5e-4:
            return f"hardly any rows (less than 0.1%) have no value in {_either(self.columns)}"
        digits = 1 if self.high - self.low < 0.02 else 0
        low, high = (f"{100 * end:.{digits}f}%" for end in (self.low, self.high))
        where = f"have no value in {_either(self.columns)}"
        if self.share is None:
            return f"{low} to {high} of rows {where}"
        return f"about {100 * self.share:.{digits}f}% of rows ({low} to {high}) {where}"


@dataclass(frozen=True)
class Rows:
    """About how many rows have a value, and the standard deviation of the noise in it."""

    estimate: float
    sd: float

    def __str__(self) -> str:
        about = f"{self.estimate:,.0f}"
        sd = f"{self.sd:,.0f}" if self.sd >= 10 else f"{self.sd:.2g}"
        return about if self.sd == 0 else f"about {about} (noise of sd {sd})"


def most_rows(release: Release) -> float:
    """The most rows that may have a value, by public facts."""
    return math.inf if release.n is None else release.n * release.schema.max_rows_per_unit


def missing(release: Release) -> tuple[Missing, ...]:
    """What a release says of rows without a value: for each table of counts, or for all moments.

    Columns with a default have one each, which says that nothing is known of them.
    """
    schema, query = release.schema, release.query
    used = columns_of(query, schema)
    optional = tuple(column.name for column in used if column.default is None)
    found: list[Missing] = []
    if not optional:
        pass
    elif isinstance(query, Counts):
        found += _in_tables(release)
    elif isinstance(query, Moments):
        found.append(_in_moments(release, optional))
    else:
        found.append(_unknown(optional, "the question does not count them"))
    return (*found, *(_replaced(column) for column in used if column.default is not None))


def rows_of(release: Release) -> Rows | None:
    """About how many rows have a value in all columns, or in a first table; None if not measured.

    Rows that have a default are among them.
    """
    schema, query = release.schema, release.query
    one_each = schema.neighbours == "replace_one" and schema.max_rows_per_unit == 1
    used = columns_of(query, schema)
    if one_each and release.n is not None and all(c.default is not None for c in used):
        return Rows(float(release.n), 0.0)
    if isinstance(query, Moments) and any(block.name == ROWS for block in release.blocks):
        table = release.table(ROWS)
        return Rows(max(float(table.value), 0.0), math.sqrt(table.noise.variance or 0.0))
    if isinstance(query, Counts) and not release.blocks[0].omitted:
        values, without, variance = _table(release, release.blocks[0].name)
        complete = values[~without]
        return Rows(max(float(complete.sum()), 0.0), math.sqrt(complete.size * variance))
    return None


def warnings_of(release: Release) -> tuple[str, ...]:
    """Sentences to warn with, where much is missing."""
    if release.n == 0:
        return ("the table has no rows: the answer is the prior's alone; is its file empty?",)
    lost = tuple(
        f"{each}: unless the data lack them, check the schema's levels, codes, bounds and date "
        "format and the source's encoding; the answer is about the other rows alone"
        for each in missing(release)
        if each.much
    )
    return lost + tuple(_emptied(release))


def _emptied(release: Release) -> Iterator[str]:
    """Sentences about levels that noise cannot tell from none, beside a default.

    A default takes cells that cannot be read, so that nothing counts those of a misspelt level;
    but its own count is then noise alone.
    """
    query, schema = release.query, release.schema
    if not isinstance(query, Counts):
        return
    said: set[str] = set()
    levels = sum(len(axis.labels) for block in release.blocks for axis in block.axes)
    sure = 1 - 2 * 0.05 / levels
    for keys, block in zip(query.tables, release.blocks, strict=True):
        for at, key in enumerate([*query.by, *keys]):
            column = schema[name_of(key)]
            if not isinstance(column, Categorical) or column.default is None:
                continue
            rare = _rare(release, block, at, sure)
            if isinstance(key, Is):  # False and True: these levels, and the others
                other = tuple(each for each in column.levels if each not in key.levels)
                rare = [each for is_in in rare for each in (key.levels if is_in else other)]
            if rare and column.name not in said:
                said.add(column.name)
                yield (
                    f"hardly a row has {_either(rare)} in {column.name!r} (fewer than "
                    f"{100 * FEW:g}%): unless that is so, check how the data spell it, codes and "
                    f"encoding, since default={column.default!r} takes every cell that cannot be "
                    "read"
                )


def _rare(release: Release, block: Block, at: int, sure: float) -> list[Any]:
    """Labels of an axis of a table whose counts are few, and not significantly more than none.

    `sure` is the probability of each interval. That of a sum of Laplace noise is a bit too wide.
    """
    values, _, _ = _table(release, block.name)
    labels = [*block.omitted, *block.axes[at].labels]
    counts = np.moveaxis(values, at, 0).reshape(values.shape[at], -1)
    half = release.table(block.name).noise.half_width(sure) or 0.0
    most = half * math.sqrt(counts.shape[1])
    counts = counts.sum(axis=1)
    if block.omitted:  # of two cells that sum to n, the other
        counts = np.array([(release.n or 0) - counts[0], *counts])
    few = (counts <= most) & (counts + most < FEW * counts.sum())
    return [label for label, is_few in zip(labels, few, strict=True) if is_few]


def _table(release: Release, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Cells of a table of counts, which are of rows without a value, and the noise of each."""
    table = release.table(name)
    without = np.zeros(table.block.shape, bool)
    for i, axis in enumerate(table.block.axes):
        if axis.labels and axis.labels[-1] is None:
            without[(slice(None),) * i + (-1,)] = True
    return table.value, without, table.noise.variance or 0.0


def _in_tables(release: Release) -> list[Missing]:
    found = []
    for block in release.blocks:
        columns = tuple(axis.name for axis in block.axes if None in axis.labels[-1:])
        if not columns:
            continue
        values, without, variance = _table(release, block.name)
        lacking, complete = float(values[without].sum()), float(values[~without].sum())
        parts = without.sum() * variance, (~without).sum() * variance
        if release.n is not None and release.schema.max_rows_per_unit == 1:
            if variance:  # all cells sum to n: two measurements of one number
                weights = 1 / np.array(parts)
                known = np.array([lacking, release.n - complete])
                lacking, sd = float(known @ weights / weights.sum()), weights.sum() ** -0.5
            else:
                sd = 0.0
            found.append(_of_total(columns, lacking, float(sd), release.n))
        else:
            found.append(_of_ratio(columns, lacking, complete, *map(float, parts)))
    return found


def _in_moments(release: Release, columns: tuple[str, ...]) -> Missing:
    rows, n, most = rows_of(release), release.n, release.schema.max_rows_per_unit
    if n is None:
        return _unknown(columns, "complete rows are counted, and all rows are not under add_remove")
    if rows is None or n == 0:
        return _unknown(columns, "the release has no rows to count")
    if most == 1:
        return _of_total(columns, n - rows.estimate, rows.sd, n)
    # Between one row of each unit and all that it may have.
    least = 1 - (rows.estimate + Z * rows.sd) / n
    return Missing(
        columns,
        low=float(np.clip(least, 0, 1)),
        high=float(np.clip(1 - (rows.estimate - Z * rows.sd) / (most * n), 0, 1)),
    )


def _of_total(columns: tuple[str, ...], lacking: float, sd: float, n: int) -> Missing:
    if n == 0:
        return _unknown(columns, "there are no rows")
    share, low, high = np.clip(np.array([lacking, lacking - Z * sd, lacking + Z * sd]) / n, 0, 1)
    return Missing(columns, float(share), float(low), float(high))


def _of_ratio(
    columns: tuple[str, ...], lacking: float, complete: float, noise: float, other: float
) -> Missing:
    """Fieller's interval of a ratio of noisy numbers: the shares that they do not contradict."""
    shares = np.linspace(0, 1, 2001)
    off = (1 - shares) * lacking - shares * complete
    sd = np.sqrt((1 - shares) ** 2 * noise + shares**2 * other)
    # Half a step of the grid is allowed for: without noise a single share is left.
    within = shares[np.abs(off) <= Z * sd + 5e-4 * max(abs(lacking) + abs(complete), 1)]
    total = lacking + complete
    share = float(np.clip(lacking / total, 0, 1)) if total > 0 else None
    if within.size == 0:  # negative counts, by noise
        return Missing(columns, share, 0.0, 1.0)
    return Missing(columns, share, float(within[0]), float(within[-1]))


def _replaced(column: Column) -> Missing:
    return Missing(
        (column.name,),
        reason=f"cells of {column.name!r} that are empty or outside the schema count as "
        f"{column.default!r} (default=): how many is not known",
        replaced=True,
    )


def _unknown(columns: tuple[str, ...], why: str) -> Missing:
    text = f"how many rows have no value in {_either(columns)} was not measured: {why}"
    return Missing(columns, reason=text)


def _either(columns: Sequence[Any]) -> str:
    shown = [repr(name) for name in columns[:6]] + ["..."] * (len(columns) > 6)
    return " or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]

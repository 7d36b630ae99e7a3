"""From released clique tables to draws of a Markov random field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.infer.categorical import known_rows, project
from tacit.infer.networks import Seen, seen_tables
from tacit.infer.random_field import Field, SeenCells, sample_field, sample_from_counts
from tacit.spec.errors import ModelError
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling

MAX_STATES = 20_000


@dataclass(frozen=True)
class FieldDraws:
    """For each clique its probabilities and its log potentials, without the missing levels.

    Shapes are (draw, columns...); `predicted` has the levels of one more row for each draw.
    """

    margins: list[np.ndarray]
    potentials: list[np.ndarray]
    rows: np.ndarray
    predicted: dict[str, np.ndarray]


def draw_field(
    release: Release,
    columns: Sequence[str],
    cliques: Sequence[tuple[str, ...]],
    sd: float,
    sampling: Sampling,
) -> FieldDraws:
    """Posterior draws given noisy tables of all cliques."""
    rng = np.random.default_rng(sampling.seed)
    tables = [_table(release, clique) for clique in cliques]
    levels = _levels(columns, tables)
    field = Field.of(
        [levels[name] for name in columns],
        [tuple(columns.index(name) for name in clique) for clique in cliques],
    )
    flat = [sample(field, tables, release, sd, sampling, rng) for _ in range(sampling.chains)]
    theta = np.concatenate([draws for draws, _ in flat])
    rows = np.concatenate([total for _, total in flat])
    shapes = [[len(labels) for labels in table.labels] for table in tables]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    potentials = []
    for table, shape, part in zip(tables, shapes, np.split(theta, ends, axis=1), strict=True):
        present = (slice(None), *(slice(table.levels(name)) for name in table.columns))
        potentials.append(part.reshape(-1, *shape)[present])
    known = {name: len(release.schema[name].labels) for name in columns}
    margins, predicted = _margins(columns, known, cliques, potentials, rng)
    return FieldDraws(margins, potentials, rows, predicted)


def sample(
    field: Field,
    tables: Sequence[Seen],
    release: Release,
    sd: float,
    sampling: Sampling,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """One chain: draws of all log potentials, and of the number of rows."""
    value = np.concatenate([table.value.ravel() for table in tables])
    rows, law = known_rows(release, None), tables[0].law
    # Noise too narrow to hide a single row leaves the counts known.
    if sampling.noise == "plugin" or all(table.law.reach < 1 for table in tables):
        counts = [
            project(np.rint(t.value), release.n if t.power < 1 else None).ravel() for t in tables
        ]
        total = float(np.mean([part.sum() for part in counts]))
        if rows.least == rows.most:
            total = float(rows.least)
        scaled = [part * (total / max(part.sum(), 1e-9)) for part in counts]
        draws = sample_from_counts(field, np.concatenate(scaled), total, sd, sampling.draws, rng)
        return draws, np.full(sampling.draws, total)
    sizes = [table.value.size for table in tables]
    seen = SeenCells(
        value,
        np.repeat([table.law.scale for table in tables], sizes),
        np.repeat([table.power for table in tables], sizes),
        law.heavy,
    )
    return sample_field(field, seen, rows, sd, sampling.draws, rng)


def _table(release: Release, clique: tuple[str, ...]) -> Seen:
    """The table of a clique, its axes in the clique's order."""
    for table in seen_tables(release):
        if set(table.columns) == set(clique):
            order = [table.columns.index(name) for name in clique]
            labels = tuple(table.labels[i] for i in order)
            value = table.value.transpose(order)
            return Seen(clique, labels, value, table.law, table.power, table.whole)
    raise ModelError(f"This release has no table of just {', '.join(clique)}.")


def _levels(columns: Sequence[str], tables: Sequence[Seen]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for table in tables:
        for name, labels in zip(table.columns, table.labels, strict=True):
            if levels.setdefault(name, len(labels)) != len(labels):
                raise ModelError(f"Expected missing values of {name!r} in all its tables or none.")
    states = math.prod(levels[name] for name in columns)
    if states > MAX_STATES:
        raise ModelError(
            f"Expected at most {MAX_STATES} combinations of levels, missing ones included; these "
            f"columns have {states}. A BayesNet has no such limit."
        )
    return levels


def _margins(
    columns: Sequence[str],
    levels: dict[str, int],
    cliques: Sequence[tuple[str, ...]],
    potentials: Sequence[np.ndarray],
    rng: np.random.Generator,
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The cliques' probabilities under each draw, and one more row."""
    places = [tuple(columns.index(name) for name in clique) for clique in cliques]
    sizes = [levels[name] for name in columns]
    field = Field.of(sizes, places)
    theta = np.concatenate([part.reshape(len(part), -1) for part in potentials], axis=1)
    margins = np.empty_like(theta)
    state = np.empty(len(theta), dtype=np.int64)
    step = max(1, 2_000_000 // field.cell.size)
    for start in range(0, len(theta), step):
        chunk = theta[start : start + step]
        score = chunk[:, field.cell].sum(axis=2)
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        p = weight / weight.sum(axis=1, keepdims=True)
        upto = np.cumsum(p, axis=1)
        state[start : start + step] = (upto < rng.random((len(p), 1))).sum(axis=1)
        for cell in field.cell.T:
            first, size = int(cell.min()), int(cell.max() - cell.min()) + 1
            one_hot = np.zeros((len(cell), size))
            one_hot[np.arange(len(cell)), cell - first] = 1.0
            margins[start : start + step, first : first + size] = p @ one_hot
    codes = np.unravel_index(np.minimum(state, len(field.cell) - 1), sizes)
    ends = np.cumsum([math.prod(part.shape[1:]) for part in potentials])[:-1]
    parts = np.split(margins, ends, axis=1)
    shaped = [p.reshape(part.shape) for p, part in zip(parts, potentials, strict=True)]
    return shaped, {name: np.asarray(code) for name, code in zip(columns, codes, strict=True)}

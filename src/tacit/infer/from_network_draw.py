"""The posterior of a network's tables given private draws of all of them.

Given the counts of a family (a column and its parents) the drawn vectors have truncated Dirichlet
laws (`infer/from_draw.py`). Families count the same rows, so the state of each of many short chains
is one table of counts for each column: of its levels, within those of its *context*, columns that
come before it. Contexts have the parents and what a junction tree asks for: each lies within the
context and column of an earlier one. Given the tables, rows pair up at random between them.

A move takes a random subset of the rows away, and draws them again, all their columns or one with
what follows from it: columns in order, given those before, from what the other rows say (Polya's
urn, with shares that make it likely). That leaves the law of the rows under the network alone. The
exchange move of Murray, Ghahramani and MacKay (2006) cancels the normalisers of the drawn vectors.
Missing values are levels of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from scipy.special import gammaln

from tacit.infer.categorical import dirichlet
from tacit.infer.from_draw import KEPT, Totals, all_rows, chain_draws, thinned, truncated
from tacit.infer.latent_counts import MISSING, PRESENT
from tacit.spec.draws import ConjugateDraw, TruncatedTables
from tacit.spec.errors import ModelError
from tacit.spec.keys import labels_of
from tacit.spec.release import Release
from tacit.spec.schema import Schema

_MOST_CELLS = 10**6  # of all tables of counts of one chain
_MOST_CHAINS, _MOST_NUMBERS, _BURN = 200, 4 * 10**6, 40

Tables = list[np.ndarray]  # one for each column: counts (chain, levels of the context..., level)


@dataclass(frozen=True)
class Member:
    """A column, its parents and its context (numbers of columns, rising), and its levels."""

    parents: tuple[int, ...]
    context: tuple[int, ...]
    levels: int
    missing: bool  # as one level more


def members(families: Sequence[tuple[str, ...]], schema: Schema) -> list[Member]:
    """Return the columns of families, whose parents come first, in order."""
    numbers = {family[-1]: i for i, family in enumerate(families)}
    parents = [tuple(sorted(numbers[name] for name in family[:-1])) for family in families]
    contexts = [set(each) for each in parents]
    for context in reversed(contexts):
        if context:
            last = max(context)
            contexts[last] |= context - {last}
    found = []
    for name, above, context in zip(numbers, parents, contexts, strict=True):
        levels = len(labels_of(name, schema))
        lacking = schema[name].default is None
        found.append(Member(above, tuple(sorted(context)), levels, lacking))
    cells = sum(prod(found[i].levels + 1 for i in each.context) * each.levels for each in found)
    if cells > _MOST_CELLS:
        raise ModelError(
            f"Expected a network whose draws can be fitted: at most {_MOST_CELLS} counts of "
            f"columns that depend on one another, not {cells}. Name fewer parents for each column."
        )
    return found


@dataclass(frozen=True)
class DrawnTables:
    """Logarithms of drawn vectors, summed over draws, for each column; and their law."""

    columns: list[Member]
    logs: Tables  # (levels of parents..., level)
    times: int
    base: float
    temperature: float
    truncation: float
    prior: float
    guides: Tables  # concentrations of proposals (levels of parents with missing..., level)

    @classmethod
    def of(cls, release: Release, prior: float, rows: float) -> DrawnTables:
        query, temperature = release.query, release.noise[0].scale
        assert isinstance(query, ConjugateDraw)
        law = query.law
        assert isinstance(law, TruncatedTables)
        columns = members(law.families, release.schema)
        base = 1 + (law.prior - 1) / temperature if query.temper_prior else law.prior
        names = [family[-1] for family in law.families]
        logs, guides, shares = [], [], [np.empty(0)] * len(names)
        for i, (family, each) in enumerate(zip(law.families, columns, strict=True)):
            drawn = release.table(release.blocks[i].name).value
            order = np.argsort([names.index(name) for name in family[:-1]])
            drawn = np.transpose(drawn, (0, *(order + 1), drawn.ndim - 1))
            logs.append(np.log(drawn).sum(axis=0))
            # Proposals for the parameter are half as concentrated as the draws suggest.
            mean = drawn.mean(axis=0)
            mean = mean / mean.sum(axis=-1, keepdims=True)
            above = _within(shares, columns, each.parents)[0] if each.parents else np.ones(())
            inside = tuple(slice(columns[j].levels) for j in each.parents)
            guide = np.full((*above.shape, each.levels), prior)
            known = rows * above[inside][..., None] * mean
            guide[inside] += known * query.draws / (2 * temperature)
            guides.append(guide)
            # The share of the rows in each cell of the context, and of the column.
            full = np.full((*above.shape, each.levels), 1.0 / each.levels)
            full[inside] = mean
            if each.missing:
                lost = MISSING / (MISSING + PRESENT)
                full = np.concatenate([full * (1 - lost), np.full((*above.shape, 1), lost)], -1)
            spread = _spread(full, each)
            around = _within(shares, columns, each.context) if each.context else np.ones(1)
            shares[i] = around[..., None] * spread[None]
        return cls(columns, logs, query.draws, base, temperature, law.truncation, prior, guides)

    def log_ratio(
        self, i: int, old: np.ndarray, new: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the log of one exchange move for each vector, shape (chain, levels of parents)."""
        each = self.columns[i]
        before, after = (self.seen(i, counts) for counts in (old, new))
        inside = tuple(slice(self.columns[j].levels) for j in each.parents)
        guide = self.guides[i][inside].reshape(-1, each.levels)
        at = self.base + after / self.temperature
        each_drawn = np.repeat(at.reshape(-1, each.levels), self.times, axis=0)
        auxiliary = truncated(each_drawn, self.truncation, rng)
        simulated = np.log(auxiliary).reshape(-1, self.times, each.levels).sum(axis=1)
        logs = self.logs[i].reshape(-1, each.levels) - simulated.reshape(after.shape)
        log = ((after - before) * logs).sum(axis=-1) / self.temperature
        return np.asarray(
            log + _relative(after, self.prior, guide) - _relative(before, self.prior, guide)
        )

    def seen(self, i: int, counts: np.ndarray) -> np.ndarray:
        """Return counts (chain, levels of parents, level) of rows that have all values."""
        each = self.columns[i]
        found = _sum_to(counts, each.context, each.parents)
        inside = tuple(slice(self.columns[j].levels) for j in each.parents)
        found = found[(slice(None), *inside, slice(each.levels))]
        return found.reshape(len(found), -1, each.levels)


def draw_tables_from_draw(
    release: Release, families: Sequence[tuple[str, ...]], prior: float, size: int, seed: int | None
) -> tuple[dict[str, np.ndarray], np.ndarray, np.random.Generator]:
    """Return draws of p(column | parents) for each column, and of the number of rows."""
    rng, totals = np.random.default_rng(seed), all_rows(release)
    rows = float(totals.weight @ totals.rows / totals.weight.sum())
    drawn = DrawnTables.of(release, prior, rows)
    split = _shapes(drawn.columns)
    cells = sum(prod(shape) for shape in split)
    chains = int(
        np.clip(_MOST_NUMBERS // (cells * drawn.times), 10, min(_MOST_CHAINS, max(size, 10)))
    )
    everyone = set(range(len(drawn.columns)))
    nothing = [np.zeros((chains, *shape), np.int64) for shape in split]
    state = _added(drawn, nothing, nothing, totals.drawn(chains, rng), everyone, rng)
    moves = [everyone, *(_following(drawn.columns, i) for i in everyone)]

    def sweep(counts: np.ndarray) -> np.ndarray:
        tables = _unflat(counts, split)
        for move in moves:
            tables = _moved(drawn, tables, totals if move == everyone else None, move, rng)
        return _flat(tables)

    found = _unflat(chain_draws(sweep, _flat(state), _BURN, size), split)
    tables = {}
    names = [family[-1] for family in families]
    for i, (family, each) in enumerate(zip(families, drawn.columns, strict=True)):
        counts = drawn.seen(i, found[i]).reshape(-1, each.levels)
        shape = [drawn.columns[j].levels for j in each.parents]
        p = dirichlet(prior + counts, rng).reshape(len(found[i]), *shape, each.levels)
        back = np.argsort(np.argsort([names.index(name) for name in family[:-1]]))
        tables[names[i]] = np.transpose(p, (0, *(back + 1), p.ndim - 1))
    return tables, found[0].reshape(len(found[0]), -1).sum(axis=1).astype(float), rng


def _moved(
    drawn: DrawnTables,
    old: Tables,
    totals: Totals | None,
    move: set[int],
    rng: np.random.Generator,
) -> Tables:
    """Return the tables of every chain after one move of some columns."""
    chains = len(old[0])
    rows = old[0].reshape(chains, -1).sum(axis=1)
    others = rows
    if totals is not None and not totals.known:
        others = np.where(rng.random(chains) < 0.5, rows, totals.drawn(chains, rng))
    share = KEPT[rng.integers(len(KEPT), size=chains)]
    left = np.floor(share * np.minimum(rows, others)).astype(np.int64)
    kept: Tables = []
    for i, each in enumerate(drawn.columns):
        within = _within(kept, drawn.columns, each.context) if each.context else left
        flat = old[i].reshape(-1, old[i].shape[-1])
        kept.append(thinned(flat, within.ravel(), rng).reshape(old[i].shape))
    new = _added(drawn, old, kept, others - left, move, rng)
    ratios = {i: drawn.log_ratio(i, old[i], new[i], rng) for i in sorted(move)}
    if len(move) == 1:  # nothing depends on it: each vector is accepted or not by itself
        (i,) = move
        each = drawn.columns[i]
        accepted = np.log(1 - rng.random(ratios[i].shape)) <= ratios[i]
        full = np.ones((chains, *drawn.guides[i].shape[:-1]), bool)  # no draw is of missing parents
        inside = tuple(slice(drawn.columns[j].levels) for j in each.parents)
        full[(slice(None), *inside)] = accepted.reshape(full[(slice(None), *inside)].shape)
        mask = np.moveaxis(_spread(np.moveaxis(full, 0, -1), each), -1, 0)[..., None]
        return [*old[:i], np.where(mask, new[i], old[i]), *old[i + 1 :]]
    log = sum(ratio.sum(axis=1) for ratio in ratios.values())
    accepted = np.log(1 - rng.random(chains)) <= log
    return [
        np.where(accepted.reshape(-1, *[1] * (one.ndim - 1)), other, one)
        for one, other in zip(old, new, strict=True)
    ]


def _added(
    drawn: DrawnTables,
    old: Tables,
    kept: Tables,
    rows: np.ndarray,
    move: set[int],
    rng: np.random.Generator,
) -> Tables:
    """Return the kept rows and as many others, whose columns of the move are drawn."""
    added: Tables = []
    for i, each in enumerate(drawn.columns):
        if i not in move:
            added.append(old[i] - kept[i])
            continue
        within = _within(added, drawn.columns, each.context) if each.context else rows
        seen = _sum_to(kept[i], each.context, each.parents)
        at = drawn.guides[i] + seen[..., : each.levels]
        p = dirichlet(at.reshape(-1, each.levels), rng).reshape(at.shape)
        if each.missing:
            present = seen[..., : each.levels].sum(axis=-1)
            lost = rng.beta(MISSING + seen[..., -1], PRESENT + present)[..., None]
            p = np.concatenate([p * (1 - lost), lost], axis=-1)
        spread = np.moveaxis(_spread(np.moveaxis(p, 0, -1), each), -1, 0)
        spread = np.broadcast_to(spread, old[i].shape)
        spread = spread / spread.sum(axis=-1, keepdims=True)
        added.append(rng.multinomial(within, spread))
    return [one + other for one, other in zip(kept, added, strict=True)]


def _following(columns: Sequence[Member], first: int) -> set[int]:
    """Return a column and those whose context has it, or one that follows from it."""
    found = {first}
    for i, each in enumerate(columns):
        if found & set(each.context):
            found.add(i)
    return found


def _within(tables: Tables, columns: Sequence[Member], context: tuple[int, ...]) -> np.ndarray:
    """Return counts (chain, levels of the context...) from the table of its last column."""
    last = context[-1]
    return _sum_to(tables[last], (*columns[last].context, last), context)


def _sum_to(table: np.ndarray, axes: tuple[int, ...], kept: tuple[int, ...]) -> np.ndarray:
    """Return a table (chain, columns..., more) summed over the columns that are not kept."""
    return np.asarray(table.sum(axis=tuple(1 + k for k, j in enumerate(axes) if j not in kept)))


def _spread(table: np.ndarray, each: Member) -> np.ndarray:
    """Return (levels of parents..., more) with axes of length 1 for the rest of the context."""
    others = tuple(k for k, j in enumerate(each.context) if j not in each.parents)
    return np.expand_dims(table, others)


def _relative(counts: np.ndarray, prior: float, guide: np.ndarray) -> np.ndarray:
    """Return the log ratio of Dirichlet-multinomials under the prior and under the guide."""
    rows, levels = counts.sum(axis=-1), counts.shape[-1]
    cells = (gammaln(counts + prior) - gammaln(counts + guide)).sum(axis=-1)
    return np.asarray(cells - gammaln(rows + prior * levels) + gammaln(rows + guide.sum(axis=-1)))


def _shapes(columns: Sequence[Member]) -> list[tuple[int, ...]]:
    size = [each.levels + each.missing for each in columns]
    return [(*(size[j] for j in each.context), k) for each, k in zip(columns, size, strict=True)]


def _flat(tables: Tables) -> np.ndarray:
    return np.concatenate([table.reshape(len(table), -1) for table in tables], axis=1)


def _unflat(counts: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> Tables:
    ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
    parts = np.split(counts, ends, axis=1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]

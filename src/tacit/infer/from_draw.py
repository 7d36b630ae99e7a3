"""The posterior of counts given private draws of a tempered posterior.

A released draw is one of a tempered, truncated posterior, not of the posterior, and its law is
known. Given the counts s of the levels,

    theta~ | s  has the density  prod_j theta~_j^(c_j(s) - 1) / Z(c(s)),  all theta~_j >= a0,

with c(s) = prior of the query + s / T. The counts are Dirichlet-multinomial under the model's own
prior, which need not be the query's, so that p(s | theta~) is known too, and the parameter given s
is Dirichlet(prior + s). The truncation belongs to the mechanism alone and not to the model: the
parameter may be smaller than a0.

Two levels and a known number of rows: all s are enumerated. Otherwise Z has no closed form. The
exchange move of Murray, Ghahramani and MacKay (2006) proposes other counts and draws an auxiliary
probability vector from the law at these, with the exact sampler of the mechanism, and the
normalisers cancel. Proposals remove a random subset of the rows and add rows by Polya's urn. They
leave a Dirichlet-multinomial law invariant for any number of rows, so that one acceptance ratio
serves small and large moves, and moves to another number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from tacit.infer.latent_counts import MISSING, Rows, Weights, drawn_from, log_cell
from tacit.laws import truncated_dirichlet
from tacit.spec.draws import ConjugateDraw
from tacit.spec.errors import ModelError
from tacit.spec.keys import name_of
from tacit.spec.release import Release
from tacit.spec.schema import Schema

_MOST_EXACT = 2**15  # normalisers computed one by one; a spline through as many above
_MOST_COUNTS = 2**20  # counts enumerated one by one
_MOST_ROWS = 10**9
_TRIES = 4  # draws of a whole law, before the sampler of the truncated one is asked
KEPT = np.array([0.0, 0.5, 0.8, 0.95, 0.99])  # shares of the rows that a move keeps
_BURN, _THIN = 50, 5
_MOST_CHAINS, _MOST_AUXILIARY = 400, 20_000


@dataclass(frozen=True)
class Tempered:
    """Draws (draw, level) and their law: Dirichlet(base + counts / temperature), truncated."""

    draws: np.ndarray
    base: np.ndarray
    temperature: float
    truncation: float


@dataclass(frozen=True)
class Totals:
    """Possible numbers of rows with a value, and the prior weight of each."""

    rows: np.ndarray
    weight: np.ndarray

    @property
    def known(self) -> bool:
        return len(self.rows) == 1

    def drawn(self, size: int, rng: np.random.Generator) -> np.ndarray:
        edges = np.cumsum(self.weight)
        which = np.searchsorted(edges, rng.random(size) * edges[-1], side="right")
        return self.rows[np.minimum(which, len(self.rows) - 1)]


def check_usable(schema: Schema) -> None:
    """Raise ModelError where the number of rows has no public bound: a draw does not tell it."""
    if schema.neighbours == "add_remove" and schema.max_units is None:
        raise ModelError(
            "Expected Schema(..., max_units=...): under add_remove the number of units is secret, "
            "and a posterior draw does not tell it."
        )


def sample_counts_from_draw(
    release: Release, prior: np.ndarray, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return `size` draws of the true counts, shape (size, levels)."""
    query, temperature = release.query, release.noise[0].scale
    assert isinstance(query, ConjugateDraw)
    base = np.array(query.law.prior)
    if query.temper_prior:
        base = 1 + (base - 1) / temperature
    law = Tempered(release.table("p").value, base, temperature, query.law.truncation)
    totals = possible_rows(release)
    if totals.known and law.draws.shape[1] == 2:
        return enumerated(law, prior, int(totals.rows[0]), size, rng)
    return sample_counts_by_exchange(law, prior, totals, size, rng)


def possible_rows(release: Release) -> Totals:
    """Return prior weights of the number of rows with a value, missing ones summed out."""
    assert isinstance(release.query, ConjugateDraw)
    return _rows(release, release.schema[name_of(release.query.law.key)].default is not None)


def all_rows(release: Release) -> Totals:
    """Return prior weights of the number of rows, with missing values or without."""
    return _rows(release, True)


def _rows(release: Release, total: bool) -> Totals:
    """Return those of all rows, or of rows with a value in one column."""
    check_usable(release.schema)
    bounds = replace(Rows.behind(release), missing=None if total else 0.0)
    most = int(bounds.most)
    if most >= _MOST_ROWS:
        raise ModelError(f"Expected fewer than {_MOST_ROWS:.0e} rows behind a draw, not {most}.")
    if total and bounds.least == most:
        return Totals(np.array([most]), np.ones(1))
    block = most // _MOST_COUNTS | 1
    rows = bounds.in_blocks(block)
    counts = np.arange(int(rows.most) + 1)
    all_rows = Weights(0, rows.log_all(counts)).relative
    weight = all_rows if total else _with_missing(counts, all_rows, rows)
    kept = weight > 0
    return Totals(np.minimum(counts[kept] * block, most), weight[kept])


def _with_missing(counts: np.ndarray, all_rows: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the weights of T rows with a value: sums over m of those of T + m, m missing."""
    present = np.exp(log_cell(counts, rows.present, rows.block))
    missing = np.exp(log_cell(counts, MISSING, rows.block))
    if np.count_nonzero(all_rows) == 1:  # the number of rows is known
        return present * missing[::-1]
    from scipy.signal import fftconvolve  # brings all of scipy.stats

    mixed = fftconvolve(all_rows, missing[::-1])[len(counts) - 1 :]
    return present * np.maximum(mixed, 0.0)


def enumerated(
    law: Tempered, prior: np.ndarray, rows: int, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return exact draws of two counts that sum to `rows`, shape (size, 2)."""
    block = rows // _MOST_COUNTS + 1
    second = np.arange(0, rows + 1, block)
    drawn = second[drawn_from(Weights(0, log_posterior(law, prior, rows, second)), size, rng)]
    if block > 1:
        drawn = np.minimum(drawn + rng.integers(0, block, size=size), rows)
    return np.stack([rows - drawn, drawn], axis=1)


def log_posterior(law: Tempered, prior: np.ndarray, rows: int, second: np.ndarray) -> np.ndarray:
    """Return log p(s | draws) up to a constant, for counts (rows - s, s)."""
    first = rows - second
    log = gammaln(first + prior[0]) - gammaln(first + 1)
    log += gammaln(second + prior[1]) - gammaln(second + 1)
    odds = (np.log(law.draws[:, 1]) - np.log(law.draws[:, 0])).sum()
    log += second * odds / law.temperature
    return log - len(law.draws) * _log_normalisers(law, rows, second)


def _log_normalisers(law: Tempered, rows: int, second: np.ndarray) -> np.ndarray:
    """Return log Z for each s, interpolated by a cubic spline where there are many."""

    def at(s: np.ndarray) -> np.ndarray:
        a, b = law.base[1] + s / law.temperature, law.base[0] + (rows - s) / law.temperature
        return truncated_dirichlet.log_normaliser(a, b, law.truncation)

    if len(second) <= _MOST_EXACT:
        return at(second)
    from scipy.interpolate import CubicSpline

    knots = np.linspace(0, rows, _MOST_EXACT)
    return CubicSpline(knots, at(knots))(second)


def sample_counts_by_exchange(
    law: Tempered, prior: np.ndarray, totals: Totals, size: int, rng: np.random.Generator
) -> np.ndarray:
    """Return `size` draws of the counts, shape (size, levels), from many short chains."""
    chains = min(_MOST_CHAINS, -(-size // 4), max(10, _MOST_AUXILIARY // len(law.draws)))
    # A Dirichlet proposal for the parameter, half as concentrated as the draws suggest.
    rows = float(totals.weight @ totals.rows / totals.weight.sum())
    guide = prior + rows * len(law.draws) / (2 * law.temperature) * law.draws.mean(axis=0)
    counts = _urn(np.tile(guide, (chains, 1)), totals.drawn(chains, rng), rng)

    def exchange(counts: np.ndarray) -> np.ndarray:
        """Return the counts of every chain after one exchange move."""
        proposed = _proposed(counts, guide, totals, rng)
        change = (proposed - counts) / law.temperature
        at = law.base + proposed / law.temperature
        auxiliary = truncated(np.repeat(at, len(law.draws), axis=0), law.truncation, rng)
        seen = np.log(law.draws).sum(axis=0)
        simulated = np.log(auxiliary).reshape(len(counts), *law.draws.shape).sum(axis=1)
        log = _relative(proposed, prior, guide) - _relative(counts, prior, guide)
        log += (change * (seen - simulated)).sum(axis=1)
        accepted = np.log(1 - rng.random(len(counts))) <= log
        return np.where(accepted[:, None], proposed, counts)

    return chain_draws(exchange, counts, _BURN, size)


def chain_draws(
    step: Callable[[np.ndarray], np.ndarray], state: np.ndarray, burn: int, size: int
) -> np.ndarray:
    """Return `size` states (chain, ...) of many chains: after a burn-in, those of each 5th step."""
    kept = []
    for i in range(burn + _THIN * -(-size // len(state))):
        state = step(state)
        if i >= burn and (i - burn) % _THIN == _THIN - 1:
            kept.append(state)
    return np.concatenate(kept)[:size]


def _relative(counts: np.ndarray, prior: np.ndarray, guide: np.ndarray) -> np.ndarray:
    """Return the log ratio of Dirichlet-multinomials under the prior and under the guide."""
    rows = counts.sum(axis=1)
    cells = gammaln(counts + prior) - gammaln(counts + guide)
    return cells.sum(axis=1) - gammaln(rows + prior.sum()) + gammaln(rows + guide.sum())


def _proposed(
    counts: np.ndarray, guide: np.ndarray, totals: Totals, rng: np.random.Generator
) -> np.ndarray:
    rows = counts.sum(axis=1)
    others = rows
    if not totals.known:
        others = np.where(rng.random(len(rows)) < 0.5, rows, totals.drawn(len(rows), rng))
    share = KEPT[rng.integers(len(KEPT), size=len(rows))]
    left = np.floor(share * np.minimum(rows, others)).astype(np.int64)
    kept = thinned(counts, left, rng)
    return kept + _urn(guide + kept, others - left, rng)


def truncated(at: np.ndarray, truncation: float, rng: np.random.Generator) -> np.ndarray:
    """Return one draw of the truncated Dirichlet law for each row of concentrations.

    Draws of the whole law that lie inside have this law too, and are some thirty times as fast.
    """
    found, left = np.empty_like(at), np.arange(len(at))
    for _ in range(_TRIES):
        weight = rng.standard_gamma(at[left])
        with np.errstate(invalid="ignore"):  # all too close to 0: not inside
            p = weight / weight.sum(axis=1, keepdims=True)
        inside = p.min(axis=1) >= truncation
        found[left[inside]] = p[inside]
        left = left[~inside]
        if not left.size:
            return found
    found[left] = truncated_dirichlet.sample(at[left], truncation, lambda n: 1 - rng.random(n))
    return found


def thinned(counts: np.ndarray, left: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the counts of `left` rows of each chain, chosen without replacement."""
    kept = np.zeros_like(counts)
    rest = counts.sum(axis=1)
    for j in range(counts.shape[1] - 1):
        rest = rest - counts[:, j]
        kept[:, j] = rng.hypergeometric(counts[:, j], rest, left)
        left = left - kept[:, j]
    kept[:, -1] = left
    return kept


def _urn(concentration: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return Dirichlet-multinomial counts of `rows` rows."""
    weight = np.maximum(rng.standard_gamma(concentration), 1e-300)
    return rng.multinomial(rows, weight / weight.sum(axis=1, keepdims=True))

"""The page of war_logs.py: what the paper says, what is measured, and where the paper slips."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
from conjugate_page import wrapped
from war_logs_data import Panel
from war_logs_maps import EPSILON, LAST, TRUTH, Maps, Profiles
from war_logs_measures import AWARE, AWARE_PURE, METHODS, NONE, OPS, PAPER, Curve, Effort, HeldOut


@dataclass(frozen=True)
class Results:
    """What the page tells."""

    command: str
    splits: int
    ops_splits: int
    effort: Effort
    panels: list[Panel]
    found: list[HeldOut]
    mapped: list[tuple[Maps, Profiles]]


@dataclass(frozen=True)
class Gap:
    """How much better the default is than another method on the same splits, and its error."""

    panel: str
    epsilon: float
    mean: float
    error: float


def gaps(found: list[HeldOut], other: str, most: float = np.inf) -> list[Gap]:
    """The default HMM against another method, at every epsilon up to some."""
    result = []
    for one in found:
        few = one.hidden[other].by_row.shape[1]
        apart = one.hidden[AWARE].by_row[:, :few] - one.hidden[other].by_row
        error = apart.std(axis=1, ddof=1) / np.sqrt(few)
        result += [
            Gap(one.title, e, float(m), float(s))
            for e, m, s in zip(one.epsilons, apart.mean(axis=1), error, strict=True)
            if e <= most
        ]
    return result


def page(results: Results) -> str:
    """The whole page."""
    parts = (_head, _maps, _profiles, _likelihoods, _states, _slips, _yours)
    return "\n".join(wrapped(part(results)) for part in parts)


def _head(results: Results) -> str:
    effort = results.effort
    rows = "\n".join(
        f"| {p.title} | {p.shape[0]} x {p.shape[1]} | {p.rows.sum():,} | {np.median(p.rows):g} | "
        f"{(p.rows == 0).mean():.0%} | {' + '.join(str(len(p.levels[f])) for f in p.features)} |"
        for p in results.panels
    )
    return f"""\
# What went on where, and when: hidden Markov models of incident logs

`{results.command}`, {dt.date.today()}. "The paper" is Foulds et al., UAI 2016, section 5 and
supplement E, which fits hidden Markov models to leaked war logs. Those are not used here.

**Nothing on this page is a private release.** The simulated rows are nobody's and the reports are
declassified; log-likelihoods of held-out cells, numbers of rows, and whatever is marked "not
private" look at raw rows. What a `Wall` would publish is a map or a profile of one method at one
epsilon.

| panel | regions x months | rows | median in a cell | empty cells | levels of its features |
|---|---|---|---|---|---|
{rows}

The simulated panels have ten true states for the held-out experiment, and two or three for the
maps. The paper's numbers, 390,000 rows at a median of 972 for Iraq, mean about 400 cells: some
seven regions. In the declassified reports `target` is damaged, so that type, category and suicide
are used; rows without a governorate are outside the panel. Its cells are far emptier than those
of the paper.

- Neighbours replace one row, and one release of all counts costs epsilon. Each of D features has
  an L1 sensitivity of 2, so that the paper's noise is Laplace(2 D / epsilon): epsilon 5 is 1 for
  each of five features. "Least noise" is `tacit.Budget(epsilon, 1e-6)`, which takes the Gaussian
  mechanism where that is quieter: here for five features and epsilon up to 1.
- The paper's Laplace method sets negative counts to zero, believes the rest, and changes one
  state at a time (Eq. 48, corrected); {effort.kept} sweeps are kept, after 200 (the paper: 100).
- OPS is `PrivateGibbs(assume_converged=True)`: one draw from the tempered posterior with all
  probabilities above 1/(10 K) or 1/(100 K) for K levels; {effort.sweeps} sweeps for a map,
  {effort.short} for a split. Its epsilon holds only if the chain had converged.
- Tacit keeps {effort.draws * effort.chains} draws of {effort.chains} chains, whole paths at a time.
  "Believed" is `noise="plugin"`, the projection; the default is noise-aware.
- All have Dirichlet priors with concentration 1: the paper does not give its own.
"""


def _table(head: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> str:
    lines = [f"| {head} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows])


def _maps(results: Results) -> str:
    maps = [both[0] for both in results.mapped]
    methods = [m for m in maps[0].shares if m != TRUTH]
    rows = []
    for method in methods:
        cells = []
        for one in maps:
            agrees = f"{one.agrees[method]:.1%}" if method in one.agrees else "-"
            cells.append(f"{agrees}, {one.changes[method]:.0%}")
        rows.append((method + (" (not private)" if method in maps[0].not_private else ""), cells))
    heads = [f"{one.title.split(':')[0]}, {one.states} states" for one in maps]
    many = next(m for m in maps[0].not_private if m != NONE)
    real = len(maps) > 2
    picture = "\n\n![Maps of the declassified reports](war-logs-maps-real.png)" if real else ""
    first = maps[0]
    return f"""\
## Figures 3 and 7: states of regions and months at epsilon {EPSILON:g}

![Maps of simulated panels](war-logs-maps-simulated.png){picture}

Paler cells are less certain; percentages are cells whose most probable state is that of the
truth, or for the declassified reports that without privacy. The table has them again, and how
often the state changes from one month to the next.

{_table("agrees, changes", heads, rows)}

The paper's Figure 7 says that OPS releases a noisy map, as one sample is all it may show, and
that 100 samples would look better. On {heads[0]}: the last sweep agrees in
{first.agrees[LAST]:.1%} of the cells and the last {results.effort.kept} in
{first.agrees[many]:.1%}, where the noise-aware map from one release has
{first.agrees[AWARE]:.1%}. **The map of the last {results.effort.kept} sweeps is not part of any
private release**: it was drawn on public data, and its sweeps would have to be paid for one by
one.
"""


def _profiles(results: Results) -> str:
    real = len(results.mapped) > 2
    picture = "\n\n![Profiles of the declassified reports](war-logs-profiles-real.png)"
    words = ""
    if real:
        found = results.mapped[2][1]
        told = []
        for k in range(found.states):
            most = [labels[int(found.aware[f][0][k].argmax())] for f, labels in found.levels.items()
                    if len(labels) > 1]  # fmt: skip
            told.append(f"state {k + 1} is mostly {' and '.join(most)}")
        words = f" In the declassified reports {'; '.join(told)}."
    inside = _covered(results.mapped[0][1])
    return f"""\
## Figures 4 and 5: what states are like

![Profiles of a simulated panel](war-logs-profiles-simulated.png){picture if real else ""}

The paper shows that states have a meaning that survives the noise. They do here.{words} At
epsilon {EPSILON:g} both methods are near the profile without privacy; of the probabilities shown
for the simulated panel {inside:.0%} are inside the noise-aware 90% intervals. The paper's estimates
have no interval that knows of the noise, and its projection lifts rare levels.
"""


def _covered(found: Profiles) -> float:
    """The share of estimates without privacy inside the noise-aware intervals."""
    both = [(found.plain[f], low, high) for f, (_, low, high) in found.aware.items()]
    return float(np.concatenate([((lo <= p) & (p <= hi)).ravel() for p, lo, hi in both]).mean())


def _curves(one: HeldOut, curves: dict[str, Curve], what: str = "by_row") -> str:
    """Log-likelihood without privacy, and how far others are from it on the same splits."""
    plain = getattr(curves[NONE], what)
    rows = [(NONE, [f"{plain[0].mean():.3f}", *[""] * (len(one.epsilons) - 1)])]
    for method in METHODS[1:]:
        values = getattr(curves[method], what)
        apart = values - plain[:, : values.shape[1]]
        error = apart.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        rows.append(
            (method, [f"{m:+.4f} ± {s:.4f}" for m, s in zip(apart.mean(axis=1), error)])
        )  # fmt: skip
    return _table(one.title, [f"epsilon {e:g}" for e in one.epsilons], rows)


def _verdict(found: list[Gap]) -> str:
    """How often the default is ahead, and where it is not."""
    behind = [g for g in found if g.mean < 0]
    clear = sum(g.mean > 2 * g.error for g in found)
    text = f"ahead in {len(found) - len(behind)} of {len(found)} settings, in {clear} by two errors"
    if behind:
        where = "; ".join(
            f"{g.panel} at epsilon {g.epsilon:g}: {g.mean:+.4f} ± {g.error:.4f}" for g in behind
        )
        text += f" (behind: {where})"
    return text


def _likelihoods(results: Results) -> str:
    found = results.found
    hidden = "\n\n".join(_curves(one, one.hidden) for one in found)
    naive = "\n\n".join(_curves(one, one.naive) for one in found)
    by_cell = "\n\n".join(_curves(one, one.hidden, "by_cell") for one in found)
    against_ops = "\n".join(f"- {name}: {_verdict(gaps(found, name, most=1.0))}." for name in OPS)
    return f"""\
## Figure 6 and supplement Figure 2: cells that were not seen

![Held-out log-likelihood](war-logs-likelihood.png)

A tenth of all cells, drawn at random, is held out; {results.splits} splits, {results.ops_splits}
for OPS. The number is the log of a row's expected probability, averaged over the rows of those
cells. Splits differ far more than methods do, so that each method is set beside no privacy *on the
same split*: 0 is no privacy, bars are two standard errors, tables have one. **Held-out rows are
raw rows: these numbers are not part of any private release.**

HMM with ten states:

{hidden}

Naive Bayes, one state, all rows in one cell:

{naive}

The default against the paper's Laplace method: {_verdict(gaps(found, PAPER))}.

The default against OPS, for epsilon up to 1:

{against_ops}

What of that is the noise-aware likelihood alone, from the very release that the paper has:
{_verdict(_awareness(found))}.

All rows of a cell together, per row, which asks for the one state of that cell and is nearer to
the paper's words ("averaging the test likelihood over the burned-in samples"):

{by_cell}
"""


def _awareness(found: list[HeldOut]) -> list[Gap]:
    """Noise-aware against the paper's method, from the same release."""
    swapped = [
        HeldOut(f.panel, f.title, f.epsilons, {}, f.hidden | {AWARE: f.hidden[AWARE_PURE]})
        for f in found
    ]
    return gaps(swapped, PAPER)


def _states(results: Results) -> str:
    tables = []
    for one in results.found:
        rows = [
            (m, [f"{a:.1f}, {b:.1f}" for a, b in zip(c.substantial.mean(1), c.occupied.mean(1))])
            for m, c in one.hidden.items()
        ]
        tables.append(_table(one.title, [f"epsilon {e:g}" for e in one.epsilons], rows))
    joined = "\n\n".join(tables)
    return f"""\
## Ten states, of which few are left?

![States in use](war-logs-occupied.png)

The paper, given ten states, saw the private model assign "substantial numbers of data points" to
two or three only, and calls the noise a regulariser. The tables have the number of states with 5%
of the rows (not private: it weighs cells by their rows), then of those with 1% of the cells.

{joined}
"""


def _slips(results: Results) -> str:
    return """\
## Where the paper slips

- Equation 48: the second factor must be (n[k, next] + I[previous = k = next] + a) /
  (n[k, all] + I[previous = k] + K a), with both transitions at this time left out of the counts;
  it is absent at the last time. `HMM(sampler="single_site")` has it so.
- Equation 49: the sum is over the cells (r, t) whose state is k, not over all of them.
- Negative noisy counts are set to zero. That lifts each empty count by half the noise's scale on
  average; with many levels and few rows, what is believed are mostly such lifts.
- Empty months and nearly empty regions were removed after a look at the data, which epsilon does
  not pay for. Here regions and months are public levels and none is removed.
- The text has 10 splits, the supplement 5.
- OPS is private at epsilon only if its chain had converged. If not, the paper has 400 epsilon for
  200 sweeps; the certificate of `PrivateGibbs(assume_converged=True)` states what is left.
"""


def _yours(results: Results) -> str:
    return """\
## Any table of this shape

`python reproductions/war_logs.py --study study.toml` takes the table, the schema with its public
levels and the columns of the first `HMM` analysis from a study file, in place of the declassified
reports. It is for data that you may look at: it never asks a wall.
"""

"""The page of war_logs.py: what the paper says, what is measured, and where the paper slips."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np
from conjugate_page import wrapped
from war_logs_data import Panel
from war_logs_maps import EPSILON, LAST, TRUTH, Maps, Profiles
from war_logs_measures import AWARE, NONE, OPS, PAPER, Effort, HeldOut, Variation
from war_logs_tables import awareness, gaps, likelihood_table, table, variations, verdict


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
    varied: list[Variation]


_REPORTS = """ In the declassified reports `target` is damaged, so that type, category and suicide
are used; rows without a governorate are outside the panel. Its cells are far emptier than those
of the paper."""


def page(results: Results) -> str:
    """The whole page."""
    head, *parts = (
        wrapped(part(results)) for part in (_head, _likelihoods, _states, _slips, _yours)
    )
    return "\n".join([head, maps_and_profiles(results.mapped, results.effort), *parts])


def maps_and_profiles(mapped: list[tuple[Maps, Profiles]], effort: Effort) -> str:
    """Its part at one epsilon, which needs no cells held out."""
    return "\n".join(wrapped(part) for part in (_maps(mapped, effort), _profiles(mapped)))


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
seven regions.{_REPORTS if results.panels[-1].name == "iraq" else ""}

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
  "Plug-in" is `noise="plugin"`, the projection; the default is noise-aware.
- All have Dirichlet priors with concentration 1: the paper does not give its own. Tacit's
  noise-aware posteriors have the default, whose emissions are centred half way between equal
  shares and those of all cells together. That centre was chosen after a look at the reports and
  at three other simulated panels: it helps the reports, and hardly changes simulated ones.
"""


def _maps(mapped: list[tuple[Maps, Profiles]], effort: Effort) -> str:
    maps = [both[0] for both in mapped]
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

{table("agrees, changes", heads, rows)}

How different the simulated states are was chosen after a look at these maps (`separation` 0.4 and
0.1), so that methods differ. At 0.25 OPS put all cells with a median of 58 in one state, and all
methods were right everywhere at 972; at 0.7 all were right in 98% of the cells or more.

The paper's Figure 7 says that OPS releases a noisy map, as one sample is all it may show, and
that 100 samples would look better. On {heads[0]}: the last sweep agrees in
{first.agrees[LAST]:.1%} of the cells and the last {effort.kept} in
{first.agrees[many]:.1%}, where the noise-aware map from one release has
{first.agrees[AWARE]:.1%}. **The map of the last {effort.kept} sweeps is not part of any
private release**: it was drawn on public data, and its sweeps would have to be paid for one by
one.
"""


def _profiles(mapped: list[tuple[Maps, Profiles]]) -> str:
    every = [both[1] for both in mapped]
    real = len(every) > 2
    picture = "\n\n![Profiles of the declassified reports](war-logs-profiles-real.png)"
    words = ""
    if real:
        found = every[2]
        told = []
        for name, labels in found.levels.items():
            if len(labels) > 1:
                first, second = found.aware[name][0][:2]
                j = int((second - first).argmax())
                told.append(f"{labels[j]} ({name}) is {second[j]:.0%} against {first[j]:.0%}")
        words = f" In state 2 of the declassified reports {' and '.join(told)} in state 1."
    heads = [f"{one.title.split(':')[0]}, {one.states} states" for one in every]
    hidden = mapped[0][0].not_private
    rows = [
        (m + (" (not private)" if m in hidden else ""), [f"{p.apart[m]:.3f}" for p in every])
        for m in every[0].apart
    ]
    return f"""\
## Figures 4 and 5, supplement Figures 4 and 6: what states are like

![Profiles of a simulated panel](war-logs-profiles-simulated.png){picture if real else ""}

The paper shows that states have a meaning that survives the noise. With its Laplace method and the
noise-aware model they do here.{words} Of the probabilities shown for the simulated panel
{_covered(every[0]):.0%} are inside the noise-aware 90% intervals. The paper's estimates have no
interval that knows of the noise, and its projection lifts rare levels. In the map of the reports
it shows: the paper's method is sure that all nearly empty cells are in one state, the one whose
profile is nearest to lifted zeros, while the noise-aware map is pale there.

The profiles of OPS (supplement Figures 4 and 6; truncated at 1/(100 K)) are those of its last
sweep, the one draw that it releases. How far profiles are from those without privacy, in total
variation distance averaged over states and features, epsilon {EPSILON:g}:

{table("total variation distance", heads, rows)}

On the simulated panels the one draw is further than the paper's Laplace method is. On the reports
it is nearer: with few rows in a cell the lifts of the projection cost more than the temperature.
These are one run each. What sweeps cost in time is in [the benchmarks](../benchmarks.md): "OPS
roughly doubled the runtime".
"""


def _covered(found: Profiles) -> float:
    """The share of estimates without privacy inside the noise-aware intervals."""
    both = [(found.plain[f], low, high) for f, (_, low, high) in found.aware.items()]
    return float(np.concatenate([((lo <= p) & (p <= hi)).ravel() for p, lo, hi in both]).mean())


def _likelihoods(results: Results) -> str:
    found = results.found
    hidden = "\n\n".join(likelihood_table(one, one.hidden) for one in found)
    naive = "\n\n".join(likelihood_table(one, one.naive) for one in found)
    by_cell = "\n\n".join(likelihood_table(one, one.hidden, "by_cell") for one in found)
    against_ops = "\n".join(f"- {name}: {verdict(gaps(found, name, most=1.0))}." for name in OPS)
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

The default against the paper's Laplace method: {verdict(gaps(found, PAPER))}.

The default against OPS, for epsilon up to 1:

{against_ops}

What of that is the noise-aware likelihood alone, from the very release that the paper has:
{verdict(awareness(found))}.

What the paper says, and what is found in the full run:

- Laplace is better than OPS for naive Bayes: it is, at every epsilon. Truncated at 1/(10 K), OPS
  cannot even express rare levels.
- OPS is competitive where cells have few rows: with the paper's Laplace method it is, and ahead at
  epsilon 0.3 (58 rows) and up to 0.3 (reports), by falling back to hardly more than one state.
- With many rows Laplace is better, most of all at small epsilon: it is better, by much the same at
  all. Why OPS stays behind at epsilon 10 was not settled: it has one draw, so one guess of the
  state of an unseen cell. Longer chains took a part of the distance off where they were tried.

{variations(results.found[-1], results.varied)}
All rows of a cell together, per row, which asks for the one state of that cell and is nearer to
the paper's words ("averaging the test likelihood over the burned-in samples"):

{by_cell}
"""


def _states(results: Results) -> str:
    tables = []
    for one in results.found:
        rows = [
            (m, [f"{a:.1f}, {b:.1f}" for a, b in zip(c.substantial.mean(1), c.occupied.mean(1))])
            for m, c in one.hidden.items()
        ]
        tables.append(table(one.title, [f"epsilon {e:g}" for e in one.epsilons], rows))
    joined = "\n\n".join(tables)
    return f"""\
## Ten states, of which few are left?

![States in use](war-logs-occupied.png)

The paper, given ten states, saw the private model assign "substantial numbers of data points" to
two or three only, and calls the noise a regulariser. The tables have the number of states with 5%
of the rows (not private: it weighs cells by their rows), then of those with 1% of the cells.

{joined}

A collapse to two or three is not found for the paper's Laplace method: with few rows in a cell its
ten states rather share the noise among them, and of the rows of the declassified reports
six or seven states have their 5% instead of eight. It is OPS that collapses, down to one state:
tempered, the data are too few to tell states apart. The noise-aware model keeps the number without
privacy where the release can tell, and uses fewer for most rows where it cannot. The 5% of the
rows were added after the 1% of the cells had shown no collapse; the paper says neither.
"""


def _slips(results: Results) -> str:
    return """\
## Where the paper slips

- Equation 48: the second factor must be (n[k, next] + I[previous = k = next] + a) /
  (n[k, all] + I[previous = k] + K a), with both transitions at this time left out of the counts;
  it is absent at the last time. `HMM(sampler="single_site")` has it so.
- Equation 49: the sum is over the cells (r, t) whose state is k, not over all of them.
- Negative noisy counts are set to zero. That lifts each empty count by half the noise's scale on
  average; with many levels and few rows, what a plug-in analysis finds are mostly such lifts.
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

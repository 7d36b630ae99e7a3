"""The page of conjugate.py: what the paper says, what is measured, and where the paper slips."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from textwrap import fill

import numpy as np
from conjugate_measures import (
    DRAW,
    FIGURE1,
    FIGURE2,
    LAPLACE_DRAW,
    LAPLACE_MEAN,
    MEAN,
    METHODS,
    OPS,
    OURS,
    OURS_DRAW,
    OURS_OPS,
    Attack,
    Curves,
    Divergences,
)


@dataclass(frozen=True)
class Results:
    """What the page tells."""

    command: str
    repeats: int
    many: int
    figure1: dict[str, float]
    check: list[tuple[int, float, float, float, float, float]]
    l1: Curves
    overtaken: dict[str, int | None]
    prior_ns: np.ndarray
    under_prior: dict[str, np.ndarray]
    efficiency: list[Curves]
    widths: dict[str, float]
    attacks: dict[str, Attack]
    divergence: Divergences
    lemma5: dict[int, tuple[float, float]]


def page(results: Results) -> str:
    """The whole page."""
    parts = (_head, _figure1, _figure2, _table1, _adversary, _lemma1)
    return "\n".join(wrapped(part(results)) for part in parts)


def wrapped(text: str) -> str:
    """Paragraphs and items filled anew, now that the numbers are in."""

    def filled(block: str, indent: str = "") -> str:
        # A formula is kept on one line: a "+" or "-" that begins a line would begin a list.
        words = re.sub(r" ([-+=/]) ", "\0\\1\0", " ".join(block.split()))
        return fill(words, 98, subsequent_indent=indent).replace("\0", " ")

    blocks = []
    for block in text.strip().split("\n\n"):
        if block[0] in "|#!":
            blocks.append(block)
        elif block.startswith("- "):
            items = block[2:].split("\n- ")
            blocks.append("\n".join("- " + filled(item, "  ") for item in items))
        else:
            blocks.append(filled(block))
    return "\n\n".join(blocks) + "\n"


def _head(results: Results) -> str:
    return f"""\
# Posteriors of a success probability

`{results.command}`, {dt.date.today()}. Simulated data, fixed seeds, a uniform prior.

Foulds, Geumlek, Welling and Chaudhuri ("On the theory and practice of privacy-preserving Bayesian
data analysis", UAI 2016) compare two ways to a private posterior of a success probability p from n
records: the Laplace mechanism on the two counts, whose noisy values are then plugged in, and one
draw from a tempered, truncated posterior (OPS). Here are their experiments again, with Tacit's
noise-aware posterior beside them. In the pictures what has no privacy is dotted, the paper's
methods are dashed, Tacit's are solid. One record is replaced by another, and n is public, as in the
paper.

Two differences matter throughout. The paper adds noise of scale 2/epsilon to the successes and to
the failures, as one record moves both. With n public the failures are n minus the successes: one
number with sensitivity **1** is enough. And the paper sets negative counts to zero and then forgets
the noise, which pushes small counts up and makes the posterior too narrow; Tacit averages over what
the count may have been. (The paper's `h(x) = 0` for the Bernoulli law must read `h(x) = 1`.)
"""


def _figure1(results: Results) -> str:
    far, temperature = results.figure1, FIGURE1.temperature
    return f"""\
## Figure 1: posteriors at epsilon 1

![Posteriors](conjugate-posteriors.png)

6 successes among 20 records, epsilon 1, OPS truncated at 0.2, 30 releases of each kind. The paper
shows Laplace posteriors that scatter around the true one, and an OPS density that is flatter by its
temperature T and cut off. The same is seen here. The paper prints T = 2.7; it is
2 log((1 - a0) / a0) / epsilon = {temperature:.4f}. The paper's posterior means are on average
{far["paper"]:.3f} away from the one without privacy, Tacit's {far["ours"]:.3f}. The paper's curves
are as narrow as if the noisy counts were true; Tacit's are wider than those of a known count,
since they know less. ({far["beyond the picture"]:.0f} of the paper's 30 curves leaves the picture:
noise took a count below zero.)
"""


def _figure2(results: Results) -> str:
    l1, last = results.l1, int(results.l1.ns[-1])
    shown = [i for i, n in enumerate(l1.ns) if n in (1, 10, 30, 100, 1000, 10_000, 100_000)]
    head = " | ".join(f"n = {l1.ns[i]:,}" for i in shown)
    table = [f"| mean absolute error at p = 0.1 | {head} |", "|---" * (len(shown) + 1) + "|"]
    table += [
        f"| {name} | " + " | ".join(f"{l1.mean[name][i]:.3g}" for i in shown) + " |"
        for name in METHODS
    ]
    prior = ["| root mean squared error, p from the prior | "
             + " | ".join(f"n = {n:,}" for n in results.prior_ns) + " |",
             "|---" * (len(results.prior_ns) + 1) + "|"]  # fmt: skip
    prior += [
        f"| {name} | " + " | ".join(f"{v:.3g}" for v in values) + " |"
        for name, values in results.under_prior.items()
    ]
    checks = [
        f"| {n:,} | {epsilon:g} | {seen:g} | {mean:.5f} | {tacit:.5f} | {gap:+.2f} |"
        for n, epsilon, seen, mean, tacit, gap in results.check
    ]
    ratio = {name: l1.mean[name][-1] / l1.mean[base][-1] for name, base in (
        (LAPLACE_DRAW, DRAW), (LAPLACE_MEAN, MEAN), (OURS, MEAN), (OPS, DRAW))}  # fmt: skip
    lines = "\n".join
    return f"""\
## Figure 2: error and number of records

![Errors](conjugate-errors.png)

p = 0.1, epsilon 0.1, OPS truncated at 0.05 (T = {FIGURE2.temperature:.1f}), {l1.repeats} repeats.
The paper says that OPS is better only up to about n = 10 and that the Laplace mechanism reaches the
error without privacy. Measured with {results.many:,} repeats, and by two standard errors, a draw
from the Laplace posterior is better than OPS from n = {results.overtaken[LAPLACE_DRAW]} on, its
mean from n = {results.overtaken[LAPLACE_MEAN]} on. At n = {last:,} the Laplace draw has
{ratio[LAPLACE_DRAW]:.2f} times the error of a draw without privacy, the Laplace mean
{ratio[LAPLACE_MEAN]:.2f} times and Tacit's mean {ratio[OURS]:.2f} times that of the mean without
privacy, and OPS {ratio[OPS]:.1f} times that of a draw. Both claims hold.

{lines(table)}

For n from about 5 to 30 Tacit's mean has a larger error than the paper's, at this p. With noise of
scale 10 there is next to nothing to learn, and Tacit says so by staying near the prior's mean
0.5, while the projection to zero is right by luck where p is small. Over probabilities from the
prior the noise-aware mean is the best that can be done with its release; of what is private here
nothing is better at any n, up to the noise of the simulation:

{lines(prior)}

An OPS draw can be used noise-aware as well: given the draw, enumerate what the count may have been.
That helps on average over the prior while n is small and nothing can make up for T later. Near the
truncation it may even hurt at a fixed p: a draw there is what any count beyond it would have given.

The curves enumerate the count directly. Tacit's own posterior, from 40,000 draws, agrees; the last
column is the difference in standard errors.

| n | epsilon | noisy count | enumerated mean | `BetaBernoulli.posterior` | difference |
|---|---|---|---|---|---|
{lines(checks)}
"""


def _table1(results: Results) -> str:
    limits = {MEAN: 1, DRAW: 2, LAPLACE_MEAN: 1, LAPLACE_DRAW: 2, OURS: 1, OURS_DRAW: 2}
    tables = []
    for curves in results.efficiency:
        limit = {
            **limits,
            OPS: 1 + curves.setting.temperature,
            OURS_OPS: 1 + curves.setting.temperature,
        }
        head = " | ".join(f"n = {n:,}" for n in curves.ns)
        tables += [f"\n| epsilon {curves.setting.epsilon:g} | limit | {head} |",
                   "|---" * (len(curves.ns) + 2) + "|"]  # fmt: skip
        for name in METHODS:
            cells = [f"{m:.3g} ± {e:.2g}" for m, e in zip(curves.mean[name], curves.error[name])]
            tables.append(f"| {name} | {limit[name]:.4g} | " + " | ".join(cells) + " |")
    widths, temperature = results.widths, FIGURE1.temperature
    p = FIGURE1.p
    paper, ours = 8 * (p**2 + (1 - p) ** 2) / (p * (1 - p)), 2 / (p * (1 - p))
    lines = "\n".join(tables)
    return f"""\
## Table 1, Theorems 4 and 5, Remark 1: asymptotic relative efficiency

![Efficiency](conjugate-efficiency.png)

The mean squared error of an estimate, times n / (p (1 - p)); p = 0.3, OPS truncated at 0.2,
{results.many:,} repeats, ± one standard error (two in the picture). The paper has 2 for a posterior
draw, 2 for a Laplace draw (Theorem 4), 1 for the Laplace mean (Remark 1) and 1 + T for OPS
(Theorem 5). All are found.
{lines}

Where the paper slips:

- Table 1 sets the Laplace *mean* (1) beside an OPS *draw* (1 + T). Like with like it is 2 against
  1 + T; but the mean is there to be had from the Laplace release, and not from OPS.
- Theorem 4 calls N(theta0, 2 / (I N)) the asymptotic posterior. The posterior is
  N(theta^, 1 / (I N)) around the best estimate; a *draw* from it has variance
  2 / (I N) around the truth. Measured at
  n = 1,000,000 and epsilon 1, the posterior's own variance is {widths["no privacy"]:.4f} / (I N)
  without privacy and {widths["paper: Laplace"]:.4f} / (I N) with the Laplace mechanism.
- Theorem 5 in the same way: the OPS posterior's own variance is {widths["paper: OPS"]:.4f} / (I N),
  that is T, not 1 + T. So the variances of the two posteriors have the ratio
  T = {temperature:.2f}; the paper's (1 + T) / 2 = {(1 + temperature) / 2:.2f} is the ratio of
  the variances of draws.
- An efficiency of 1 is a limit. To first order the Laplace mean has
  1 + {paper:.1f} / (epsilon^2 n) at this p, and Tacit's mean, with sensitivity 1 instead of 2
  on two counts,
  1 + {ours:.1f} / (epsilon^2 n).
"""


def _adversary(results: Results) -> str:
    swap, add = results.attacks["replace_one"], results.attacks["add_remove"]
    n = len(swap.cost)
    return f"""\
## Supplement, Figure 1: an adversary's data

![Adversary](conjugate-adversary.png)

One draw from a Beta posterior truncated at 0.1, without tempering. An adversary adds records one by
one, each such that the privacy cost of a draw from *this* data set is as large as it can be. The
paper says that the cost approaches the worst case. It does: at n = {n:,} it is {swap.cost[-1]:.4f},
the bound 2 log((1 - a0) / a0) is {swap.bound:.4f}. The greedy adversary ends up with records that
are all alike, and balanced data of this size cost {swap.balanced[-1]:.4f}. Where neighbours add or
remove a record both halve, to {add.cost[-1]:.4f} and log((1 - a0) / a0) = {add.bound:.4f}, where
twice the largest log-likelihood would give {-2 * np.log(0.1):.4f}. The paper
searches a grid of p; the log ratio is monotone in p, so its
largest value is at an end and no search is needed. What enters is the *range* of the
log ratio over p: terms without theta, the paper's log h(x) in equation 13, cancel in the
normaliser.
"""


def _lemma1(results: Results) -> str:
    found = results.divergence
    shown = [i for i, n in enumerate(found.ns) if n in (1, 10, 100, 1000, 10_000, 100_000)]
    table = ["| n | paper: mean | 10% | 90% | Tacit: mean | 10% | 90% | paper back | Tacit back |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for i in shown:
        cells = [f"{found.ns[i]:,}"]
        for values in (found.paper[i], found.ours[i]):
            cells += [f"{v:.2g}" for v in (values.mean(), *np.quantile(values, [0.1, 0.9]))]
        cells += [f"{found.paper_back[i].mean():.2g}", f"{found.ours_back[i].mean():.2g}"]
        table.append("| " + " | ".join(cells) + " |")
    broken = "; ".join(
        f"at n = {n:,} in {100 * theirs:.0f}% of the draws (corrected: {100 * ours:.0f}%)"
        for n, (theirs, ours) in results.lemma5.items()
    )
    p, noise = FIGURE2.p, 1 / FIGURE2.epsilon**2
    paper, ours = 4 * (p**2 + (1 - p) ** 2) * noise / (p * (1 - p)), noise / (p * (1 - p))
    lines = "\n".join(table)
    return f"""\
## Lemma 1: the private posterior approaches the posterior

![Divergence](conjugate-divergence.png)

KL(private || posterior) in the setting of Figure 2, {results.repeats} repeats; "back" is the
mean of KL(posterior || private). The paper says that the expectation goes to zero. It
does, like 1/n: the lines in the picture are
{paper:,.0f} / n for the paper's release and {ours:,.0f} / n for Tacit's,
half the excess of the efficiencies, at this p. While the noise drowns the data the first direction
punishes any posterior that admits to know little; the way back shows what admitting it gains.

{lines}

Where the paper slips: its Lemma 5 bounds KL by D_N |noise|; the proof gives D_N |noise|^2 / 2,
which is larger once |noise| exceeds 2. At epsilon 1 and p = 0.3 the printed bound is broken
{broken}. The limit is not affected.
"""

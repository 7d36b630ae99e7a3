"""The page of vips.py: what the paper tells, what was chosen, what was measured."""

from __future__ import annotations

import datetime as dt

from conjugate_page import wrapped
from vips_data import FEWEST
from vips_measures import (
    AVERAGED,
    CLIP,
    DELTA,
    EXACT,
    LENGTH,
    LOOKED_AT,
    NONE,
    NONE_PAPER,
    OURS,
    PAPER,
    PRIVATE,
    SMALL,
    SMALLER,
    STEPS,
    STRONG,
    TOP,
    UNCLIPPED,
    UNIGRAM,
    Found,
)
from war_logs_tables import table

from tacit.accounting import noise_multiplier

_PREFIX = """For time the curve is on the first documents of Wikipedia, which are a fair sample, and
one epsilon on all. Fewer documents have more noise for each: compare methods, not corpora."""
SHOWN = (NONE, PAPER, STRONG, UNCLIPPED, OURS)


def page(command: str, main: float, found: list[Found]) -> str:
    """The whole page. The corpus of the paper's kind comes first, where there is one."""
    curves = [_curve(one, drawn=len(found) < 3 or i > 0) for i, one in enumerate(found)]
    parts = [
        _head(command, found),
        *curves,
        _noise(found[-1]),
        _clip(main, found),
        _words(main, found[0]),
    ]
    return "\n".join(wrapped(part) for part in parts)


def _head(command: str, found: list[Found]) -> str:
    sizes = "; ".join(
        f"{one.corpus.title}: {one.corpus.size:,} documents to learn from, "
        f"{one.corpus.test.shape[0]:,} to predict, {len(one.corpus.words):,} words, "
        f"{one.corpus.topics} topics"
        for one in found
    )
    return f"""\
# Topics of private documents: the paper's steps and Tacit's

`{command}`, {dt.date.today()}. "The paper" is Foulds, Park, Chaudhuri and Welling, IJCAI 2020,
whose Figure 2 has perplexity against epsilon and whose Table 1 has the words of one topic. All
documents here are public or simulated; scores look at documents, and are no private release.

Corpora: {sizes}. A document to learn from has at least {FEWEST} words. The paper has 400,000
documents of Wikipedia, about 8,000 words and 50 topics. A number is the mean of
{found[0].seeds} fits with different seeds and, for completion, their standard deviation: at most
{_spread(found)} of the mean. Sampling, noise and first topics differ with the seed; documents do
not.
{_PREFIX if len(found) > 2 else ""} An empty cell was not run.

- The paper's method: `LDA(topics, weighting="length")` with `VIPS(epsilon, {DELTA:g},
  sampling=WithoutReplacement(n // 20, n), tau0=1024, kappa=.7, accountant="rdp")` and
  `noise="plugin"`: documents count as {LENGTH} words, cut down to a norm of {CLIP:g} times that;
  20 batches of a twentieth, as 20,000 of 400,000 in the paper. Weights in place of words drawn
  with replacement: the same on average. `clamp_steps=True`: negative numbers are set to zero in
  every step, as the paper says. All curves that begin with "paper" have it. By default Tacit does
  not: the average of steps is a noisy sum of its own, and negatives are set to zero there alone.
  The row "not the paper" is the paper's method with this one change.
- `tau0`, `kappa` and what S is beside 20,000 are not in the extended abstract; the other S here is
  n/80.
- Epsilon is for neighbours that replace one document, delta {DELTA:g}. The paper has a sensitivity
  that is too small by the square root of 2: its epsilon of 2.38 is 4.23 by its own accountant
  ([what the settings cost](accounting.md)). Here noise is chosen for the correct one, so that the
  paper's methods have more of it than in the paper at the same epsilon.
- Strong composition is a looser theorem for the same steps. No clipping is `clip=1`.
- Tacit's own: `LDA(topics)` with `VIPS(epsilon, {DELTA:g})`, nothing else set.
- No privacy: `Exact()`, some passes in batches of 1,000; "the paper's batches" are 20 without noise
  or clip. Word frequencies: one topic for all documents, counted exactly. Hoffman's bound is exact
  for it, an advantage of which the paper warns.
- Noise on each document's q(l) as well, which the paper calls impractical (section 3), is not
  here, for arithmetic tells: documents are disjoint, so that each q(l) needs the noise that their
  sum over the batch needs now, and the sum of S of them has its root of S times as much: 141 times
  for S = 20,000.
"""


def _spread(found: list[Found]) -> str:
    """The largest standard deviation of completion over seeds, as a share of its mean."""
    return f"{max(s['spread'] / s['completion'] for f in found for s in f.scores.values()):.1%}"


def _curve(one: Found, drawn: bool) -> str:
    heads = [f"epsilon {e:g}" for e in one.epsilons]
    tables = []
    for what, label in (("completion", "completion"), ("bound", "Hoffman's bound")):
        rows = []
        for method in (*EXACT, *PRIVATE):
            value = dict(zip(*one.curve(method, what), strict=True))
            if method in EXACT:  # once is enough
                value = dict([*value.items()][:1])
            told = {e: f"{v:,.0f}" for e, v in value.items()}
            if what == "completion" and method != UNIGRAM:
                for e, spread in zip(*one.curve(method, "spread"), strict=True):
                    told |= {e: f"{told[e]} ± {spread:,.0f}"} if e in told else {}
            if told:
                rows.append((method, [told.get(e, "") for e in one.epsilons]))
        tables.append(table(label, heads, rows))
    title = one.corpus.title
    picture = f"![Perplexity against epsilon, {title}](vips-{one.corpus.name}.png)\n\n"
    return f"""\
## {f"Figure 2: perplexity against epsilon, {title}" if drawn else f"{title}, all documents"}

{picture if drawn else ""}Completion: half the words of each unseen document, given the other
half. Less is better.

{tables[0]}

{tables[1]}

{_read(one)}
"""


def _read(one: Found) -> str:
    """What became of the paper's claims, and from where on a method beats word frequencies."""
    paper = dict(zip(*one.curve(PAPER, "completion"), strict=True))
    plain, slow = (one.scores[m, 0.0]["completion"] for m in (NONE, NONE_PAPER))
    lines = [
        f"- Before any noise the paper's 20 steps reach {slow:,.0f} where passes in batches of "
        f"1,000 reach {plain:,.0f}: part of the distance to no privacy is not the noise."
    ]
    for other in (STRONG, UNCLIPPED, SMALL, AVERAGED, OURS):
        pairs = [
            (value, paper[e])
            for e, value in zip(*one.curve(other, "completion"), strict=True)
            if e in paper
        ]
        if pairs:
            worse = sum(theirs > base for theirs, base in pairs)
            lines.append(
                f"- {other}: worse than {PAPER.removeprefix('paper: ')} at {worse} of {len(pairs)} "
                "epsilons (completion)."
            )
    for what in ("completion", "bound"):
        base = one.scores[UNIGRAM, 0.0][what]
        for method in (PAPER, OURS):
            ahead = [e for e, v in zip(*one.curve(method, what), strict=True) if v < base]
            where = ", ".join(f"{e:g}" for e in ahead) or "none"
            lines.append(f"- {method}, {what}: better than word frequencies at epsilon: {where}.")
    ahead = [e for e, v in zip(*one.curve(OURS, "completion"), strict=True) if v < plain]
    if ahead:
        where = ", ".join(f"{e:g}" for e in ahead)
        lines.append(
            f"- Tacit's is ahead of no privacy at epsilon {where}: that began at random topics and "
            "has not converged, Tacit's begins at words that occur together."
        )
    return "\n".join(lines)


def _noise(one: Found) -> str:
    rows = []
    for method, accountant, steps in (
        (PAPER, "rdp", STEPS), (SMALL, "rdp", SMALLER), (STRONG, "strong", STEPS)
    ):  # fmt: skip
        needed = [
            noise_multiplier(
                epsilon=e, steps=steps, sampling_rate=1 / steps, delta=DELTA, sampling="wor",
                neighbours="replace_one", geometry="nonnegative", accountant=accountant,
            )
            for e in one.epsilons
        ]  # fmt: skip
        rows.append((method, [f"{value:.2f}" for value in needed]))
    return f"""\
## Noise that each accountant asks for

Standard deviation over the clip; the paper has 1.24.

{table("", [f"epsilon {e:g}" for e in one.epsilons], rows)}

Theorem 9 of Wang et al. (2019), which the moments accountant is here, has terms that more noise
does not make smaller. For batches of a twentieth it gains nothing from sampling at epsilon 0.5,
where it asks for more noise than strong composition does.
"""


def _clip(main: float, found: list[Found]) -> str:
    rows = []
    for method, e in ((NONE, 0.0), (NONE_PAPER, 0.0), (PAPER, main), (UNCLIPPED, main)):
        name = method if method in EXACT else f"{method}, epsilon {e:g}"
        scores = [one.scores.get((method, e)) for one in found]
        rows.append((name, ["" if s is None else f"{s['clipped']:.1%}" for s in scores]))
    shares = table("topics that were fitted with", [one.corpus.title for one in found], rows)
    return f"""\
## Documents that the clip shortens

The paper: "around 3/4 of the documents" at a = {CLIP:g}. Here the expectation step is taken of up
to {LOOKED_AT:,} documents outside the wall, given topics of several fits. A document is clipped
if its words, each in its topics, are worth fewer than 1/a² = {1 / CLIP**2:g} equally frequent
ones: short documents are, and the clearer topics are the more of the others.

{shares}
"""


def _words(main: float, one: Found) -> str:
    columns, likeness, heads = [], [], []
    for method in SHOWN:
        score = one.scores.get((method, 0.0 if method in EXACT else main))
        if score is not None:
            heads.append(method.removesuffix(", S = n/20"))
            columns.append(list(score["topic"])[:TOP])
            likeness.append(f"{score['likeness']:.2f}")
    rows = [(str(i + 1), list(words)) for i, words in enumerate(zip(*columns, strict=True))]
    shared = [str(len(set(columns[0]) & set(words))) for words in columns]
    which = "with most words"
    if "station" in one.corpus.words:
        which = 'that says "station" and "railway" most often'
    return f"""\
## Table 1: one topic's words, {one.corpus.title}, epsilon {main:g}

The topic {which} without privacy, and of each other fit the topic most like it (cosine of
probabilities). In the paper it is about railway stations; what it is about here its words tell.

{table("", heads, [*rows, ("cosine", likeness), ("words shared", shared)])}
"""

"""The verdicts as a page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from tacit.audit.game import COLUMNS, Verdict


def markdown(verdicts: Sequence[Verdict], runs: int) -> str:
    """The result as a page."""
    lines = (COLUMNS, ("---",) * len(COLUMNS), *(verdict.cells for verdict in verdicts))
    rows = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return _PAGE.format(runs=runs, day=dt.date.today(), rows=rows)


_PAGE = """# Attacks on the mechanisms

For each mechanism an adversary who knows everything but one unit guesses, from the output, which
of two worst neighbouring data sets it came from. The best guess is a threshold on the
log-likelihood ratio; how often it is right bounds epsilon from below (Clopper and Pearson,
confidence 1 - 1e-5, the threshold chosen on other runs). Every mechanism has a broken twin, which
the same attack must catch. Steps are real steps of a lease. A single statistic is computed by the
wall once and noised again, 20 times as often. Gaussian noise, steps, draws of coefficients and
logistic regressions are attacked at a large delta, where most can be shown. The density of other
draws is known: what is shown is the largest log-ratio over all data sets of up to six rows and the
worst one of a thousand (for a mean without bounds, the exact epsilon at its delta), and the draws
are tested to have that density (Kolmogorov and Smirnov, false-alarm rate 1e-6). Choices, draws
among points and hidden states have finitely many outcomes, which are all counted, and a chi-square
test asks whether the wall draws from that law. Of a chain its target is audited, which it is
assumed to have reached.

`tacit audit --runs {runs}`, {day}.

{rows}
"""

"""Many samples by strips have the law. False-alarm rate of each statistical test: 1e-6."""

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from tacit.laws.strips import TAIL, strips
from tacit.wall.noise import draw, os_entropy
from tests.laws.test_bulk import stream
from tests.laws.test_strips import law

ALARM = 1e-6


@pytest.mark.parametrize("s", [2**12, 2**12 + 1])
def test_the_law_number_by_number(s):
    """Chi-square over single numbers to 3 sigma either side, then over what is beyond."""
    size = 3_000_000
    drawn = draw(law(s), size)
    support = np.arange(-12 * s, 12 * s + 1)
    weight = np.exp(-((support / s) ** 2) / 2)
    expected = weight / weight.sum() * size
    seen = np.bincount(drawn + 12 * s, minlength=support.size)
    inner = np.abs(support) <= 3 * s
    terms = ((seen - expected) ** 2 / expected)[inner].sum()
    outer = size - seen[inner].sum()
    left = size - expected[inner].sum()
    assert ALARM / 2 < chi2.sf(terms + (outer - left) ** 2 / left, inner.sum()) < 1 - ALARM / 2


@pytest.mark.parametrize("s", [2**12, 54_321, 2**30])
def test_tails_moments_and_signs(s):
    size, rare = 2_000_000, ALARM / 20  # what is looked at is looked at in some twenty ways
    drawn = draw(law(s), size)
    z = drawn / s
    for limit in (2, 3.46, 3.47, 4, 4.5):
        count = int((np.abs(drawn) > limit * s).sum())
        # The sum over y is the integral from y - 1/2 on, up to O(s^-2).
        beyond = 2 * norm.sf((int(limit * s) + 0.5) / s)
        assert binom.sf(count - 1, size, beyond) > rare
        assert binom.cdf(count, size, beyond) > rare
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        score = ((z**power).mean() - mean) / np.sqrt(variance / size)
        assert abs(score) < norm.isf(rare / 2)
    positive, negative = int((drawn > 0).sum()), int((drawn < 0).sum())
    assert binom.cdf(min(positive, negative), positive + negative, 0.5) > rare
    zeros = int((drawn == 0).sum())
    chance_of_zero = 1 / (s * np.sqrt(2 * np.pi))
    assert binom.sf(zeros - 1, size, chance_of_zero) > rare
    assert binom.cdf(zeros, size, chance_of_zero) > rare


@pytest.mark.parametrize("s", [2**12 + 1, 2**30])
def test_the_tail_has_its_law(s):
    """Every try is in the tail, of three words each: then the law is that beyond its border."""
    words = os_entropy(3 * 600_000).copy()
    words[::3] |= TAIL << 23
    words[2::3] |= 1  # v at most 31, so that tries stay aligned: less is cut than 2^-32
    drawn = draw(law(s), 60_000, stream(words, 0))
    border = int(strips(s).left[TAIL])
    assert np.abs(drawn).min() >= border
    # Cells between whole numbers: the sum over y is the integral from y - 1/2 up to O(s^-2).
    edges = np.concatenate([[border], border + np.ceil(np.linspace(0.02, 1.6, 40) * s)])
    above = norm.sf((edges - 0.5) / s)
    expected = -np.diff(np.append(above, 0)) / above[0] * drawn.size
    seen = np.bincount(np.searchsorted(edges, np.abs(drawn), side="right") - 1, minlength=41)
    assert expected.min() > 3
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), len(expected) - 1) > ALARM

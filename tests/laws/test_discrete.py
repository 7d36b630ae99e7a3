"""Wide Gaussians by strips: the table, single numbers, compiled code against plain, the law.

False-alarm rate of each statistical test: 1e-6.
"""

import types
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm

from tacit.laws import bulk
from tacit.laws.discrete import (
    FRACTION,
    LEAST_SIGMA,
    STRIPS,
    TAIL,
    OutOfRandomBitsError,
    Stream,
    strips,
)
from tacit.spec.release import Noise
from tacit.wall import noise as _noise
from tacit.wall.noise import draw, os_entropy
from tests.laws.test_bulk import ALARM, stream

SIGMAS = [2**12, 2**12 + 1, 54_321, 2**20 + 7, 3 * 2**27, 2**30 - 1, 2**30]
ACCEPTED = [(9 << 23) | 2**22, 0]  # words of a try that is accepted wherever it comes


def law(s: int) -> Noise:
    return Noise("discrete_gaussian", float(s), 1.0)


def pair(i: int, n: int, negative: bool = False) -> list[int]:
    """The two words of a sign, a strip and 55 bits."""
    return [negative << 31 | i << 23 | n >> 32, n & 0xFFFFFFFF]


def first(s: int, words: list[int]) -> int:
    """What the compiled sampler draws first, doubts settled, and the plain one as well."""
    given_words = np.array([*words, *ACCEPTED * 4], np.uint32)
    drawn = int(draw(law(s), 1, lambda _: given_words)[0])
    assert Stream(given_words).gaussian(s) == drawn
    return drawn


def density(y: int, s: int) -> mpmath.mpf:
    return mpmath.exp(-(mpmath.mpf(y) ** 2) / (2 * mpmath.mpf(s) ** 2))


def probability(i: int, y: int, s: int) -> mpmath.mpf:
    """The probability to accept y in strip i, the tail's first one included."""
    cut = strips(s)
    return density(y, s) * int(cut.width[i]) * 2 ** (32 + (i == TAIL)) / cut.area


# The table


@pytest.mark.parametrize("s", SIGMAS)
def test_strips_cover_everything_and_no_probability_exceeds_one(s):
    cut = strips(s)
    left, width = cut.left.tolist(), cut.width.tolist()
    assert left[0] == 0
    assert [a + w for a, w in zip(left, width, strict=True)][:TAIL] == left[1:]
    assert min(width) > 10
    assert len(left) == STRIPS
    with mpmath.workdps(50):
        for i in range(STRIPS):
            assert probability(i, left[i], s) <= 1
        for v in range(60):
            assert density(left[TAIL] + s * v, s) * s * 2 ** (33 + v) <= cut.area
        for i in range(TAIL):  # what is accepted without exp is below the density at its lowest
            border = probability(i, left[i + 1] - 1, s) * 2**FRACTION
            assert int(cut.sure[i]) + width[i] <= border
            assert int(cut.sure[i]) + width[i] > border * (1 - 1e-3)
    assert cut.sure[TAIL] == 0
    assert left[TAIL] > 3 * s
    assert cut.area < 2**62


def test_tables_are_refused_where_they_would_overflow_or_be_coarse():
    for s in (LEAST_SIGMA - 1, 2**30 + 1):
        with pytest.raises(ValueError, match="no strips"):
            strips(s)
    with pytest.raises(ValueError, match="read-only"):
        strips(2**12).left[0] = 1


def test_most_tries_are_accepted():
    tries = {s: strips(s).entropy / 2.02 for s in SIGMAS}
    assert min(tries.values()) > 1
    assert max(tries.values()) < 1.08
    assert tries[2**30] < 1.014


# The law of a single number, by bisection over what is drawn


def measured(s: int, i: int, place: int, extra: list[int]) -> int:
    """How many of the 2^55 values of the fraction give a place of strip i, up to two."""
    width, y = int(strips(s).width[i]), int(strips(s).left[i]) + place
    low = -(-place * 2**FRACTION // width) + 1  # one up: the first one straddles a border
    start, high = low, (place + 1) * 2**FRACTION // width - 1
    assert first(s, [*pair(i, low), *extra]) == y
    if first(s, [*pair(i, high), *extra]) == y:
        return high - start
    while high - low > 1:
        middle = (low + high) // 2
        if first(s, [*pair(i, middle), *extra]) == y:
            low = middle
        else:
            high = middle
    return low - start


@pytest.mark.parametrize("s", [2**12, 54_321, 2**30 - 1])
def test_each_number_has_its_probability(s):
    """2^-55 times the measured number is p(y) times one constant, whatever the strip."""
    cut = strips(s)
    for i in (0, 1, 2, 100, 200, 253, 254, TAIL):
        width = int(cut.width[i])
        for place in {0, 1, width // 3, width - 1}:
            y = int(cut.left[i]) + place
            found = measured(s, i, place, [2**31] if i == TAIL else [])
            expected = density(y, s) * 2.0 ** (32 + (i == TAIL)) / cut.area * 2.0**FRACTION
            assert abs(found - expected) <= 5


@pytest.mark.parametrize("v", [1, 2, 5])
def test_the_tail_goes_on_by_strips_half_as_likely(v):
    s = 2**12 + 1
    cut = strips(s)
    for place in (0, 7):
        y = int(cut.left[TAIL]) + s * v + place
        expected = int(density(y, s) * 2 ** (33 + v) / cut.area * 2**FRACTION)
        border = -(-place * 2**FRACTION // s)
        assert expected > 10
        word = 2 ** (31 - v) | 12345
        assert first(s, [*pair(TAIL, border + expected - 3), word]) == y
        assert first(s, [*pair(TAIL, border + expected + 3), word]) != y


def test_numbers_however_far_out_can_be_drawn():
    """Zeros for long enough: the compiled code is in doubt, and long arithmetic gets there."""
    s = 2**12 + 1
    cut = strips(s)
    table = (np.uint64(s), cut.left, cut.width, cut.sure, np.uint64(cut.area))
    for zero_words in (1, 2, 40):
        start = [*pair(TAIL, 0, negative=True), *[0] * zero_words, 2**26]
        words = np.array([*start, *[0] * 600], np.uint32)
        assert bulk.fill_strips(np.zeros(1, np.int64), 0, *table, words) == (0, 0, True)
        if zero_words == 40:  # as far as doubles overflow: doubt is all there is to see
            continue
        expected = -(int(cut.left[TAIL]) + s * (32 * zero_words + 5))
        assert Stream(words).gaussian(s) == expected
        assert draw(law(s), 1, lambda _, words=words: words)[0] == expected
        with pytest.raises(OutOfRandomBitsError):
            Stream(words[:4]).gaussian(s)


def test_zero_is_counted_once_and_signs_mirror():
    for s in SIGMAS:
        assert first(s, pair(0, 5)) == 0
        after = first(s, ACCEPTED)
        assert after > 0
        assert first(s, pair(0, 5, negative=True)) == after
        for i in (0, 77, 254):
            place = 2**FRACTION * 2 // 3
            width = int(strips(s).width[i])
            n = -(-(place * width >> FRACTION) * 2**FRACTION // width) + 1
            assert first(s, pair(i, n, negative=True)) == -first(s, pair(i, n)) < 0


# Compiled and plain, word by word


@pytest.mark.parametrize("s", SIGMAS)
def test_the_compiled_sampler_is_the_plain_one_word_by_word(s):
    words = os_entropy(12_000)
    plain = Stream(words)
    expected = [plain.gaussian(s) for _ in range(2_000)]
    for portion in (0, 1, 7):
        assert draw(law(s), 2_000, stream(words, portion)).tolist() == expected


@pytest.mark.parametrize("s", SIGMAS)
def test_they_agree_in_the_tail(s):
    """Words of which half the tries are in the tail."""
    words = os_entropy(30_000).copy()
    words[::5] |= TAIL << 23
    plain = Stream(words)
    expected = [plain.gaussian(s) for _ in range(2_000)]
    assert max(expected) > 4 * s
    assert draw(law(s), 2_000, stream(words, 0)).tolist() == expected


@settings(deadline=None, max_examples=500)
@given(
    s=st.one_of(st.sampled_from(SIGMAS), st.integers(2**12, 2**30)),
    i=st.integers(0, TAIL),
    share=st.fractions(0, 1),
    nudge=st.integers(-3, 3),
    at_density=st.booleans(),
    negative=st.booleans(),
    more=st.lists(st.sampled_from([0, 1, 2**31, 2**32 - 1]), min_size=1, max_size=6),
)
def test_they_agree_at_borders(s, i, share, nudge, at_density, negative, more):
    """Fractions a few units from the border between places, or from the density."""
    cut = strips(s)
    width = int(cut.width[i])
    place = min(int(share * width), width - 1)
    with mpmath.workdps(50):
        height = probability(i, int(cut.left[i]) + place, s) if at_density else mpmath.mpf(0)
        n = int(mpmath.floor((place + height) * 2**FRACTION / width)) + nudge
    words = [*pair(i, min(max(n, 0), 2**FRACTION - 1), negative), *more]
    first(s, words)


@pytest.mark.parametrize("s", [2**12, 2**12 + 1, 2**30])
def test_doubts_on_the_border_are_settled_by_further_words(s):
    """The two words stop at the density; the next one says on which side."""
    cut = strips(s)
    for i in (3, 150, 254):
        place = int(cut.width[i]) // 2
        y, width = int(cut.left[i]) + place, int(cut.width[i])
        with mpmath.workdps(80):
            exact = (place + probability(i, y, s)) * mpmath.mpf(2) ** (FRACTION + 32) / width
            digits = int(mpmath.floor(exact))
        n, word = digits >> 32, digits & 0xFFFFFFFF
        assert first(s, [*pair(i, n), max(word - 3, 0)]) == y
        assert first(s, [*pair(i, n), min(word + 3, 2**32 - 1)]) != y


@pytest.mark.parametrize("s", SIGMAS)
def test_forced_doubts_change_nothing(s, monkeypatch):
    """Without the quick threshold, and with a margin of a fifth, many samples are in doubt."""
    words = os_entropy(8_000)
    sure = draw(law(s), 1_000, stream(words, 0))
    code = Path(bulk.__file__).read_text()
    assert "_STRIP_MARGIN = 2.0**-30" in code
    code = code.replace("_STRIP_MARGIN = 2.0**-30", "_STRIP_MARGIN = 0.2")
    doubtful = types.ModuleType("doubtful")
    exec(compile(code, "doubtful", "exec"), doubtful.__dict__)
    settled, original = [], _noise.settled
    monkeypatch.setattr(_noise, "settled", lambda *a: (settled.append(1), original(*a))[1])
    monkeypatch.setattr(_noise, "bulk", doubtful)
    never = strips(s)._replace(sure=np.zeros(STRIPS, np.uint64))
    monkeypatch.setattr(_noise, "strips", lambda _: never)
    np.testing.assert_array_equal(draw(law(s), 1_000, stream(words, 0)), sure)
    assert len(settled) > 100


def test_the_quick_threshold_changes_nothing(monkeypatch):
    words = os_entropy(70_000)
    for s in SIGMAS:
        quick = draw(law(s), 30_000, stream(words, 0))
        with monkeypatch.context() as patch:
            never = strips(s)._replace(sure=np.zeros(STRIPS, np.uint64))
            patch.setattr(_noise, "strips", lambda _, never=never: never)
            np.testing.assert_array_equal(draw(law(s), 30_000, stream(words, 0)), quick)


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
    probability_of_zero = 1 / (s * np.sqrt(2 * np.pi))
    assert binom.sf(zeros - 1, size, probability_of_zero) > rare
    assert binom.cdf(zeros, size, probability_of_zero) > rare


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

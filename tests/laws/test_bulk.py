"""The compiled samplers are exact. False-alarm rate of each statistical test: 1e-6."""

import types
from decimal import Decimal, localcontext
from itertools import combinations
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm

from tacit.laws import bulk
from tacit.laws.discrete import OutOfRandomBitsError, Stream
from tacit.public import seeded_entropy
from tacit.spec.release import Noise
from tacit.wall import noise as _noise
from tacit.wall.noise import draw, os_entropy
from tacit.wall.steps.batches import draw_poisson, draw_subset, skip_numerator
from tests.wall.test_noise import ALARM, chi_square_p

LAWS = [
    Noise("discrete_laplace", 0.7, 1.0),
    Noise("discrete_laplace", 3.0, 0.25),
    Noise("discrete_laplace", 12.5, 1.0),
]
# Too narrow for strips: the plain sampler draws them.
NARROW = [Noise("discrete_gaussian", 2.0, 0.5), Noise("discrete_gaussian", 37.0, 1.0)]
STRIPS = [Noise("discrete_gaussian", 4097.0, 1.0), Noise("discrete_gaussian", 3 * 2.0**27, 1.0)]


def stream(words: np.ndarray, portion: int):
    """A fixed stream of words, handed out in portions whatever is asked for."""
    state = {"at": 0}

    def take(count: int) -> np.ndarray:
        size = min(portion, count) if portion else count
        part = words[state["at"] : state["at"] + size]
        assert len(part) == size, "the test's stream is too short"
        state["at"] += size
        return part

    return take


@pytest.mark.parametrize("noise", [*LAWS, *NARROW], ids=str)
def test_noise_has_its_exact_law(noise):
    assert chi_square_p(draw(noise, 20_000 if noise in NARROW else 200_000), noise) > ALARM


@pytest.mark.parametrize("noise", [LAWS[2], NARROW[1]], ids=str)
def test_the_test_would_notice_other_noise(noise):
    wrong = Noise(noise.family, noise.scale * 41 / 37, noise.grid)
    assert chi_square_p(draw(noise, 20_000 if noise in NARROW else 200_000), wrong) < ALARM


@pytest.mark.parametrize("noise", [*LAWS, *STRIPS], ids=str)
def test_many_draws_and_few_have_one_law(noise):
    """Two-sample chi-square over cells that both fill."""
    many = draw(noise, 100_000)
    few = np.concatenate([draw(noise, 900) for _ in range(10)])
    edges = np.unique(np.quantile(many, np.linspace(0, 1, 40)))[1:-1]
    a = np.bincount(np.searchsorted(edges, many), minlength=len(edges) + 1)
    b = np.bincount(np.searchsorted(edges, few), minlength=len(edges) + 1)
    both = a + b
    expected = both * len(few) / (len(many) + len(few))
    keep = expected > 5
    share = len(many) / len(few)
    statistic = ((b * np.sqrt(share) - a / np.sqrt(share)) ** 2 / np.maximum(both, 1))[keep].sum()
    assert chi2.sf(statistic, keep.sum() - 1) > ALARM


@pytest.mark.parametrize("sigma", [2**20 + 7, 2**28, 2**29 - 1, 2**30])
def test_wide_gaussian_noise_is_gaussian_in_its_high_and_uniform_in_its_low_bits(sigma):
    drawn = draw(Noise("discrete_gaussian", float(sigma), 1.0), 200_000)
    edges = norm.ppf(np.arange(1, 64) / 64) * sigma
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=64)
    assert chi2.sf(((seen - 3125) ** 2 / 3125).sum(), 63) > ALARM
    for bits in (1, 4, 7):
        low = np.bincount(drawn % 2**bits, minlength=2**bits)
        expected = 200_000 / 2**bits
        assert chi2.sf(((low - expected) ** 2 / expected).sum(), 2**bits - 1) > ALARM


@pytest.mark.parametrize("noise", [LAWS[0], NARROW[1], Noise("discrete_gaussian", 2.0**28, 1.0)])
def test_running_out_of_bits_changes_nothing(noise):
    """A sample that is cut short is tried again with the same words, not dropped."""
    words = os_entropy(40_000)
    whole = draw(noise, 1_000, stream(words, 0))
    for portion in (1, 7, 100):
        np.testing.assert_array_equal(draw(noise, 1_000, stream(words, portion)), whole)


def test_running_out_of_bits_changes_no_batch():
    words = os_entropy(20_000)
    whole = draw_poisson(5_000, 0.1, stream(words, 0))
    for portion in (1, 13):
        np.testing.assert_array_equal(draw_poisson(5_000, 0.1, stream(words, portion)), whole)


WIDE = [Noise("discrete_gaussian", 2.0**28 + 5, 1.0), Noise("discrete_laplace", 2.0**40, 1.0)]


@pytest.mark.parametrize("noise", [*LAWS, *WIDE], ids=str)
def test_the_compiled_samplers_are_the_plain_ones_word_by_word(noise):
    """The same words give the same samples in compiled code and in long arithmetic."""
    words = os_entropy(40_000)
    compiled = draw(noise, 1_000, stream(words, 0))
    t, over = (noise.scale / noise.grid).as_integer_ratio()
    plain = Stream(words)
    gaussian = noise.family == "discrete_gaussian"
    shift = over.bit_length() - 1
    expected = [plain.gaussian(t) if gaussian else plain.laplace(t, shift) for _ in range(1_000)]
    assert compiled.tolist() == expected


def test_the_compiled_skips_are_the_plain_ones():
    words = os_entropy(10_000)
    plain, at, expected = Stream(words), -1, []
    while True:
        at += 1 + plain.skip(skip_numerator(0.05))
        if at >= 20_000:
            break
        expected.append(at)
    assert draw_poisson(20_000, 0.05, stream(words, 0)).tolist() == expected


@pytest.mark.parametrize("noise", [LAWS[2]], ids=str)
def test_samples_in_doubt_are_settled_and_not_dropped(noise, monkeypatch):
    """With a margin that leaves a coin in twenty in doubt, nothing changes."""
    words = os_entropy(40_000)
    sure = draw(noise, 500, stream(words, 0))
    settled = []
    original = _noise.settled
    monkeypatch.setattr(_noise, "settled", lambda *a: (settled.append(1), original(*a))[1])
    monkeypatch.setattr(_noise, "bulk", _doubtful())
    np.testing.assert_array_equal(draw(noise, 500, stream(words, 0)), sure)
    assert len(settled) > 20


def _doubtful():
    """The compiled module once more, with a margin of a fortieth."""
    code = Path(bulk.__file__).read_text().replace("_MARGIN = 64.0", "_MARGIN = 2.0**32 / 40")
    module = types.ModuleType("doubtful")
    exec(compile(code, "doubtful", "exec"), module.__dict__)
    return module


@settings(deadline=None, max_examples=200)
@given(
    denominator=st.integers(1, 2**61),
    share=st.fractions(0, 1),
    nudge=st.integers(-1, 1),
    digits=st.integers(1, 4),
)
def test_a_coin_is_compared_digit_by_digit(denominator, share, nudge, digits):
    """Words that follow the digits of exp(-x) for a while and then leave them."""
    numerator = int(share * denominator)
    with mpmath.workdps(120):
        probability = mpmath.exp(-mpmath.mpf(numerator) / denominator)
        prefix = int(mpmath.floor(probability * mpmath.mpf(2) ** (32 * digits))) + nudge
        prefix = min(max(prefix, 0), 2 ** (32 * digits) - 1)
        words = [prefix >> 32 * i & 0xFFFFFFFF for i in reversed(range(digits))]
        tail = [5] * 8
        drawn = mpmath.mpf(prefix) / mpmath.mpf(2) ** (32 * digits)
        expected = drawn < probability if nudge else None
    stream_ = Stream(np.array([*words, *tail], np.uint32))
    got = stream_.coin(numerator, denominator)
    if nudge and 0 < prefix < 2 ** (32 * digits) - 1:
        assert got == bool(expected)


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3, 0.9])
def test_a_poisson_sample_takes_each_unit_with_its_probability(rate):
    n, times = 50, 20_000
    taken = draw_poisson(n * times, rate)  # many small samples: one of as many copies of the units
    assert np.all(np.diff(taken) > 0)
    assert taken.max() < n * times
    seen = np.bincount(taken % n, minlength=n)
    expected, variance = times * rate, times * rate * (1 - rate)
    assert chi2.sf(((seen - expected) ** 2 / variance).sum(), n) > ALARM
    sizes = np.bincount(taken // n, minlength=times)
    counts = np.bincount(sizes, minlength=n + 1)
    probability = binom.pmf(np.arange(n + 1), n, rate) * times
    keep = probability > 10
    assert chi2.sf(((counts - probability) ** 2 / probability)[keep].sum(), keep.sum()) > ALARM


def test_the_sampling_probability_never_exceeds_the_rate():
    for rate in (1e-6, 1e-3, 0.0055, 0.5, 0.999):
        probability = -np.expm1(-skip_numerator(rate) / 2.0**32)
        assert rate * 0.999 < probability <= rate
    np.testing.assert_array_equal(draw_poisson(7, 1.0), np.arange(7))


def test_subsets_are_uniform():
    order, times = np.arange(6), 30_000
    kinds = {subset: i for i, subset in enumerate(combinations(range(6), 2))}
    seen = np.zeros(len(kinds))
    for _ in range(times):
        seen[kinds[tuple(draw_subset(order, 2))]] += 1
    expected = times / len(kinds)
    assert chi2.sf(((seen - expected) ** 2 / expected).sum(), len(kinds) - 1) > ALARM
    np.testing.assert_array_equal(draw_subset(np.arange(5), 5), np.arange(5))


def test_seeded_words_repeat_and_have_the_same_law():
    noise = LAWS[2]
    one, two = (draw(noise, 40_000, seeded_entropy("7")) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert chi_square_p(one, noise) > ALARM
    assert (one != draw(noise, 40_000, seeded_entropy("8"))).mean() > 0.5


def test_laws_beyond_the_compiled_samplers_are_known():
    assert not _noise.fits_bulk(Noise("discrete_gaussian", 1.5, 1.0))
    assert not _noise.fits_bulk(Noise("discrete_gaussian", 2.0**12 - 1, 1.0))
    assert not _noise.fits_bulk(Noise("discrete_gaussian", 2.0**31, 1.0))
    assert not _noise.fits_bulk(Noise("discrete_laplace", 1e-9, 1.0))
    assert _noise.fits_bulk(Noise("discrete_laplace", 2.0**55, 1.0))
    with pytest.raises(ValueError, match="a multiple of the grid"):
        draw(Noise("discrete_gaussian", 1.5, 1.0), 1)  # no release has such a law
    with pytest.raises(ValueError, match="no sampler"):
        draw(Noise("gaussian", 2.0, 1.0), 1)


def test_a_doubtful_skip_is_settled_exactly():
    """Words on the very border of a floor: the compiled code passes, long arithmetic decides."""
    k = skip_numerator(0.01)
    with localcontext(prec=80):
        borders = {j: (Decimal(-j) * k / 2**32).exp() * 2**64 for j in (1, 2, 57, 400)}
    for j, border in borders.items():
        for nudge, expected in ((-1, j), (1, j - 1)):
            w = int(border) + nudge
            words = np.array([w >> 32, w & 0xFFFFFFFF], np.uint32)
            found = bulk.fill_skips(np.zeros(4, np.int64), 0, -1, 10**6, np.uint64(k), words)
            assert found == (0, -1, 0, True)
            assert Stream(words).skip(k) == expected
            more = stream(np.append(words, os_entropy(60_000)), 0)
            assert draw_poisson(10**6, 0.01, more)[0] == expected
    with pytest.raises(OutOfRandomBitsError):
        Stream(np.zeros(2, np.uint32)).skip(k)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 2**64 - 1), st.floats(1e-6, 0.999))
def test_where_the_compiled_skip_decides_it_is_right(w, rate):
    k = skip_numerator(rate)
    words = np.array([w >> 32, w & 0xFFFFFFFF], np.uint32)
    out = np.zeros(4, np.int64)
    _, last, _, doubt = bulk.fill_skips(out, 0, -1, 2**40, np.uint64(k), words)
    if not doubt:
        assert last == Stream(words).skip(k)

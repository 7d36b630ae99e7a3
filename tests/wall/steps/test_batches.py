"""Who takes part: batches of several steps are drawn at once, and each is as if drawn alone.

The laws of single samples are in tests/laws/test_bulk.py. False-alarm rate of each test: 1e-6.
"""

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from tacit.public import seeded_entropy
from tacit.spec.errors import SourceError
from tacit.spec.plan import Everyone, Poisson, WithoutReplacement
from tacit.wall.steps.batches import Batches

ALARM = 1e-6


def code(units):
    return int((2 ** np.asarray(units, np.int64)).sum())


def uniform(codes, kinds):
    """The p-value of a chi-square test that all kinds are as likely."""
    seen = np.bincount(codes, minlength=kinds)
    expected = len(codes) / kinds
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), kinds - 1)


def test_poisson_batches_of_one_draw_are_independent_of_each_other():
    """Two units at rate 1/2: four kinds of batches, sixteen of pairs in a row, all as likely."""
    batches = Batches(seeded_entropy("batches"))
    codes = [code(batches.next(Poisson(0.5), 2)) for _ in range(20_000)]
    assert uniform(codes, 4) > ALARM
    assert uniform([4 * a + b for a, b in pairwise(codes)], 16) > ALARM
    # The test can tell: at another rate they are not.
    other = [code(batches.next(Poisson(0.46), 2)) for _ in range(20_000)]
    assert uniform(other, 4) < ALARM


def test_batches_hold_units_once_in_order_and_none_from_elsewhere():
    batches = Batches(seeded_entropy("order"))
    for n, rate in ((0, 0.5), (1, 1e-6), (7, 1.0), (5000, 0.3), (5000, 0.001)):
        for _ in range(70):  # more than are drawn at once
            some = batches.next(Poisson(rate), n)
            assert np.all(np.diff(some) > 0)
            assert np.all((some >= 0) & (some < n))
            assert rate < 1 or len(some) == n


def test_what_is_left_of_one_kind_is_not_used_for_another():
    """After a change of rate or size the batches are those of the new one."""
    batches = Batches(seeded_entropy("kinds"))
    batches.next(Poisson(0.9), 100)
    assert batches.next(Poisson(0.9), 3).max(initial=0) < 3
    assert len(batches.next(Poisson(1e-6), 100)) == 0
    assert batches.next(Everyone(), 5).tolist() == [0, 1, 2, 3, 4]
    assert len(batches.next(WithoutReplacement(2, 4), 4)) == 2


def test_subsets_stay_uniform_step_after_step():
    """The order that is shuffled is kept from step to step, and must not show."""
    batches = Batches(seeded_entropy("subsets"))
    found = [tuple(batches.next(WithoutReplacement(2, 4), 4)) for _ in range(12_000)]
    kinds = sorted(set(found))
    assert len(kinds) == 6
    codes = [kinds.index(some) for some in found]
    assert uniform(codes, 6) > ALARM
    assert uniform([6 * a + b for a, b in pairwise(codes)], 36) > ALARM


def test_a_plan_for_another_population_is_noticed():
    with pytest.raises(SourceError, match="population of 41 units, and there are 40"):
        Batches(seeded_entropy("x")).next(WithoutReplacement(7, 41), 40)

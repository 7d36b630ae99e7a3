"""The clip against the rule in exact numbers: at, just above and far from the bound."""

import math
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.accounting.calibrate import calibrate_sum, exact_noise, grid_units, multiplied_noise
from tacit.spec.packing import packed_size, upper
from tacit.spec.sums import Bound
from tacit.wall.steps import clip as _clip
from tacit.wall.steps.clip import add_alone, add_rows, add_unit, limits_of

STRANGE = [0.0, -0.0, 5e-324, -1e-310, 1e-160, 1e-30, 1.0, -1.0, 1e8, 1e153, -1e154, 1e308]
NOT_FINITE = [np.nan, np.inf, -np.inf]
GEOMETRIES = ["free", "nonnegative", "box", "simplex"]
KINDS = [(n, g) for n in ("l1", "l2") for g in GEOMETRIES]


def length(steps, by_l1):
    """In Python's integers: magnitudes, or squares."""
    return sum(abs(s) if by_l1 else s * s for s in steps)


def added(values, limits, add=add_unit):
    total = np.zeros(len(values), np.int64)
    add(values, np.zeros(len(values), np.int32), limits, total)
    return [int(s) for s in total]


@st.composite
def contributions(draw):
    """One to three blocks, their limits, and numbers that lie at, near or far from them."""
    bounds, values = [], []
    for _ in range(draw(st.integers(1, 3))):
        norm, geometry = draw(st.sampled_from(KINDS))
        clip = draw(st.sampled_from([1e-9, 0.3, 1.0, 12.5, 1e6]) | st.floats(1e-6, 1e6))
        size = draw(st.integers(1, 40))
        some = draw(st.lists(st.floats(-3, 3), min_size=size, max_size=size))
        at = sum(map(abs, some)) if norm == "l1" else float(np.linalg.norm(some))
        near = draw(st.sampled_from([0.01, 1.0, 1 + 2.0**-52, 1 - 2.0**-53, 1 + 1e-9, 50.0]))
        block = np.array(some) * (clip / at * near if at > 1e-100 else 1.0)
        if draw(st.booleans()):
            block[draw(st.integers(0, size - 1))] = draw(st.sampled_from(STRANGE))
        if draw(st.integers(0, 9)) == 0:
            block[draw(st.integers(0, size - 1))] = draw(st.sampled_from(NOT_FINITE))
        bounds.append(Bound(size, clip, norm, geometry))
        values.append(block)
    multiplier = draw(st.none() | st.floats(1e-2, 1e3))
    every = tuple(bounds)
    noise = exact_noise(every) if multiplier is None else multiplied_noise(multiplier, every)
    return np.concatenate(values), limits_of(every, noise)


@settings(deadline=None, max_examples=600)
@given(contributions())
def test_the_clip_obeys_the_rule_in_exact_numbers(case):
    values, limits = case
    steps = added(values, limits, add_alone)
    if not np.all(np.isfinite(values)):
        assert not any(steps)
        return
    assert steps == added(values, limits)
    for limit in limits:
        here = slice(int(limit["start"]), int(limit["stop"]))
        mine, most, by_l1 = steps[here], int(limit["most"]), bool(limit["by_l1"])
        exact = [Fraction(float(v)) * Fraction(float(limit["per_grid"])) for v in values[here]]
        if not limit["signed"]:
            exact = [max(v, Fraction(0)) for v in exact]
        if limit["box"]:
            assert mine == [min(int(v), most) for v in exact]
            continue
        room = most if by_l1 else most**2
        assert length(mine, by_l1) <= room
        if np.abs(values[here]).max() > 1e150:
            continue  # the squares are not finite, and nothing may be added
        whole = length(exact, by_l1)
        if whole <= room * (1 - Fraction(1, 10**12)):
            assert mine == [int(v) for v in exact]  # not clipped: rounded towards zero
        else:
            shrink = (
                float(Fraction(room) / whole) if by_l1 else float(Fraction(room) / whole) ** 0.5
            )
            for step, v in zip(mine, exact):
                scaled = float(v) * min(shrink, 1.0)
                assert abs(step) <= abs(scaled) * (1 + 1e-12) + 1e-12
                assert abs(step - scaled) <= 1 + 1e-9 * abs(scaled)


@settings(deadline=None, max_examples=600)
@given(
    st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=30),
    st.sampled_from([0.0, 0.999, -0.5]),
    st.floats(-1e-14, 1e-14),
    st.integers(-1, 1),
    st.booleans(),
)
def test_what_surely_fits_fits(whole, part, change, nudge, by_l1):
    """The comparison of floats never says yes where integers say no."""
    values, factor = np.array(whole) + part, 1 + change
    rounded = [int(v * factor) for v in values]
    size = length(rounded, by_l1)
    most = max((size if by_l1 else isqrt(size)) + nudge, 0)
    about = _clip._length(values, True, by_l1)
    if _clip._surely_fits(about, factor, values.size, float(most), by_l1):
        assert size <= (most if by_l1 else most**2)


@pytest.mark.parametrize("most", [5 * 2**27, 2**30])
def test_on_the_boundary_integers_decide(most):
    """M^2 and M^2 + 1 are the same double: floats cannot tell what is still allowed."""
    bound = Bound(2, float(most))
    limits = limits_of((bound,), exact_noise((bound,))).copy()
    limits["most"], limits["clip"], limits["per_grid"] = most, most, 1.0
    assert float(most) ** 2 == float(most**2 + 1)
    exactly, over = np.array([float(most), 0.0]), np.array([float(most), 1.0])
    for values in (exactly, over):
        about = _clip._length(values, True, False)
        assert about == float(most) ** 2
        assert not _clip._surely_fits(about, 1.0, 2, float(most), False)
    assert added(exactly, limits) == [most, 0]
    less = added(over, limits)
    assert length(less, False) <= most**2
    assert less[0] >= most - 1
    if most % 5 == 0:
        three, four = 3.0 * (most // 5), 4.0 * (most // 5)
        assert added(np.array([three, -four]), limits) == [int(three), -int(four)]
        assert length(added(np.array([three, four + 1]), limits), False) <= most**2


@pytest.mark.parametrize("form", [np.float32, np.float64])
@pytest.mark.parametrize(
    "blocks",
    [
        (Bound(7, 1.0),),
        (Bound(7, 1.0, geometry="nonnegative"),),
        (Bound(3, 1.0), Bound(4, 2.0, "l1")),
    ],
)
def test_rows_of_units_add_up_across_chunks(form, blocks):
    """A unit's finite, usable rows are summed before the clip, wherever its rows are cut apart."""
    rng = np.random.default_rng(3)
    rows = (rng.normal(size=(60, 7)) * rng.choice([0.01, 1, 30], size=(60, 1))).astype(form)
    rows[rng.integers(0, 60, 6), rng.integers(0, 7, 6)] = [np.nan, np.inf, -np.inf] * 2
    rows.setflags(write=False)
    usable, last = rng.random(60) < 0.9, np.append(True, rng.random(60) < 0.6)
    last[-1] = True
    limits = limits_of(blocks, exact_noise(blocks))
    expected, unit = np.zeros(7, np.int64), np.zeros(7)
    for i in range(60):
        if usable[i] and np.all(np.isfinite(rows[i])):
            unit += rows[i]
        if last[i + 1]:
            expected += added(unit, limits)
            unit = np.zeros(7)
    for cut in (60, 1, 7, 16):
        total, steps, sums = np.zeros(7, np.int64), np.zeros(7, np.int32), np.zeros(7)
        for i in range(0, 60, cut):
            here = slice(i, i + cut)
            ends = last[i : i + cut + 1]
            add_rows(rows[here], usable[here], ends, sums, steps, limits, total)
        np.testing.assert_array_equal(total, expected)


# The bound of one unit, in integers

LARGE = [0.0, -0.0, 5e-324, 1e-300, 1.0, -1.0, 3.0, 1e8, 1e154, 1e200, 1e308, -1e308]


@settings(deadline=None, max_examples=400)
@given(
    values=st.lists(st.sampled_from(LARGE) | st.floats(-1e6, 1e6), min_size=1, max_size=9),
    clip=st.floats(1e-6, 1e6),
    geometry=st.sampled_from(GEOMETRIES),
    norm=st.sampled_from(["l1", "l2"]),
    multiplier=st.one_of(st.none(), st.floats(1e-3, 1e4)),
)  # fmt: skip
def test_no_contribution_exceeds_its_bound(values, clip, geometry, norm, multiplier):
    bound = Bound(len(values), clip, norm, geometry)
    noise = exact_noise((bound,)) if multiplier is None else multiplied_noise(multiplier, (bound,))
    total = np.zeros(len(values), np.int64)
    add_unit(np.array(values), np.zeros(len(values), np.int32), limits_of((bound,), noise), total)
    steps, most = [int(s) for s in total], grid_units(clip, noise[0].grid)
    assert most <= 2**30
    if geometry != "free":
        assert min(steps) >= 0
    if geometry == "box":
        assert max(steps) <= most
    elif norm == "l1" or geometry == "simplex":
        assert sum(map(abs, steps)) <= most
    else:
        assert sum(s * s for s in steps) <= most**2
    exact = np.clip(values, -1e150, 1e150)
    if geometry != "free":
        exact = np.maximum(exact, 0)
    if geometry == "box":
        exact = np.minimum(exact, clip)
    else:
        size = np.abs(exact).sum() if bound.norm == "l1" else np.linalg.norm(exact)
        exact = exact * min(1.0, clip / max(size, 1e-300))
    if np.abs(values).max() < 1e150:  # the bound is used up, not just kept
        assert np.all(np.abs(total * noise[0].grid - exact) <= 2.01 * noise[0].grid + 1e-9 * clip)
        assert np.all(np.abs(total * noise[0].grid) <= np.abs(exact) * (1 + 1e-9))  # towards zero


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_sensitivity_is_that_of_the_worst_units(geometry, neighbours, norm):
    """A search over extreme units never moves the sum further than the noise is for."""
    bound = Bound(4, 1.0, norm, geometry)
    corners = [np.zeros(4)] + [s * np.eye(4)[i] * 10 for i in range(4) for s in (1, -1)]
    rng = np.random.default_rng(0)
    corners += [*rng.normal(size=(60, 4)) * 3, np.full(4, 9.0), np.full(4, -9.0)]
    laplace = calibrate_sum(tacit.Laplace(1), (bound,), neighbours)
    gaussian = calibrate_sum(tacit.Gaussian(1, 1e-6), (bound,), neighbours)
    for calibration, order in ((laplace, 1), (gaussian, 2)):
        limits = limits_of((bound,), calibration.noise)
        found = []
        for corner in corners:
            total = np.zeros(4, np.int64)
            add_unit(corner.copy(), np.zeros(4, np.int32), limits, total)
            found.append(total.astype(float))
        pairs = found if neighbours == "add_remove" else [a - b for a in found for b in found]
        worst = max(np.linalg.norm(d, order) for d in pairs)
        law = calibration.noise[0]
        sensitivity = (
            law.scale / law.grid  # b = sensitivity at epsilon 1
            if order == 1
            else law.scale / law.grid * tacit.accounting.gaussian_mu(1, 1e-6)
        )
        assert worst <= sensitivity * (1 + 1e-9)
        tight = order == 2 or norm == "l1" or geometry in ("box", "simplex")
        if tight and not (norm == "l1" and order == 2 and geometry == "free"):
            assert worst >= sensitivity * 0.999  # and the search comes up to it


def test_blocks_of_different_sensitivity_share_one_cost():
    """k blocks, each scaled by its bound, form a vector whose norm is sqrt(k) of one."""
    small, large = Bound(3, 1.0), Bound((2, 2), 100.0)
    one = calibrate_sum(tacit.Gaussian(1, 1e-6), (small,), "replace_one")
    both = calibrate_sum(tacit.Gaussian(1, 1e-6), (small, large), "replace_one")
    assert both.noise[0].scale == pytest.approx(one.noise[0].scale * math.sqrt(2), rel=1e-6)
    assert both.noise[1].scale == pytest.approx(both.noise[0].scale * 100, rel=1e-6)
    mixed = calibrate_sum(
        tacit.Gaussian(1, 1e-6), (small, Bound(3, 1.0, geometry="box")), "replace_one"
    )
    # free moves by 2, a box by sqrt(3) of side 1: squares over squares of the noise add up to mu^2
    mu = tacit.accounting.gaussian_mu(1, 1e-6)
    spent = (2 / mixed.noise[0].scale) ** 2 + (math.sqrt(3) / mixed.noise[1].scale) ** 2
    assert math.sqrt(spent) == pytest.approx(mu, rel=1e-6)
    laplace = calibrate_sum(tacit.Laplace(1), (small, large), "add_remove")
    assert laplace.noise[1].scale == pytest.approx(100 * laplace.noise[0].scale * 2 / 2, rel=0.5)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20),
    st.integers(-2, 2),
    st.booleans(),
)
def test_norms_are_compared_exactly_in_integers(steps, nudge, by_l1):
    """The check that rounding never has to fail: right at, above and below the very bound."""
    size = sum(map(abs, steps)) if by_l1 else math.isqrt(sum(s * s for s in steps))
    most = min(max(size + nudge, 0), 2**30)
    expected = size <= most if by_l1 else sum(s * s for s in steps) <= most**2
    assert _clip._fits(np.array(steps, np.int32), most, by_l1) == expected


# Outer products: no two units have a negative inner product, whatever the kernel gives


def of_unit(rows, limits, form=np.float64):
    """What the wall adds for a unit with these rows, by both loops over rows."""
    rows = np.atleast_2d(rows).astype(form)
    size, count = rows.shape[1], len(rows)
    total, scratch, sums = np.zeros(size, np.int64), np.zeros(size, np.int32), np.zeros(size)
    last = np.zeros(count + 1, np.bool_)
    last[0] = last[-1] = True
    add_rows(rows, np.ones(count, np.bool_), last, sums, scratch, limits, total)
    if form is np.float64:
        again, sums = np.zeros(size, np.int64), np.zeros(size)
        for row in rows:
            if np.all(np.isfinite(row)):
                _clip.add_row(row, limits, sums)
        add_unit(sums, scratch, limits, again)
        np.testing.assert_array_equal(again, total)
    return [int(s) for s in total]


def outer_limits(side, clip, multiplier):
    bound = Bound(packed_size(side), clip, geometry="outer")
    noise = exact_noise((bound,)) if multiplier is None else multiplied_noise(multiplier, (bound,))
    return limits_of((bound,), noise), grid_units(clip, noise[0].grid), noise[0].grid


@st.composite
def outer_units(draw):
    """Two units of a few rows each, which need not be outer products at all."""
    side = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    numbers = packed_size(side)

    def row():
        match draw(st.integers(0, 3)):
            case 0:
                return rng.normal(size=numbers) * 10.0 ** draw(st.integers(-4, 4))
            case 1:
                return draw(st.sampled_from(STRANGE)) * rng.uniform(-1, 1, size=numbers)
            case 2:  # nearly orthogonal to others of its kind: rounding decides the sign
                g = rng.permutation(np.eye(side)[0]) + rng.normal(size=side) * 1e-5
                return upper(np.outer(g, g))
            case _:
                g = rng.normal(size=side)
                return upper(np.outer(g, g)) * draw(st.sampled_from([-1.0, 1.0, 50.0]))

    units = [np.array([row() for _ in range(draw(st.integers(1, 3)))]) for _ in range(2)]
    multiplier = draw(st.none() | st.floats(1e-2, 1e3) | st.floats(1e5, 5e6))
    form = draw(st.sampled_from([np.float32, np.float64]))
    return side, units, draw(st.sampled_from([1e-6, 1.0, 300.0])), multiplier, form


@settings(deadline=None, max_examples=600)
@given(outer_units())
def test_outer_products_of_two_units_are_within_what_is_accounted_for(case):
    """As the proof has it, in exact integers: room in the norm for a negative inner product."""
    side, units, clip, multiplier, form = case
    limits, most, _ = outer_limits(side, clip, multiplier)
    with np.errstate(over="ignore"):
        one, other = (of_unit(unit, limits, form) for unit in units)
    across = sum(a * b for a, b in zip(one, other, strict=True))
    for each in (one, other):
        assert length(each, False) + max(0, -across) <= most**2
    assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) <= 2 * most**2


def test_without_room_for_rounding_the_bound_breaks(monkeypatch):
    """The twin of the room: clipped to the whole bound, rounded units are further apart."""
    rng = np.random.default_rng(1)

    def worst(side=3):
        limits_of.cache_clear()
        limits, most, _ = outer_limits(side, 1.0, 1.2e7)
        found = 0.0
        for _ in range(3000):
            axes = np.linalg.qr(rng.normal(size=(side, side)))[0][:2] * rng.uniform(1, 2, (2, 1))
            one, other = (of_unit(upper(np.outer(g, g)), limits) for g in axes)
            across = sum(a * b for a, b in zip(one, other, strict=True))
            found = max(found, (length(one, False) - across) / most**2)
        return found

    assert worst() <= 1
    monkeypatch.setattr(_clip, "bound_units", lambda bound, grid: grid_units(bound.clip, grid))
    assert worst() > 1
    limits_of.cache_clear()


@pytest.mark.parametrize("count", [1, 4])
def test_outer_products_are_added_as_they_are(count):
    """Sums of true outer products come out unchanged, but for rounding towards zero."""
    rng = np.random.default_rng(2)
    limits, _, grid = outer_limits(5, 100.0, 1.0)
    vectors = rng.normal(size=(count, 5))
    vectors[0, 2] = 0.0
    rows = np.array([upper(np.outer(g, g)) for g in vectors])
    found = np.array(of_unit(rows, limits)) * grid
    np.testing.assert_allclose(found, rows.sum(axis=0), atol=2 * grid)


def test_what_is_no_outer_product_becomes_one():
    limits, _, grid = outer_limits(2, 1.0, 1.0)
    turned = np.array([0.0, 0.7, 0.0])  # no diagonal: eigenvalues of both signs
    negative = -upper(np.outer([0.6, 0.3], [0.6, 0.3]))
    assert of_unit(turned, limits) == of_unit(negative, limits) == [0, 0, 0]
    mixed = np.array([0.5, 0.2, 0.1])  # its first row decides
    second = 0.2 / np.sqrt(2)
    want = upper(np.outer([0.5, second], [0.5, second]) / 0.5)
    np.testing.assert_allclose(np.array(of_unit(mixed, limits)) * grid, want, atol=2 * grid)


def test_two_outer_products_are_as_far_apart_as_is_paid_for():
    """Orthogonal vectors: the root of 2, not 2 as for numbers of any sign."""
    bound = Bound(6, 1.0, geometry="outer")
    calibration = calibrate_sum(tacit.Gaussian(1, 1e-6), (bound,), "replace_one")
    limits, law = limits_of((bound,), calibration.noise), calibration.noise[0]
    one, other = (np.array(of_unit(upper(np.outer(g, g)), limits)) for g in np.eye(3)[:2] * 3)
    sensitivity = law.scale / law.grid * tacit.accounting.gaussian_mu(1, 1e-6)
    assert 0.999 * sensitivity <= np.linalg.norm(one - other) <= sensitivity
    free = calibrate_sum(tacit.Gaussian(1, 1e-6), (Bound(6, 1.0),), "replace_one")
    assert free.noise[0].scale == pytest.approx(law.scale * math.sqrt(2), rel=1e-6)


def test_outer_products_have_a_triangle_of_numbers():
    for size in (2, 4, 5, (2, 3)):
        with pytest.raises(tacit.errors.QueryError, match=r"p \(p \+ 1\) / 2"):
            Bound(size, 1.0, geometry="outer")
    with pytest.raises(tacit.errors.BudgetError, match="vanish in the grid"):
        multiplied_noise(1e8, (Bound(3, 1.0, geometry="outer"),))

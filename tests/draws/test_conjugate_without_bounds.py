"""Draws of a mean that nothing cuts off. False-alarm rate of each statistical test: 1e-6."""

import json
import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

import tacit
from tacit.accounting.gaussian import gaussian_mu
from tacit.spec.draws import GRID, BoundedNormal, ConjugateDraw
from tests.conftest import without_note

EVERYWHERE = (-math.inf, math.inf)
FREE = BoundedNormal("x", 2.0, (5.0, 3.0), *EVERYWHERE)
DELTA = tacit.queries.Exponential(1, 1e-6)
X = np.array([1.0, 2.5, 9.0, 7.25, 0.0, 10.0, 4.0])


def schema(neighbours="replace_one", default=5.0, **options):
    return tacit.Schema(tacit.Real("x", 0, 10, default=default), neighbours=neighbours, **options)


def wall(data=X, budget=2000, **options):
    table = {"x": data, "who": np.arange(len(data))}
    return tacit.Wall(table, schema(**options), budget=tacit.Budget(budget, 0.1), ledger=":memory:")


def means(release):
    law, kept = release.query.law, release.noise[0].scale if release.query.temper_prior else 1.0
    return law.prior[0] + law.prior[1] * math.sqrt(kept) * release.table("mean").value


def fits(release, rows, twin=1.0):
    """Whether draws have the law of these rows, written out; its width times `twin`."""
    law, temperature = release.query.law, release.noise[0].scale
    mean, sd = law.prior
    prior = 1 / (sd**2 * (temperature if release.query.temper_prior else 1.0))
    each = 1 / (temperature * law.sd**2)
    precision = prior + len(rows) * each
    exact = norm((prior * mean + each * np.sum(rows)) / precision, twin * precision**-0.5)
    return kstest(means(release), exact.cdf).pvalue > 1e-6


@pytest.mark.parametrize("temper", [False, True])
@pytest.mark.parametrize(
    "law",
    [
        FREE,
        BoundedNormal("x", 0.5, (40_000.0, 40_000.0), *EVERYWHERE),
        BoundedNormal("x", 300.0, (-4.0, 0.01), *EVERYWHERE),
    ],
    ids=str,
)
@pytest.mark.parametrize("mechanism", [DELTA, tacit.queries.Exponential(1000, 1e-6)], ids=str)
def test_the_law_is_that_of_the_rows(law, temper, mechanism):
    """The prior's pull, the data's and the temperature; twice the width would be seen."""
    rows = np.resize(X, 1000)
    query = ConjugateDraw(law, 1000, temper)
    home = wall(rows)
    draws = [home.release(query, mechanism) for _ in range(2)]
    release = draws[0]
    assert all(fits(each, rows) for each in draws)
    assert not fits(release, rows, twin=2)
    assert (release.n, release.blocks[0].shape) == (1000, (1000,))
    assert release.integers.dtype == np.int64
    assert len(np.unique(release.integers)) > 990  # two in a million steps may meet
    assert release.noise[0].grid == GRID


def test_missing_values_count_as_the_default():
    dirty = np.array([1.0, np.nan, np.inf, 11.0])
    release = tacit.Public({"x": dirty}, schema(), seed=2).release(
        ConjugateDraw(FREE, 1000), tacit.Exact()
    )
    assert fits(release, [1.0, 5.0, 5.0, 5.0])


def test_draws_leave_the_bounds_of_the_column():
    release = wall(np.full(3, 10.0)).release(ConjugateDraw(FREE, 1000), DELTA)
    assert np.any(means(release) > 10)
    assert np.any(means(release) < 0)


@pytest.mark.parametrize("temper", [False, True])
def test_the_charge_and_the_temperature(temper):
    home = wall()
    release = home.release(ConjugateDraw(FREE, 4, temper), DELTA)
    mu = 2 * 10 / 4 * 3  # of four draws at temperature 1: gradient times the prior's sd
    scale = (mu / gaussian_mu(1.0, 1e-6)) ** (2 if temper else 1)
    assert release.noise[0].scale == pytest.approx(scale, rel=1e-6)
    assert release.noise[0].scale >= scale
    certificate = release.certificate
    assert (certificate.epsilon, float(certificate.delta)) == (1, 1e-6)
    assert home.remaining.epsilon == 1999
    assert "Gaussian" in certificate.accountant
    assert "float draw" in " ".join(certificate.assumptions)
    (event,) = certificate.events
    assert event["range"] is None
    assert event["query"]["law"]["low"] is None
    assert json.loads(json.dumps(event, allow_nan=False)) == event


@pytest.mark.parametrize(
    ("options", "mechanism", "says"),
    [
        ({}, tacit.queries.Exponential(1), "delta=1e-6"),
        ({"default": None}, DELTA, r"truncation=\(0, 10\).*default="),
        ({"neighbours": "add_remove"}, DELTA, 'neighbours="replace_one"'),
        ({"unit": "who", "max_rows_per_unit": 2}, DELTA, "max_rows_per_unit=1"),
    ],
)
def test_what_is_missing_is_said_before_any_charge(options, mechanism, says):
    home = wall(**options)
    with pytest.raises(tacit.errors.BudgetError, match=says):
        home.release(ConjugateDraw(FREE), mechanism)
    assert home.remaining.epsilon == 2000


def test_a_unit_of_one_row_is_public():
    home = wall(unit="who", max_rows_per_unit=1)
    assert fits(home.release(ConjugateDraw(FREE, 1000), DELTA), X)


@pytest.mark.parametrize(
    "law",
    [
        BoundedNormal("x", 1e-4, (5.0, 1.0), *EVERYWHERE),
        BoundedNormal("x", 1e6, (5.0, 1.0), *EVERYWHERE),
        BoundedNormal("x", 1.0, (5.0, 1e-4), *EVERYWHERE),
        BoundedNormal("x", 1.0, (5.0, 1e6), *EVERYWHERE),
        BoundedNormal("x", 1.0, (1e5, 1e4), *EVERYWHERE),
        BoundedNormal("x", 1.0, (50.0, 1e-3), *EVERYWHERE),
    ],
    ids=str,
)
def test_scales_far_from_the_columns_are_refused_before_any_charge(law):
    home = wall()
    with pytest.raises(tacit.errors.QueryError, match="10,000"):
        home.release(ConjugateDraw(law), DELTA)
    assert home.remaining.epsilon == 2000


@pytest.mark.parametrize(
    "ends",
    [
        (0.0, math.inf), (-math.inf, 0.0), (math.inf, -math.inf), (math.inf, math.inf),
        (-math.inf, math.nan), (-math.inf, None), (None, None),
    ],
)  # fmt: skip
def test_one_end_alone_is_refused(ends):
    with pytest.raises(tacit.errors.QueryError, match="low"):
        BoundedNormal("x", 1.0, (0.0, 1.0), *ends)


def test_it_comes_back_from_strict_json(tmp_path):
    query = ConjugateDraw(FREE, 3, temper_prior=True)
    text = json.dumps(query.to_dict(), allow_nan=False)
    assert ConjugateDraw.from_dict(json.loads(text)) == query
    home = wall()
    first = home.release(query, DELTA, name="draw")
    assert without_note(home.release(query, DELTA, name="draw")) == first
    assert home.remaining.epsilon == 1999
    for file in ("r.json", "r.npz"):
        first.save(tmp_path / file)
        loaded = tacit.Release.load(tmp_path / file)
        assert loaded == first
        assert loaded.query.law.high == math.inf
    assert "Infinity" not in (tmp_path / "r.json").read_text()

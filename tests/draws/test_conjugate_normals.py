"""Draws of means and coefficients through the wall. False-alarm rate of each test: 1e-6."""

import json
import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

import tacit
from tacit.accounting.draws import draw_gradient, draw_range
from tacit.accounting.gaussian import gaussian_mu
from tacit.draws.conjugate import ConjugateAnswer
from tacit.spec.draws import GRID, BallRegression, BoundedNormal
from tests.conftest import without_note

MEAN = BoundedNormal("x", 2.0, (5.0, 3.0), 2.0, 9.0)
LINE = BallRegression("y", ("x",), 0.3, 1.0, 2.0)
LAWS = [MEAN, LINE]
DELTA = tacit.queries.Exponential(1, 1e-6)
DATA = {
    "x": [1.0, 2.5, 9.0, 7.25, 0.0, 10.0, 4.0],
    "y": [-1.0, 0.5, 3.0, 2.0, -2.0, 4.0, 0.0],
}
# Rows with a missing value in every column in use, in all the ways that they come.
MISSING = [np.nan, np.inf, -np.inf, 10.0000001, -1e308, 1e308, -0.0000001]


def schema(neighbours="replace_one", default=None, **options):
    middle = (None, None) if default is None else (5.0, 1.0)
    columns = tacit.Real("x", 0, 10, default=middle[0]), tacit.Real("y", -2, 4, default=middle[1])
    return tacit.Schema(*columns, neighbours=neighbours, **options)


def wall(data=DATA, budget=10, **options):
    return tacit.Wall(data, schema(**options), budget=tacit.Budget(budget, 0.1), ledger=":memory:")


def with_garbage(data):
    """The same complete rows, and others that miss one value or both."""
    x, y = list(data["x"]), list(data["y"])
    for bad in MISSING:
        x += [bad, bad]
        y += [1.0, 1e300]
    return {"x": x, "y": y}


def draws_of(release):
    """In the law's own units."""
    law = release.query.law
    if isinstance(law, BoundedNormal):
        return law.low + (law.high - law.low) * release.table("mean").value
    return law.radius * release.table("coef").value


def fits(drawn, mean, sd):
    """Whether draws between the bounds of MEAN have this law."""
    law = norm(mean, sd)
    low, high = law.cdf([MEAN.low, MEAN.high])
    return kstest(drawn, lambda v: (law.cdf(v) - low) / (high - low)).pvalue > 1e-6


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("temper", [False, True])
def test_a_draw_is_on_the_grid_inside_its_bounds(law, neighbours, temper):
    query = tacit.queries.ConjugateDraw(law, 300, temper_prior=temper)
    release = wall(neighbours=neighbours).release(query, DELTA)
    (block,), (noise,) = release.blocks, release.noise
    assert noise.family == "draw"
    assert noise.grid == GRID
    assert noise.scale > 1
    assert release.integers.dtype == np.int64
    assert release.n == (7 if neighbours == "replace_one" else None)
    if law is MEAN:
        assert block.shape == (300,)
        assert np.all((release.integers >= 0) & (release.integers <= 2**40))
        assert np.all((draws_of(release) >= law.low) & (draws_of(release) <= law.high))
    else:
        assert block.shape == (300, 2)
        assert block.axes[1].labels == ("(constant)", "x")
        squares = (release.integers.reshape(300, 2).astype(object) ** 2).sum(axis=1)
        assert max(squares) <= 2**80


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_charge_and_what_the_ledger_says(law):
    home = wall()
    release = home.release(tacit.queries.ConjugateDraw(law, 3), DELTA)
    certificate = release.certificate
    assert (certificate.epsilon, float(certificate.delta)) == (1, 1e-6)
    assert home.remaining.epsilon == 9
    assert "float draw" in " ".join(certificate.assumptions)
    (event,) = certificate.events
    assert json.loads(json.dumps(event, allow_nan=False)) == event
    assert event["noise"] == "draw"
    assert event["draws"] == 3
    assert event["query"]["law"] == law.to_dict()
    span = draw_range(law, schema())
    assert event["range"] == (None if math.isinf(span) else pytest.approx(span))
    gradient, curve = draw_gradient(law, schema())
    if law is LINE:
        assert "Gaussian" in certificate.accountant
        mu = gaussian_mu(1.0, 1e-6)
        scale = math.sqrt(3) * gradient / math.sqrt(curve) / mu
        assert release.noise[0].scale == pytest.approx(scale, rel=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_charge_is_written_before_the_data_are_read(law, monkeypatch):
    home, seen = wall(), []

    def evaluate(self, source, noise):
        seen.append(home.remaining.epsilon)
        raise RuntimeError("the engine died")

    monkeypatch.setattr(ConjugateAnswer, "evaluate", evaluate)
    with pytest.raises(Exception, match=r"\w"):
        home.release(tacit.queries.ConjugateDraw(law), DELTA)
    assert seen == [9]
    assert home.remaining.epsilon == 9


def test_a_mean_needs_no_delta_and_a_regression_does():
    home = wall()
    release = home.release(tacit.queries.ConjugateDraw(MEAN), tacit.queries.Exponential(1))
    span = 7 * 10 / 4
    assert release.noise[0].scale == pytest.approx(span, rel=1e-9)
    assert release.certificate.accountant == "bounded range, pure epsilon"
    with pytest.raises(tacit.errors.BudgetError, match="delta=1e-6"):
        home.release(tacit.queries.ConjugateDraw(LINE), tacit.queries.Exponential(1))
    for mechanism in (tacit.Laplace(1), tacit.Gaussian(1, 1e-6), tacit.Exact()):
        for law in LAWS:
            with pytest.raises(tacit.errors.BudgetError):
                home.release(tacit.queries.ConjugateDraw(law), mechanism)
    assert home.remaining.epsilon == 9


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cells_that_are_no_values_add_nothing(law):
    """The seeded draws at temperature 1 are the very same."""
    query = tacit.queries.ConjugateDraw(law, 20)
    plain, garbage = (
        tacit.Public(data, schema(), seed=3).release(query, tacit.Exact())
        for data in (DATA, with_garbage(DATA))
    )
    np.testing.assert_array_equal(plain.integers, garbage.integers)
    assert garbage.n == 21
    empty = {"x": [np.nan] * 3, "y": [0.0] * 3}
    nothing, none = (
        tacit.Public(data, schema("add_remove"), seed=3).release(query, tacit.Exact())
        for data in (empty, {"x": np.zeros(0), "y": np.zeros(0)})
    )
    np.testing.assert_array_equal(nothing.integers, none.integers)


def test_the_law_is_that_of_the_rows():
    """Against the rows themselves: a truncated normal mean, and coefficients by least squares."""
    x, y = np.array(DATA["x"]), np.array(DATA["y"])
    for default in (None, 1):  # the number of rows counted, or public
        release = tacit.Public(DATA, schema(default=default), seed=5).release(
            tacit.queries.ConjugateDraw(MEAN, 1000), tacit.Exact()
        )
        precision = 1 / 9 + 7 / 4
        assert fits(draws_of(release), (5 / 9 + x.sum() / 4) / precision, precision**-0.5)
        wide = BallRegression("y", ("x",), 0.3, 1.0, 50.0)  # the ball is not felt
        release = tacit.Public(DATA, schema(default=default), seed=6).release(
            tacit.queries.ConjugateDraw(wide, 1000), tacit.Exact()
        )
        z = np.column_stack([np.ones(7), (x - 5) / 5])
        matrix = z.T @ z / 0.09 + np.eye(2)
        centre = np.linalg.solve(matrix, z.T @ ((y - 1) / 3) / 0.09)
        for j, side in enumerate(np.sqrt(np.diag(np.linalg.inv(matrix)))):
            found = draws_of(release)[:, j]
            assert kstest(found, norm(centre[j], side).cdf).pvalue > 1e-6


def test_rows_beyond_the_bound_of_a_unit_add_nothing():
    many = {"x": [0.0] * 200, "y": [0.0] * 200, "who": [1] * 200}
    bounded = schema(unit="who", max_rows_per_unit=2)
    query = tacit.queries.ConjugateDraw(MEAN, 1000)
    release = tacit.Public(many, bounded, seed=7).release(query, tacit.Exact())
    precision = 1 / 9 + 2 / 4
    assert fits(draws_of(release), 5 / 9 / precision, precision**-0.5)
    for law in LAWS:
        one = tacit.Public(many, schema(), seed=1).quote(tacit.queries.ConjugateDraw(law), DELTA)
        two = tacit.Public(many, bounded, seed=1).quote(tacit.queries.ConjugateDraw(law), DELTA)
        assert two.noise[0].scale == pytest.approx(2 * one.noise[0].scale)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_seeds_names_and_files(law, tmp_path):
    query = tacit.queries.ConjugateDraw(law, 4, temper_prior=True)
    one, again, other = (
        tacit.Public(DATA, schema(), seed=s).release(query, DELTA) for s in (1, 1, 2)
    )
    assert one == again
    assert one != other
    home = wall()
    first = home.release(query, DELTA, name="draw")
    assert without_note(home.release(query, DELTA, name="draw")) == first
    assert home.remaining.epsilon == 9
    assert not np.array_equal(home.release(query, DELTA).integers, first.integers)
    for file in ("r.json", "r.npz"):
        first.save(tmp_path / file)
        loaded = tacit.Release.load(tmp_path / file)
        assert loaded == first
        assert loaded.query == query


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("sd", [1e-6, 1.0, 1e6])
def test_no_data_make_a_regression_fail(scale, sd):
    """Columns that depend on each other, none at all, and laws far outside the ball."""
    if scale > 1e4 * sd:
        with pytest.raises(tacit.errors.QueryError):
            BallRegression("y", ("a",), sd, scale, 0.5)
        return
    names = ("a", "b", "c")
    described = tacit.Schema(
        *(tacit.Real(name, -1, 1) for name in (*names, "y")), neighbours="replace_one"
    )
    law = BallRegression("y", names, sd, scale, 0.5)
    tables = [
        {name: np.ones(40) for name in (*names, "y")},
        {name: np.zeros(40) for name in (*names, "y")},
        {**dict.fromkeys(names, np.linspace(-1, 1, 40)), "y": -np.ones(40)},
        {name: np.full(3, np.nan) for name in (*names, "y")},
    ]
    for table in tables:
        release = tacit.Public(table, described, seed=1).release(
            tacit.queries.ConjugateDraw(law, 3), tacit.queries.Exponential(1, 1e-6)
        )
        assert np.all(np.linalg.norm(draws_of(release), axis=1) <= 0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BoundedNormal("x", 0, (0, 1), 0, 1),
        lambda: BoundedNormal("x", 1e-200, (0, 1), 0, 1),
        lambda: BoundedNormal("x", 1, (0, 0), 0, 1),
        lambda: BoundedNormal("x", 1, (0, 1), 1, 1),
        lambda: BoundedNormal("x", 1, (0, 1), 0, math.inf),
        lambda: BoundedNormal("x", math.nan, (0, 1), 0, 1),
        lambda: BallRegression("y", ("x",), 0, 1, 1),
        lambda: BallRegression("y", ("x",), 1, math.inf, 1),
        lambda: BallRegression("y", ("x",), 1, 1, -1),
        lambda: BallRegression("y", ("x",), 1, 1, True),
    ],
)
def test_senseless_laws_are_refused(make):
    with pytest.raises(tacit.errors.QueryError):
        make()


def test_a_column_must_have_bounds():
    described = tacit.Schema(tacit.Categorical("x", ["a", "b", "c"]), neighbours="replace_one")
    home = tacit.Wall({"x": ["a"]}, described, budget=tacit.Budget(1, 0.1), ledger=":memory:")
    with pytest.raises(tacit.errors.QueryError, match="Real or Integer"):
        home.release(tacit.queries.ConjugateDraw(MEAN), DELTA)
    assert home.remaining.epsilon == 1

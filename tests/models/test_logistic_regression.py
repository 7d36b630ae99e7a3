"""Logistic regression: what a row may contribute, the posterior, and what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tacit
from tacit.kernels import KERNELS
from tacit.methods.ridge_newton import unpacked
from tacit.spec.design import Design

LEVELS = ["red", "green", "blue"]
FEATURES = ["x", "k", "colour", "sex"]
COLUMNS = (
    tacit.Real("x", -3, 5),
    tacit.Integer("k", 0, 10),
    tacit.Categorical("colour", LEVELS),
    tacit.Categorical("sex", ["f", "m"]),
    tacit.Categorical("ill", ["no", "yes"]),
)
MODEL = tacit.LogisticRegression("ill", FEATURES)


def schema(neighbours="replace_one", columns=COLUMNS, **more):
    return tacit.Schema(*columns, neighbours=neighbours, **more)


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    table = {
        "x": rng.uniform(-3, 5, n),
        "k": rng.integers(0, 11, n),
        "colour": rng.choice(LEVELS, n),
        "sex": rng.choice(["f", "m"], n),
    }
    odds = 0.4 * table["x"] - 0.2 * table["k"] + (table["colour"] == "blue") + 0.5
    table["ill"] = np.where(rng.random(n) < expit(odds), "yes", "no")
    return table


def fit(how, n=4000, data=None, options=None, **sampling):
    described = schema(**(options or {}))
    data = people(n) if data is None else data
    wall = tacit.Wall(data, described, budget=tacit.Budget(10**5, 0.1), ledger=":memory:")
    return tacit.fit(MODEL, wall, how, **{"seed": 1, "draws": 200, **sampling})


def coded(rng, n):
    """Rows as kernels see them, at the edges of the domain too."""
    return np.column_stack(
        [
            rng.choice([-3, 5, *rng.uniform(-3, 5, 5)], n),
            rng.integers(0, 11, n),
            rng.integers(0, 3, n),
            rng.integers(0, 2, n),
            rng.integers(0, 2, n),
        ]
    ).astype(float)


DESIGN = Design.of(FEATURES, schema())


def computed(name, row, state, size):
    kernel, out = KERNELS[f"logistic.{name}"], np.zeros(size)
    kernel.function(row, kernel.frozen(state), out)
    return out


def test_no_row_contributes_more_than_its_bound():
    """The norm of each half of the gradient, and of the curvature beside it, is at most 1/2."""
    rng = np.random.default_rng(0)
    numbers = DESIGN.size + DESIGN.size * (DESIGN.size + 1) // 2
    largest = 0.0
    for row in coded(rng, 400):
        theta = rng.standard_normal(DESIGN.size) * rng.choice([0.0, 0.1, 3, 100])
        pulled = computed("gradient_constant", row, DESIGN.encoding, DESIGN.size)
        pushed = computed("gradient_and_hessian", row, (theta, *DESIGN.encoding), numbers)
        alone = computed("gradient_varying", row, (theta, *DESIGN.encoding), DESIGN.size)
        np.testing.assert_array_equal(alone, pushed[: DESIGN.size])
        sloped = computed("score", row, (theta, *DESIGN.encoding), DESIGN.size)
        assert np.linalg.norm(pulled) <= 0.5
        assert np.linalg.norm(pushed) <= 0.5
        assert np.linalg.norm(sloped) <= 1.0
        np.testing.assert_allclose(sloped, pulled - pushed[: DESIGN.size], atol=1e-15)
        largest = max(largest, np.linalg.norm(pushed))
    assert largest > 0.49  # the bound is not loose either


def test_gradient_and_hessian_are_those_of_the_log_likelihood():
    rng = np.random.default_rng(1)
    rows, theta = coded(rng, 50), rng.standard_normal(DESIGN.size)
    x, side = DESIGN.rows(rows[:, :4]), 2 * rows[:, 4] - 1

    def log_likelihood(at):
        return -np.logaddexp(0, -side * (x @ at)).sum()

    numbers = DESIGN.size + DESIGN.size * (DESIGN.size + 1) // 2
    constant = sum(computed("gradient_constant", row, DESIGN.encoding, DESIGN.size) for row in rows)
    both = sum(
        computed("gradient_and_hessian", row, (theta, *DESIGN.encoding), numbers) for row in rows
    )
    half, curvature = unpacked(both, DESIGN.size)
    step = 1e-5 * np.eye(DESIGN.size)
    gradient = [(log_likelihood(theta + d) - log_likelihood(theta - d)) / 2e-5 for d in step]
    np.testing.assert_allclose(constant - half, gradient, atol=1e-6)
    summed = sum(computed("log_likelihood", row, (theta, *DESIGN.encoding), 1)[0] for row in rows)
    assert summed == pytest.approx(log_likelihood(theta))
    probability = expit(x @ theta)
    np.testing.assert_allclose(curvature, (x * (probability * (1 - probability))[:, None]).T @ x)


def test_coefficients_are_in_original_units():
    rng = np.random.default_rng(2)
    rows, theta = coded(rng, 30)[:, :4], rng.standard_normal(DESIGN.size)
    intercept, coef = DESIGN.in_units(theta)
    in_units = DESIGN.columns_in_units(rows)
    np.testing.assert_allclose(intercept + in_units @ coef, DESIGN.rows(rows) @ theta)
    assert DESIGN.names[1:] == (
        "x", "k", "colour[red]", "colour[green]", "colour[blue]", "sex[m]",
    )  # fmt: skip
    assert coef[2:5].sum() == pytest.approx(0, abs=1e-12)
    norms = np.linalg.norm(DESIGN.rows(coded(rng, 500)[:, :4]), axis=1)
    assert 0.99 < norms.max() <= 1


def reference(data):
    """The same regression, hardly regularised, by another library."""
    columns = [data["x"], data["k"], *(data["colour"] == c for c in LEVELS), data["sex"] == "m"]
    x = np.column_stack(columns).astype(float)
    found = LogisticRegression(C=1e4, max_iter=10**4).fit(x, data["ill"])
    coef = found.coef_[0].copy()
    coef[2:5] -= coef[2:5].mean()
    return coef


def test_without_noise_it_is_the_ordinary_regression():
    data = people()
    posterior = tacit.fit(MODEL, tacit.Public(data, schema()), tacit.Exact(), seed=1)
    sd = posterior.flat("coef").std(axis=0)
    np.testing.assert_array_less(np.abs(posterior.mean() - reference(data)), 0.3 * sd)
    assert posterior.certificate.data == "public data"


def test_much_budget_meets_no_noise():
    data = people()
    posterior = fit(tacit.Budget(10**4, 1e-6), data=data)
    sd = posterior.flat("coef").std(axis=0)
    np.testing.assert_array_less(np.abs(posterior.mean() - reference(data)), 0.5 * sd)


@pytest.mark.parametrize("epsilon", [0.5, 2])
@pytest.mark.no_cover
def test_intervals_cover(epsilon):
    """90% intervals of five coefficients at n = 5,000, within 5 points. False alarms 1e-6.

    Coefficients of one table share their noise: as if two in five were independent.
    """
    repeats, hits = 60, 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        x = np.clip(rng.normal(0, 0.4, (5000, 5)), -1, 1)
        truth = rng.standard_normal(5)
        ill = rng.random(5000) < expit(x @ truth - 0.3)
        data = {f"x{i}": x[:, i] for i in range(5)} | {"ill": np.where(ill, "yes", "no")}
        columns = (*(tacit.Real(f"x{i}", -1, 1) for i in range(5)), COLUMNS[-1])
        wall = tacit.Wall(
            data, schema(columns=columns), budget=tacit.Budget(9, 0.1), ledger=":memory:"
        )
        model = tacit.LogisticRegression("ill", [f"x{i}" for i in range(5)])
        posterior = tacit.fit(model, wall, tacit.Budget(epsilon, 1e-5), seed=seed, draws=250)
        low, high = posterior.interval()
        hits += int(((low <= truth) & (truth <= high)).sum())
    n, share = 2 * repeats, hits / (5 * repeats)
    assert binom.cdf(share * n, n, 0.85) > 1e-6, share
    assert binom.sf(share * n - 1, n, 0.95) > 1e-6, share
    assert share > 0.8


def test_less_budget_gives_wider_intervals():
    wide, narrow = (np.ptp(fit(tacit.Budget(e, 1e-6)).interval(), axis=0) for e in (0.1, 10))
    assert np.all(wide > 1.5 * narrow)


def test_noise_that_is_ignored_makes_intervals_too_narrow():
    aware, plugin = (
        np.ptp(fit(tacit.Budget(1, 1e-6), noise=noise).interval(), axis=0)
        for noise in ("aware", "plugin")
    )
    assert plugin.mean() < 0.8 * aware.mean()


def test_predictions():
    posterior, test = fit(tacit.Budget(4, 1e-6)), people(2000, seed=9)
    probability = posterior.predict_proba(test)
    assert probability.shape == (2000, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert (posterior.predict(test) == test["ill"]).mean() > 0.68
    low, high = posterior.predict_interval(test)
    assert posterior.classes == ("no", "yes")
    assert np.all((low <= probability) & (probability <= high))
    logs = posterior.log_likelihood(test)
    said = np.log(np.where(test["ill"] == "yes", probability[:, 1], probability[:, 0]))
    np.testing.assert_allclose(logs, said, atol=1e-9)  # both average probabilities
    beyond = {"x": [99.0], "k": ["3"], "colour": [" red "], "sex": ["f"]}
    at_bound = {"x": [5.0], "k": [3], "colour": ["red"], "sex": ["f"]}
    np.testing.assert_array_equal(
        posterior.predict_proba(beyond), posterior.predict_proba(at_bound)
    )
    for bad, word in (
        ({"x": [1.0]}, "'k'"),
        ({**at_bound, "colour": ["pink"]}, "pink"),
        ({**at_bound, "x": [np.nan]}, "'x'"),
    ):
        with pytest.raises(tacit.errors.ModelError, match=word):
            posterior.predict_proba(bad)
    with pytest.raises(tacit.errors.ModelError, match="wall"):
        posterior.predict(SimpleNamespace(prepay=None))


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", ["none", "one", "missing", "constant", "several rows"])
def test_strange_data_are_no_error(kind, neighbours, tmp_path):
    options = {"neighbours": neighbours}
    data = people({"none": 0, "one": 1}.get(kind, 300))
    match kind:
        case "missing":
            data |= {"x": np.full(300, np.nan), "ill": np.full(300, "")}
        case "constant":
            data |= {"x": np.full(300, 5.0), "k": np.full(300, 0), "ill": np.full(300, "yes")}
            data |= {"colour": np.full(300, "red"), "sex": np.full(300, "m")}
        case "several rows":
            data["who"] = np.arange(300) // 3
            options |= {"unit": "who", "max_rows_per_unit": 2}
    for epsilon in (0.1, 300):
        posterior = fit(tacit.Budget(epsilon, 1e-6), data=data, options=options)
        assert np.all(np.isfinite(posterior.summary()))
        assert posterior.certificate.epsilon <= epsilon
        assert posterior.certificate.neighbours == neighbours
    posterior.save(tmp_path / "p.nc")
    again = tacit.Posterior.load(tmp_path / "p.nc")
    test = people(20, seed=3)
    np.testing.assert_allclose(again.predict_proba(test), posterior.predict_proba(test))


def test_what_cannot_be_is_refused_before_it_is_paid_for():
    wall = tacit.Wall(people(50), schema(), budget=tacit.Budget(1, 1e-3), ledger=":memory:")
    left = wall.remaining
    for model, how, word in (
        (tacit.LogisticRegression("colour", ["x"]), tacit.Budget(1, 1e-6), "two levels"),
        (MODEL, tacit.Budget(1), "delta"),
        (MODEL, tacit.Laplace(1), "PrivateNewton"),
        (MODEL, tacit.PrivateNewton(5, 1e-6), "remain"),
        (tacit.LogisticRegression("ill", ["nobody"]), tacit.Budget(1, 1e-6), "nobody"),
    ):
        with pytest.raises(tacit.TacitError, match=word):
            tacit.fit(model, wall, how)
    for bad in ([], ["ill"], ["x", "x"]):
        with pytest.raises(tacit.errors.ModelError, match="feature"):
            tacit.LogisticRegression("ill", bad)
    with pytest.raises(tacit.errors.ModelError, match="prior_scale"):
        tacit.LogisticRegression("ill", ["x"], prior_scale=0)
    many = tuple(tacit.Categorical(f"c{i}", list(range(150))) for i in range(3))
    described = schema(columns=(*COLUMNS, *many))
    with pytest.raises(tacit.errors.ModelError, match="SGLD"):
        tacit.LogisticRegression("ill", ["c0", "c1", "c2"]).design(described, squares=True)
    assert wall.remaining == left

"""Models for VIPS: what a row may add, strange data, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.kernels import KERNELS
from tacit.spec.packing import symmetric, upper
from tacit.spec.variational import FitSetting
from tests.contracts.test_models import STEPWISE, schema, table

MODELS = {name: model for name, model in STEPWISE.items() if name != "LDA"}


def fit(model, how, neighbours="replace_one", options=None, n=600, kind="plain", **sampling):
    wall = tacit.Wall(
        table(n, kind),
        schema(neighbours, **{"max_units": 2000, **(options or {})}),
        budget=tacit.Budget(10**5, 0.1),
        ledger=":memory:",
    )
    return tacit.fit(model, wall, how, **{"draws": 50, "chains": 2, "seed": 1, **sampling})


@pytest.mark.parametrize("kind", ["constant", "at a bound", "missing"])
@pytest.mark.parametrize("name", MODELS)
def test_strange_data_are_no_error(name, kind):
    for epsilon in ("1e-4", 1, 1000):
        for noise in ("aware", "plugin"):
            posterior = fit(MODELS[name], tacit.VIPS(epsilon, 1e-6), kind=kind, noise=noise)
            assert np.all(np.isfinite(posterior.summary()))
    public = tacit.Public(table(600, kind), schema("replace_one"))
    how = tacit.VIPS(noise_multiplier=0)
    assert np.all(np.isfinite(tacit.fit(MODELS[name], public, how, draws=50).summary()))


@pytest.mark.parametrize("name", MODELS)
def test_batches_and_a_budget(name):
    batches = fit(
        MODELS[name], tacit.VIPS(2, 1e-6, sampling=tacit.subsampling.Poisson(1 / 6), steps=12)
    )
    assert np.all(np.isfinite(batches.summary()))
    assert batches.certificate.epsilon <= 2
    assert fit(MODELS[name], tacit.Budget(1, 1e-6)).certificate.epsilon <= 1


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_and_noise_make_the_same_posterior(name):
    def once():
        public = tacit.Public(table(), schema("replace_one"), seed=4)
        how = tacit.VIPS(1, 1e-6)
        return tacit.fit(MODELS[name], public, how, seed=2, draws=20).summary()

    assert once().equals(once())


# What one row adds, before anything is clipped.


def added(name, row, state, numbers):
    kernel, out = KERNELS[name], np.zeros(numbers)
    kernel.function(row, kernel.frozen(state), out)
    return out


seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_row_of_a_normal_mixture_stays_within_its_bound(seed):
    rng = np.random.default_rng(seed)
    k, d = rng.integers(1, 5, 2)
    row, middle = rng.choice([-1.0, 1.0, 0.0, rng.uniform(-1, 1)], d), np.zeros(d)
    mean = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], (k, d))
    window = rng.choice([1e-6, 0.1, rng.uniform(0, 2), 2.0], (k, d))
    precision = np.exp(rng.normal(0, 5, (k, d)))
    state = middle, np.ones(d), rng.normal(0, 5, k), mean, precision, window
    one = added("normal_mixture.expected_statistics", row, state, 3 * k * d)
    assert np.all(one >= 0)
    assert np.linalg.norm(one) <= np.sqrt(d) * (1 + 1e-12)


def test_the_bound_of_a_normal_mixture_is_met_at_the_middle_and_the_ends():
    state = (np.zeros(1), np.ones(1), np.zeros(1), np.zeros((1, 1)), np.ones((1, 1)))
    norms = [
        np.linalg.norm(
            added("normal_mixture.expected_statistics", np.array([x]), (*state, np.ones((1, 1))), 3)
        )
        for x in np.linspace(-1, 1, 401)
    ]
    assert max(norms) == pytest.approx(1)
    assert norms[0] == norms[-1] == pytest.approx(1)
    assert norms[200] == pytest.approx(1)
    assert min(norms) > 0.85


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_a_row_of_latent_classes_stays_within_its_bound(seed):
    rng = np.random.default_rng(seed)
    k, counts = rng.integers(1, 5), rng.integers(1, 5, rng.integers(1, 6))
    row = np.array([rng.integers(0, c) for c in counts], float)
    state = rng.normal(0, 3, k), rng.normal(0, 3, (k, counts.sum())), np.cumsum([0, *counts[:-1]])
    one = added("latent_classes.responsibilities", row, state, k * counts.sum())
    assert np.all(one >= 0)
    assert one.sum() == pytest.approx(len(counts))
    assert np.linalg.norm(one) <= np.sqrt(len(counts)) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_a_row_of_a_belief_network_stays_within_its_box(seed):
    rng = np.random.default_rng(seed)
    p, k = rng.integers(1, 6), rng.integers(1, 4)
    numbers = (k + 1) * (p + 1) + p * (1 + k + k * (k - 1) // 2)
    scale = rng.choice([0, 1, 30])
    mean = scale * rng.normal(size=(p, k + 1))
    root = scale * rng.normal(size=(p, k + 1, k + 1))
    moments = mean[:, :, None] * mean[:, None] + root @ root.swapaxes(1, 2)
    row = rng.integers(0, 2, p).astype(float)
    state = (scale * rng.normal(size=k), mean, moments, np.array([5]))
    one = added("belief_network.expected_statistics", row, state, numbers)
    assert np.all((one >= 0) & (one <= 1))


def test_a_weighted_row_of_a_regression_stays_within_its_bound():
    model, described = MODELS["LogisticRegression"], schema("replace_one")
    design, rng, largest = model.design(described), np.random.default_rng(0), 0.0
    numbers = design.size * (design.size + 1) // 2
    assert model.variational(described, FitSetting(10, 1.0)).preview.bounds[0].clip == 0.25
    for _ in range(300):
        root = rng.normal(size=(design.size, design.size)) * rng.choice([0, 0.1, 10])
        row = np.array([rng.choice([-10, 10, rng.uniform(-10, 10)]), rng.integers(0, 3), 1.0])
        state = (upper(root @ root.T), *design.encoding)
        one = added("logistic.polya_gamma_squares", row, state, numbers)
        largest = max(largest, np.linalg.norm(one))
        x = design.rows(row[None, :2])[0]
        odds = max(np.sqrt(x @ root @ root.T @ x), 1e-6)
        expected = np.tanh(odds / 2) / (2 * odds) * np.outer(x, x)
        np.testing.assert_allclose(symmetric(one, design.size), expected, rtol=1e-6, atol=1e-12)
    assert 0.249 < largest <= 0.25


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: tacit.GaussianMixture(0, ["x"]), "n_components=0 to be a whole number from 1"),
        (lambda: tacit.GaussianMixture(2.0, ["x"]), "n_components=2.0 to be a whole"),
        (lambda: tacit.GaussianMixture(2, []), "at least one feature"),
        (lambda: tacit.GaussianMixture(2, ["x", "x"]), "each once"),
        (lambda: tacit.GaussianMixture(2, ["x"], prior_width=0), "prior_width=0 > 0"),
        (lambda: tacit.GaussianMixture(2, ["x"], point=1), "point=1"),
        (lambda: tacit.NaiveBayesMixture(True, ["x"]), "n_components=True"),
        (lambda: tacit.NaiveBayesMixture(2, ["kind"], prior=np.inf), "prior"),
        (lambda: tacit.SigmoidBeliefNetwork(0, ["flag"]), "n_hidden=0"),
        (lambda: tacit.SigmoidBeliefNetwork(2, ()), "visible column"),
        (lambda: fit(tacit.GaussianMixture(2, ["kind"]), tacit.VIPS(1, 1e-6)), "Real or Integer"),
        (lambda: fit(tacit.NaiveBayesMixture(2, ["x"]), tacit.VIPS(1, 1e-6)), "Categorical"),
        (lambda: fit(tacit.SigmoidBeliefNetwork(2, ["kind"]), tacit.VIPS(1, 1e-6)), "two levels"),
        (
            lambda: fit(tacit.GaussianMixture(2, ["x"]), tacit.Laplace(1)),
            "fitted by Laplace; it can by tacit.Budget, tacit.VIPS",
        ),
    ],
)
def test_what_is_refused(make, said):
    with pytest.raises(tacit.errors.ModelError, match=said):
        make()

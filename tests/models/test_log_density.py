"""Any model with gradients: it asks for the gradient, its draws have names, what is refused.

Comparisons are with exact gradients and with NUTS. Runs that are compared are seeded; tolerances
are five standard errors of chains whose draws are worth a fiftieth of independent ones.
"""

import numpy as np
import pytest
from scipy.stats import poisson as poisson_law

import tacit
from tacit.infer.linearised import bent
from tacit.spec.walks import Frame

jax = pytest.importorskip("jax")
numpyro = pytest.importorskip("numpyro")
jnp, dist = jax.numpy, numpyro.distributions

N = 2000


def schema(neighbours="replace_one", **options):
    return tacit.Schema(
        tacit.Real("age", 20, 80),
        tacit.Real("dose", -1, 1),
        tacit.Categorical("ill", ["no", "yes"]),
        tacit.Categorical("ward", ["a", "b", "c"]),
        tacit.Integer("visits", 0, 30),
        tacit.Real("stay", -8, 8),
        neighbours=neighbours,
        **options,
    )


def table(n=N):
    rng = np.random.default_rng(7)
    age, dose = rng.uniform(20, 80, n), rng.uniform(-1, 1, n)
    ward = rng.integers(0, 3, n)
    odds = 1 / (1 + np.exp(-(0.03 * (age - 50) - dose)))
    return {
        "age": age,
        "dose": dose,
        "ill": np.where(rng.random(n) < odds, "yes", "no"),
        "ward": np.array(["a", "b", "c"])[ward],
        "visits": np.minimum(rng.poisson(np.exp(0.5 + 0.7 * dose)), 30),
        "stay": np.clip(np.array([-1.0, 0.5, 2.0])[ward] + rng.normal(0, 1.5, n), -8, 8),
    }


def public(**options):
    return tacit.Public(table(), schema(), seed=1, **options)


def logistic(parameters, x, y):
    z = parameters["intercept"] + (x[0] - 50) / 30 * parameters["coef"][0]
    z = z + x[1] * parameters["coef"][1]
    return y * z - jax.nn.softplus(z)


SHAPES = {"coef": (2,), "intercept": ()}
LOGISTIC = tacit.LogDensity(logistic, x=["age", "dose"], y="ill", parameters=SHAPES)


def numpyro_logistic(x, y):
    coef = numpyro.sample("coef", dist.Normal(0, 2).expand([2]).to_event(1))
    intercept = numpyro.sample("intercept", dist.Normal(0, 2))
    z = intercept + (x[:, 0] - 50) / 30 * coef[0] + x[:, 1] * coef[1]
    with numpyro.plate("records", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=z), obs=y)


def poisson(dose, visits):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    base = numpyro.sample("base", dist.Normal(0, 2))
    with numpyro.plate("records", len(visits)):
        numpyro.sample("visits", dist.Poisson(jnp.exp(base + slope * dose)), obs=visits)


def hierarchical(ward, stay):
    """Wards share a mean and a spread: all of them global."""
    mean = numpyro.sample("mean", dist.Normal(0, 3))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("wards", 3):
        level = numpyro.sample("level", dist.Normal(mean, spread))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3))
    with numpyro.plate("records", len(stay)):
        numpyro.sample("stay", dist.Normal(level[ward], sigma), obs=stay)


# A model is traced and compiled once for each of these objects, so all tests share them.
PROBABILISTIC = {
    "logistic": tacit.LogDensity(numpyro_logistic, x=["age", "dose"], y="ill", clip=6.0),
    "poisson": tacit.LogDensity(poisson, clip=6.0),
    "hierarchical": tacit.LogDensity(hierarchical),
}


def arguments(name):
    data = {key: jnp.asarray(value) for key, value in table().items() if value.dtype.kind in "fi"}
    ill = jnp.asarray((table()["ill"] == "yes").astype(int))
    ward = jnp.asarray(np.searchsorted(["a", "b", "c"], table()["ward"]))
    return {
        "logistic": {"x": jnp.stack([data["age"], data["dose"]], 1), "y": ill},
        "poisson": {"dose": data["dose"], "visits": data["visits"]},
        "hierarchical": {"ward": ward, "stay": data["stay"]},
    }[name]


# The question


def test_what_is_asked_is_the_gradient_of_all_records():
    """Against the gradient of the sum, on the model's own scale, at a place away from the start."""
    model = tacit.LogDensity(logistic, x=["age", "dose"], y="ill", parameters=SHAPES, clip=100.0)
    asked, density = model.gradients(schema()), model.density(schema())
    theta = np.array([0.3, -0.2, 0.1], np.float32)
    data = table()
    rows = np.column_stack([data["age"], data["dose"], data["ill"] == "yes"]).astype(np.float32)

    def total(vector):
        return jnp.sum(jax.vmap(lambda row: density.log_likelihood(vector, row))(rows))

    def scaled(small):  # the samplers' scale is a linear one
        return model.gradients(schema()).posterior(release, np.asarray(small)[None, None])

    release = public().release(asked.ask(theta), tacit.Exact())
    basis = np.array(
        [np.append(scaled(unit).mean("coef"), scaled(unit).mean("intercept")) for unit in np.eye(3)]
    )
    exact = basis @ np.asarray(jax.grad(total)(jnp.asarray(theta @ basis, jnp.float32)))
    np.testing.assert_allclose(release.value, exact, rtol=1e-3, atol=0.01)


def test_a_made_up_record_has_a_curvature_of_one():
    """So that the clip suits: most gradients of records like these are shorter than it."""
    asked = LOGISTIC.gradients(schema())
    ((_, bound),) = asked.question.blocks
    assert asked.curvature == 1.0
    assert bound.clip == pytest.approx(np.sqrt(3) + 2)
    for name, model in PROBABILISTIC.items():
        assert model.gradients(schema()).curvature == 1.0, name


def test_a_heavy_hessian_takes_no_room_from_the_gradient():
    """A record of gradient 3 and Hessian 40, and a clip of 8: what is clipped is the Hessian."""

    def steep(parameters, x, y):
        return 3.0 * parameters["a"] - 20.0 * parameters["a"] ** 2

    only = tacit.Schema(tacit.Real("stay", -8, 8), neighbours="replace_one")
    model = tacit.LogDensity(steep, y="stay", parameters={"a": ()})
    asked = model.derivatives(only).question(Frame(np.zeros(1), np.eye(1)), 8.0, hessian=True)
    one = tacit.Public({"stay": np.zeros(1)}, only).release(asked, tacit.Exact()).value
    np.testing.assert_allclose(one, [3.0, (64 - 9 - 1) ** 0.5, 1.0], rtol=1e-4)


def not_centred(ward, stay):
    """The hierarchy by offsets: records tell products of parameters apart, and not these."""
    mean = numpyro.sample("mean", dist.Normal(0, 3))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("wards", 3):
        away = numpyro.sample("away", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3))
    with numpyro.plate("records", len(stay)):
        numpyro.sample("stay", dist.Normal(mean + spread * away[ward], sigma), obs=stay)


def test_products_of_parameters_are_not_near_a_line():
    """Both hierarchies at one point of the posterior, draws about as wide as levels are known.

    A warning comes at 0.03; sigma alone, by its logarithm, makes for less than 0.001.
    """
    rng = np.random.default_rng(1)
    for name in ("not centred", "hierarchical"):
        model = PROBABILISTIC.get(name) or tacit.LogDensity(not_centred)
        density = model.density(schema())
        derivatives = model.derivatives(schema())
        assert density.targets == ("stay",)
        level = {"level": [-1.0, 0.5, 2.0]} if name == "hierarchical" else {"away": [-1.5, 0, 1.5]}
        at = density.vector({"mean": 0.5, "spread": 1.0, "sigma": 1.5, **level})
        draws = at + rng.normal(0, 0.03, (100, len(at)))
        found = bent(derivatives.contrasts, at, draws, derivatives.prior_precision)
        assert found > 1.0 if name == "not centred" else found < 0.003, (name, found)


def test_many_parameters_are_scaled_one_by_one():
    def wide(parameters, x, y):
        return -0.5 * jnp.sum((y - x[0] * parameters["w"]) ** 2) / 100

    model = tacit.LogDensity(wide, x="dose", y="stay", parameters={"w": (100,)})
    asked = model.gradients(schema())
    assert asked.curvature == pytest.approx(1.0, rel=1e-3)
    release = public().release(asked.question, tacit.Exact())
    assert np.all(np.isfinite(release.value))
    walked = tacit.fit(model, public(), tacit.SGLD(10, 1e-6, steps=4))
    assert walked.draws["w"].shape == (1, 2, 100)


def test_the_clip_grows_with_the_rows_of_a_unit():
    data = table()
    several = tacit.Schema(
        *schema().columns, unit="who", max_rows_per_unit=4, neighbours="add_remove"
    )
    ((_, bound),) = LOGISTIC.gradients(several).question.blocks
    assert bound.clip == pytest.approx(2 * (np.sqrt(3) + 2))
    source = {**data, "who": np.arange(N) // 4}
    how = tacit.SGLD(1, 1e-6, steps=4, n_units=N // 4)
    assert tacit.fit(LOGISTIC, tacit.Public(source, several), how).certificate.neighbours


# The draws


def nuts(name):
    from numpyro.infer import MCMC, NUTS

    model = PROBABILISTIC[name].model
    run = MCMC(NUTS(model), num_warmup=300, num_samples=1000, progress_bar=False)
    run.run(jax.random.key(0), **arguments(name))
    return {key: np.asarray(value) for key, value in run.get_samples().items()}


@pytest.mark.parametrize(
    "name",
    # the second by the sampler of the first
    ["logistic", pytest.param("poisson", marks=pytest.mark.slow), "hierarchical"],
)
@pytest.mark.no_cover
def test_at_a_large_epsilon_a_numpyro_model_has_its_posterior(name):
    # Fisher scoring takes normal steps, which a posterior like a funnel is not made for
    sampler = tacit.methods.SGNHT if name == "hierarchical" else tacit.methods.SGFS
    posterior = tacit.fit(PROBABILISTIC[name], public(), sampler(490, 1e-6, steps=3000), seed=2)
    for variable, exact in nuts(name).items():
        draws, sd = posterior.flat(variable), exact.std(axis=0)
        assert draws.shape[1:] == exact.shape[1:]
        error = 5 * sd / np.sqrt(0.02 * len(draws))
        assert np.all(np.abs(draws.mean(axis=0) - exact.mean(axis=0)) < error), variable
        # slow where the data say little, as of a spread of three
        factor = 3.0 if variable in ("spread", "mean") else 1.6
        assert np.all(draws.std(axis=0) < np.sqrt(factor) * sd), variable
        assert np.all(draws.std(axis=0) > sd / np.sqrt(factor)), variable


def test_draws_have_names_shapes_and_bounds(tmp_path):
    behind = tacit.Wall(table(), schema(), budget=tacit.Budget(3, 1e-5), ledger=":memory:")
    posterior = tacit.fit(
        PROBABILISTIC["hierarchical"], behind, tacit.methods.SGNHT(2, 1e-6, steps=60)
    )
    assert set(posterior.draws) == {"mean", "spread", "level", "sigma"}
    assert posterior.draws["level"].shape == (4, 1000, 3)
    assert np.all(posterior.flat("sigma") > 0)
    assert np.all(posterior.flat("spread") > 0)
    assert "level[2]" in posterior.summary().index
    data = posterior.to_arviz()
    assert data.posterior["level"].dims == ("chain", "draw", "level_dim_0")
    assert data.attrs["epsilon"] == str(posterior.certificate.epsilon)
    posterior.save(tmp_path / "p.nc")
    again = tacit.Posterior.load(tmp_path / "p.nc")
    assert again.summary().equals(posterior.summary())
    assert again.model["function"].endswith("hierarchical")


def test_a_walk_can_begin_at_another_posterior():
    for model in (LOGISTIC, PROBABILISTIC["hierarchical"]):
        start = model.gradients(schema()).start
        release = public().release(model.gradients(schema()).question, tacit.Exact())
        there = np.linspace(-0.5, 0.5, start.size)
        posterior = model.gradients(schema()).posterior(release, there[None, None])
        np.testing.assert_allclose(
            model.gradients(schema()).parameters(posterior), there, atol=1e-3
        )


def test_a_prior_of_ones_own():
    """A prior that says much more than the data."""

    def sure(parameters):
        return -0.5 * ((parameters["mean"] - 7.0) / 0.001) ** 2

    def normal(parameters, x, y):
        return -0.5 * (y - parameters["mean"]) ** 2

    model = tacit.LogDensity(normal, y="stay", parameters={"mean": ()}, log_prior=sure)
    how = tacit.SGLD(100, 1e-6, steps=300)
    exact = (7.0 * 1e6 + table()["stay"].sum()) / (1e6 + N)  # a normal prior after all
    assert exact < 6.99
    assert tacit.fit(model, public(), how, seed=1).mean() == pytest.approx(exact, abs=0.005)


# Predictions


def predicting(name, model=None):
    return tacit.fit(model or PROBABILISTIC[name], public(), tacit.PrivateNewton(8, 1e-6), seed=1)


def test_a_numpyro_model_predicts_what_it_observes():
    """Means and intervals by the Poisson law of each draw; what rows hold is not asked."""
    posterior, new = predicting("poisson"), {"dose": [-1.0, 0.0, 1.0]}
    rates = np.exp(posterior.flat("base")[:, None] + posterior.flat("slope")[:, None] * new["dose"])
    np.testing.assert_allclose(posterior.predict(new), rates.mean(axis=0), rtol=1e-4)
    low, high = posterior.predict_interval(new, 0.9, seed=1)
    expected = np.quantile(np.random.default_rng(2).poisson(rates), [0.05, 0.95], axis=0)
    assert np.all(np.abs(np.array([low, high]) - expected) <= 1)  # whole numbers
    visits = np.array([0, 2, 5])
    probability = poisson_law.pmf(visits, rates).mean(axis=0)
    found = posterior.log_likelihood({**new, "visits": visits})
    np.testing.assert_allclose(found, np.log(probability), rtol=1e-3)
    with pytest.raises(tacit.errors.ModelError, match="Categorical target"):
        posterior.predict_proba(new)


@pytest.mark.parametrize(
    "model", [LOGISTIC, PROBABILISTIC["logistic"]], ids=["function", "NumPyro"]
)
def test_levels_have_probabilities(model, tmp_path):
    posterior, new = predicting("logistic", model), {"age": [30.0, 70.0], "dose": [0.5, -0.5]}
    x = np.column_stack([(np.array(new["age"]) - 50) / 30, new["dose"]])
    odds = posterior.flat("intercept")[:, None] + posterior.flat("coef") @ x.T
    probability = (1 / (1 + np.exp(-odds))).mean(axis=0)
    np.testing.assert_allclose(posterior.predict_proba(new)[:, 1], probability, rtol=1e-3)
    assert posterior.classes == ("no", "yes")
    assert list(posterior.predict(new)) == ["no", "yes"]
    found = posterior.log_likelihood({**new, "ill": ["yes", "no"]})
    np.testing.assert_allclose(found, np.log([probability[0], 1 - probability[1]]), rtol=1e-3)
    posterior.save(tmp_path / "p.nc")
    with pytest.raises(tacit.errors.ModelError, match="from a file"):
        tacit.Posterior.load(tmp_path / "p.nc").predict(new)


def test_a_function_does_not_know_the_mean_of_a_number():
    def normal(parameters, x, y):
        return -0.5 * (y - parameters["mean"]) ** 2

    model = tacit.LogDensity(normal, y="stay", parameters={"mean": ()})
    posterior = predicting("", model)
    with pytest.raises(tacit.errors.ModelError, match="no mean is known"):
        posterior.predict(table(3))
    assert posterior.log_likelihood(table(3)).shape == (3,)


# Records that go wrong


STRANGE = {
    "NaN": lambda dose, mean: jnp.sqrt(dose),  # with a fine slope
    "NaN slope": lambda dose, mean: jnp.sqrt(dose) * mean,
    "infinite": lambda dose, mean: jnp.where(dose > 0, 0.0, -jnp.inf),
    "infinite slope": lambda dose, mean: jnp.where(dose > 0, 0.0, jnp.inf) * mean,
    "huge slope": lambda dose, mean: jnp.where(dose > 0, 0.0, 3e38) * (10 * mean),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_a_record_without_a_finite_gradient_contributes_nothing(kind):
    def strange(parameters, x, y):
        fine = -0.5 * (y - parameters["mean"]) ** 2
        return fine + STRANGE[kind](x[0], parameters["mean"] + 1) * 1e-6

    model = tacit.LogDensity(strange, x="dose", y="stay", parameters={"mean": ()}, clip=100.0)
    asked = model.gradients(schema())
    found = public().release(asked.question, tacit.Exact()).value[0]
    data = table()
    fine = data["stay"][data["dose"] > 0]
    basis = (
        model.gradients(schema())
        .posterior(public().release(asked.question, tacit.Exact()), np.ones((1, 1, 1)))
        .mean("mean")
    )
    assert found == pytest.approx(basis * fine.sum(), rel=1e-2)
    behind = tacit.Wall(data, schema(), budget=tacit.Budget(1, 1e-5), ledger=":memory:")
    posterior = tacit.fit(model, behind, tacit.SGLD(0.5, 1e-6, steps=10))
    assert np.all(np.isfinite(posterior.summary()))


# What is refused


def plain(body):
    return tacit.LogDensity(body, x=["age"], y="stay", parameters={"a": ()})


def branches(parameters, x, y):
    return y if y > 0 else -y


def two_numbers(parameters, x, y):
    return jnp.array([y, y]) * parameters["a"]


def not_there(parameters, x, y):
    return parameters["b"] * y


def shouts(parameters, x, y):
    jax.debug.print("{}", y)
    return -((y - parameters["a"]) ** 2)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (branches, "to run in JAX, got TracerBoolConversionError"),
        (two_numbers, r"one number from the function, got shape \(2,\)"),
        (not_there, "got KeyError: 'b'"),
    ],
)
def test_a_function_that_does_not_suit_is_refused_in_a_sentence(body, says):
    behind = tacit.Wall(table(), schema(), budget=tacit.Budget(1, 1e-5), ledger=":memory:")
    with pytest.raises(tacit.errors.ModelError, match=says):
        tacit.fit(plain(body), behind, tacit.SGLD(0.5, 1e-6, steps=10))
    assert behind.remaining.epsilon == 1


def test_a_function_that_prints_records_is_refused():
    behind = tacit.Wall(table(), schema(), budget=tacit.Budget(1, 1e-5), ledger=":memory:")
    with pytest.raises(tacit.errors.QueryError, match="side effect"):
        tacit.fit(plain(shouts), behind, tacit.SGLD(0.5, 1e-6, steps=10))
    assert behind.remaining.epsilon == 1


def observed(mean, y, **plate):
    with numpyro.plate("records", plate.pop("size", len(y)), **plate):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def no_plate(x, y):
    a = numpyro.sample("a", dist.Normal(0, 5))
    numpyro.sample("y", dist.Normal(a, 1).expand([len(y)]).to_event(1), obs=y)


def two_plates(x, y):
    a = numpyro.sample("a", dist.Normal(0, 5))
    observed(a, y)
    with numpyro.plate("again", len(y)):
        numpyro.sample("z", dist.Normal(a, 1), obs=y)


def nested(x, y):
    a = numpyro.sample("a", dist.Normal(0, 5))
    with numpyro.plate("both", 2, dim=-2), numpyro.plate("records", len(y)):
        numpyro.sample("y", dist.Normal(a, 1), obs=jnp.stack([y, y]))


def local(x, y):
    a = numpyro.sample("a", dist.Normal(0, 5))
    with numpyro.plate("records", len(y)):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a + b, 1), obs=y)


def fixed(x, y):
    observed(numpyro.sample("a", dist.Normal(0, 5)), y, size=2000)


def part(x, y):
    observed(numpyro.sample("a", dist.Normal(0, 5)), y, subsample_size=1)


def centred(x, y):
    observed(numpyro.sample("a", dist.Normal(0, 5)) * (x[:, 0] - x[:, 0].mean()), y)


def shrinking(x, y):
    observed(numpyro.sample("a", dist.Normal(0, 5 / len(y))), y)


def empirical(x, y):
    observed(numpyro.sample("a", dist.Normal(y.mean(), 5)), y)


def discrete(x, y):
    observed(numpyro.sample("a", dist.Bernoulli(0.5)) * 1.0, y)


def point(x, y):
    observed(numpyro.sample("a", dist.Normal(0, 1)) + numpyro.param("p", 0.0), y)


def stranger(x, y, income):
    observed(numpyro.sample("a", dist.Normal(0, 1)), y)


def unseen(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("records", len(y)):
        numpyro.sample("y", dist.Normal(a, 1))


def outside(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("first", dist.Normal(a, 1), obs=y[0])
    observed(a, y)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (no_plate, "one plate over the records, got none"),
        (two_plates, "one plate over the records, got records, again"),
        (nested, "and no other"),
        (local, "global variables only, got 'b'"),
        (fixed, "to run on one or two records|got none"),
        (part, "without subsample_size"),
        (centred, "whatever the other records are"),
        (shrinking, "priors of the NumPyro model not to depend"),
        (empirical, "priors of the NumPyro model not to depend"),
        (discrete, "discrete 'a'"),
        (point, "no numpyro.param"),
        (stranger, "argument 'income'"),
        (unseen, "global variables only, got 'y'"),
        (outside, "'first' to be observed inside"),
    ],
)
def test_a_numpyro_model_that_does_not_suit_is_refused_in_a_sentence(model, says):
    behind = tacit.Wall(table(), schema(), budget=tacit.Budget(1, 1e-5), ledger=":memory:")
    with pytest.raises(tacit.errors.ModelError, match=says):
        tacit.fit(
            tacit.LogDensity(model, x=["age"], y="stay"), behind, tacit.SGLD(0.5, 1e-6, steps=10)
        )
    assert behind.remaining.epsilon == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"parameters": {}}, "parameters="),
        ({"parameters": {"a": 0}}, "shape such as"),
        ({"parameters": {"a": (2, -1)}}, "shape such as"),
        ({"parameters": None, "prior_scale": 1.0}, "NumPyro model has its own"),
        ({"prior_scale": -1.0}, "prior_scale"),
        ({"clip": 0}, "clip"),
        ({"y": "age"}, "each once"),
        ({"log_prior": 3}, "function for log_prior"),
        ({"x": (), "y": None}, "columns of a record"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(tacit.errors.ModelError, match=says):
        tacit.LogDensity(
            **{"model": logistic, "x": "age", "y": "ill", "parameters": SHAPES, **options}
        )


def test_it_has_no_statistics():
    with pytest.raises(tacit.errors.ModelError, match=r"cannot be fitted by Laplace.*SGNHT"):
        tacit.fit(LOGISTIC, public(), tacit.Laplace(1))

"""A release as an observation: the same posterior as by enumeration, and intervals that cover."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density
from scipy import stats

import tacit
import tacit.numpyro
from tacit.numpyro import NormalLaplace
from tacit.testing import simulated_release

LAPLACE, GAUSSIAN = tacit.Laplace(0.3), tacit.Gaussian(noise_multiplier=3, delta=1e-6)


def smokers(mechanism=LAPLACE, n=40, yes=6, neighbours="replace_one", default="no", seed=3):
    column = tacit.Categorical("smoker", ["no", "yes"], default=default)
    schema = tacit.Schema(column, neighbours=neighbours)
    counts = [yes] if neighbours == "replace_one" and default else [n - yes, yes]
    counts += [] if default else [2]
    query = tacit.queries.Counts("smoker")
    return simulated_release(schema, query, mechanism, counts, n, seed=seed)


def sampled(model, *args, seed=0, warmup=500, draws=1000, chains=1):
    mcmc = MCMC(
        NUTS(model),
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(seed), *args)
    return mcmc


def on_a_grid(model, release, values=None, **axes):
    """Mean and sd along each axis: exact up to the grid, and compiled once instead of NUTS.

    `values` makes the model's variables of a place on the grid, and the log of their volume.
    """
    mesh = [x.ravel() for x in np.meshgrid(*axes.values(), indexing="ij")]

    @jax.jit
    @jax.vmap
    def log(*at):
        place, volume = (values or as_they_are)(**dict(zip(axes, at, strict=True)))
        return log_density(model, (release,), {}, place)[0] + volume

    found = np.asarray(log(*mesh), float)
    weight = np.exp(found - found.max())
    weight /= weight.sum()
    means = [(weight * x).sum() for x in mesh]
    sds = [np.sqrt((weight * (x - m) ** 2).sum()) for x, m in zip(mesh, means, strict=True)]
    return dict(zip(axes, zip(means, sds, strict=True), strict=True))


def as_they_are(**variables):
    return variables, 0.0


def log_likelihood(release, *args, **kwargs):
    """Of a model that has nothing but the observation."""

    def log():
        def observed():
            tacit.numpyro.observe("y", release, *args, **kwargs)

        return log_density(observed, (), {}, {})[0]

    return float(jax.jit(log)())  # one program instead of an eager one for every operation


def binomial(release):
    p = numpyro.sample("p", dist.Beta(0.5, 2.0))
    tacit.numpyro.observe("smokers", release, dist.Binomial(release.n, p))


def enumerated(release, p):
    """log p(y | p), by summing over all counts there can be."""
    (y,), (noise,) = release.value, release.noise
    s = np.arange(release.n + 1)
    fall = np.abs(y - s) / noise.scale
    log = -fall if "laplace" in noise.family else -0.5 * fall**2
    weights = stats.binom.pmf(s[:, None], release.n, p)
    return np.log((weights * np.exp(log)[:, None]).sum(axis=0))


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN, tacit.Laplace(5)], ids=str)
@pytest.mark.parametrize("yes", [0, 6, 40])
def test_counts_have_the_likelihood_of_all_that_can_be_behind_them(mechanism, yes):
    release = smokers(mechanism, yes=yes)
    p = np.linspace(0.01, 0.99, 9)
    expected = enumerated(release, p)
    with jax.enable_x64(True):

        @jax.jit
        @jax.vmap
        def log(at):
            law = dist.Binomial(release.n, at)
            seen = (lambda: tacit.numpyro.observe("y", release, law), (), {}, {})
            return log_density(*seen)[0]

        found = np.asarray(log(p))
    found, expected = np.exp(found - found.max()), np.exp(expected - expected.max())
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    "mechanism", [LAPLACE, pytest.param(GAUSSIAN, marks=pytest.mark.slow)], ids=str
)
def test_nuts_finds_the_posterior_of_enumeration(mechanism, tmp_path):
    """Mean and sd within 4.9 standard errors: false-alarm rate 2e-6 for each mechanism."""
    smokers(mechanism).save(tmp_path / "smokers.release")
    release = tacit.Release.load(tmp_path / "smokers.release")
    p = np.linspace(0, 1, 20_002)[1:-1]
    weight = np.exp(enumerated(release, p) + stats.beta.logpdf(p, 0.5, 2.0))
    weight /= weight.sum()
    mean = (weight * p).sum()
    sd = np.sqrt((weight * (p - mean) ** 2).sum())
    kurtosis = (weight * ((p - mean) / sd) ** 4).sum()
    draws = np.asarray(sampled(binomial, release, draws=2000).get_samples()["p"])
    independent = effective(draws)
    assert abs(draws.mean() - mean) < 4.9 * sd / np.sqrt(independent)
    independent = effective((draws - mean) ** 2)
    assert abs(draws.std() / sd - 1) < 4.9 * np.sqrt((kurtosis - 1) / 4 / independent)


def effective(draws) -> float:
    return float(numpyro.diagnostics.effective_sample_size(draws[None]))


def test_it_agrees_with_the_model_that_has_its_own_name():
    release = smokers(neighbours="add_remove", n=200, yes=30)

    def model(release):
        p = numpyro.sample("p", dist.Beta(1, 1))
        rows = numpyro.sample("rows", dist.LogNormal(5, 1.5))
        tacit.numpyro.observe("smokers", release, dist.Poisson(rows * jnp.stack([1 - p, p])))

    grid = {"p": np.linspace(0.002, 0.5, 250), "rows": np.linspace(120, 280, 81)}
    mean, sd = on_a_grid(model, release, **grid)["p"]
    named = tacit.BetaBernoulli("smoker", success="yes").posterior(release, seed=1)
    assert mean == pytest.approx(named.mean(), abs=0.004)  # 5 standard errors of 4,000 draws
    assert sd == pytest.approx(named.sample(4000).std(), rel=0.1)


def test_laplace_noise_is_a_mixture_of_normal_noise():
    """The site that `covariance=` adds gives the density of the closed form, integrated out."""
    release = smokers(yes=9)
    b, (y,) = release.noise[0].scale, release.value

    def together(release):
        mean, covariance = jnp.array([15.0]), jnp.array([[7.0]])
        tacit.numpyro.observe("y", release, mean=mean, covariance=covariance)

    def at(unit):
        return jnp.exp(log_density(together, (release,), {}, {"y_noise": unit[None]})[0])

    with jax.enable_x64(True):
        unit = np.exp(np.linspace(np.log(1e-6), np.log(80), 400))
        density = np.asarray(jax.jit(jax.vmap(at))(unit))
        expected = float(jnp.exp(NormalLaplace(15.0, 7.0, b).log_prob(y)))
    assert np.trapezoid(density * unit, np.log(unit)) == pytest.approx(expected, rel=1e-4)


ROWS = 400


def incomes(mechanism, seed=4):
    schema = tacit.Schema(tacit.Real("income", 0, 100, default=50), neighbours="replace_one")
    x = np.random.default_rng(seed).normal(42, 12, ROWS).clip(0, 100)
    u = (x - 50) / 50
    query = tacit.queries.Moments("income")
    return simulated_release(schema, query, mechanism, [u.sum(), (u * u).sum()], ROWS, seed=seed)


def normal_rows(release):
    mean = numpyro.sample("mean", dist.Uniform(20, 80))
    sd = numpyro.sample("sd", dist.Uniform(5, 25))
    m, s = (mean - 50) / 50, sd / 50  # as the release has scaled them
    each = jnp.array([m, m**2 + s**2])
    cross = 2 * m * s**2
    covariance = jnp.array([[s**2, cross], [cross, 2 * s**4 + 4 * m**2 * s**2]])
    tacit.numpyro.observe("income", release, mean=ROWS * each, covariance=ROWS * covariance)


def with_mixture(mean, sd, first, second):
    """Widths of the noise of both sums, on the scale of logs."""
    units = jnp.exp(jnp.stack([first, second]))
    return {"mean": mean, "sd": sd, "income_noise": units}, first + second


@pytest.mark.parametrize("mechanism", [tacit.Laplace(1), tacit.Gaussian(2, 1e-6)], ids=str)
def test_sums_and_squares_agree_with_the_model_that_has_its_own_name(mechanism):
    release = incomes(mechanism)
    if isinstance(mechanism, tacit.Laplace):  # its mixture has variables of its own
        logs = np.linspace(-6, 3.5, 20)
        wide = {"mean": np.linspace(36, 48, 25), "sd": np.linspace(5.1, 20, 31)}
        found = on_a_grid(normal_rows, release, with_mixture, **wide, first=logs, second=logs)
    else:
        grid = {"mean": np.linspace(36, 48, 121), "sd": np.linspace(5.1, 20, 150)}
        found = on_a_grid(normal_rows, release, **grid)
    named = tacit.NormalModel("income").posterior(release, seed=1, draws=2000)
    for name in ("mean", "sd"):
        (mean, sd), other = found[name], named.flat(name)
        # Priors differ a little, and the others are draws.
        assert abs(mean - other.mean()) < 0.3 * other.std()
        assert sd == pytest.approx(other.std(), rel=0.25)


def test_gaussian_noise_adds_its_variance():
    release = incomes(tacit.Gaussian(2, 1e-6))
    mean, covariance = np.array([-60.0, 40.0]), np.array([[20.0, -6.0], [-6.0, 5.0]])
    scale = np.array([law.scale for law in release.noise])
    together = stats.multivariate_normal(mean, covariance + np.diag(scale**2))
    apart = stats.norm(mean, np.sqrt(np.diag(covariance) + scale**2))
    with jax.enable_x64(True):
        found = log_likelihood(release, mean=mean, covariance=covariance)
        assert found == pytest.approx(together.logpdf(release.value), rel=1e-9)
        variance = np.diag(covariance)
        found = log_likelihood(release, mean=mean, variance=variance)
        assert found == pytest.approx(apart.logpdf(release.value).sum(), rel=1e-9)
        law = dist.Normal(mean, np.sqrt(variance)).to_event(1)
        assert log_likelihood(release, law) == pytest.approx(found, rel=1e-9)
        law = dist.MultivariateNormal(mean, covariance)
        found = log_likelihood(release, law)
        assert found == pytest.approx(together.logpdf(release.value), rel=1e-9)
        known = stats.norm(mean, scale).logpdf(release.value).sum()
        assert log_likelihood(release, mean) == pytest.approx(known, rel=1e-9)


def test_counts_that_add_up_are_no_trouble():
    """Their covariance is singular; noise makes up for it, in single precision too."""
    schema = tacit.Schema(
        tacit.Categorical("kind", ["a", "b", "c"], default="a"), neighbours="replace_one"
    )
    counts, n = np.array([18_000, 31_000, 51_000]), 100_000
    release = simulated_release(schema, tacit.queries.Counts("kind"), LAPLACE, counts, n, seed=1)
    b, unit = release.noise[0].scale, np.array([0.5, 1.5, 3.0])

    def model(q):
        covariance = n * (jnp.diag(q) - jnp.outer(q, q))
        tacit.numpyro.observe("kind", release, mean=n * q, covariance=covariance)

    @jax.jit
    @jax.value_and_grad
    def log_and_gradient(q, unit):
        return log_density(model, (q,), {}, {"kind_noise": unit})[0]

    for q in (counts / n, np.array([0.18, 0.312, 0.508])):
        found, _ = log_and_gradient(jnp.asarray(q), jnp.asarray(unit))
        covariance = n * (np.diag(q) - np.outer(q, q)) + np.diag(unit * b**2)
        expected = stats.multivariate_normal(n * q, covariance).logpdf(release.value)
        expected += stats.expon(scale=2).logpdf(unit).sum()
        assert float(found) == pytest.approx(expected, abs=0.02)
    for tiny in (1e-3, 1e-12, 0.0):
        assert np.isfinite(log_and_gradient(jnp.asarray(q), jnp.full(3, tiny))[1]).all()


def test_tables_by_name_and_tables_in_a_row():
    schema = tacit.Schema(
        tacit.Categorical("ward", ["a", "b"]),
        tacit.Categorical("ill", ["no", "yes"], default="no"),
        neighbours="add_remove",
    )
    query = tacit.queries.Counts(["ward", "ill"])
    release = simulated_release(schema, query, LAPLACE, [30, 20, 5, 40, 15], 55, seed=2)
    ward, ill = np.array([28.0, 25.0, 3.0]), np.array([44.0, 12.0])
    b = release.noise[0].scale
    each = stats.laplace(np.concatenate([ward, ill]), b).logpdf(release.value)
    assert log_likelihood(release, np.concatenate([ward, ill])) == pytest.approx(each.sum(), 1e-5)
    named = {"ward": ward, "ill": ill}
    assert log_likelihood(release, named) == pytest.approx(each.sum(), rel=1e-5)
    assert log_likelihood(release, {"ill": ill}) == pytest.approx(each[3:].sum(), rel=1e-5)
    # Without the cell of missing values.
    found = log_likelihood(release, {"ward": ward[:2]})
    assert found == pytest.approx(each[:2].sum(), rel=1e-5)
    found = log_likelihood(release, mean=named, variance={"ward": 0.0, "ill": jnp.zeros(2)})
    assert found == pytest.approx(each.sum(), rel=1e-4)
    with numpyro.handlers.seed(rng_seed=0), numpyro.handlers.trace() as sites:
        tacit.numpyro.observe("y", release, named)
    assert [site for site in sites if sites[site]["is_observed"]] == ["y/ward", "y/ill"]


def test_releases_made_elsewhere_and_without_noise():
    schema = smokers().schema
    query = tacit.queries.Counts("smoker")
    values = {"no": 812.0, "yes": 193.0}
    stated = {"noise": "gaussian", "scale": 3.0}
    there = tacit.Schema(*schema.columns, neighbours="add_remove")
    release = tacit.release_from_table(values, schema=there, query=query, **stated)
    expected = stats.norm([800, 200], 3).logpdf([812, 193]).sum()
    assert log_likelihood(release, jnp.array([800.0, 200.0])) == pytest.approx(expected, rel=1e-5)
    data = {"smoker": ["yes"] * 9 + ["no"] * 31}
    exact = tacit.Public(data, schema).release(query, tacit.Exact())
    expected = stats.binom(40, 0.3).logpmf(9)
    assert log_likelihood(exact, dist.Binomial(40, 0.3)) == pytest.approx(expected, rel=1e-5)
    expected = stats.norm(12, 3).logpdf(9)
    assert log_likelihood(exact, mean=12, variance=9) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(tacit.errors.ModelError, match="no noise"):
        log_likelihood(exact, 9.0)


def test_predictions_have_the_shape_of_the_table():
    def model(release):
        tacit.numpyro.observe("y", release, dist.Poisson(jnp.full((2,), 20.0)))

    release = smokers(neighbours="add_remove")
    unseen = numpyro.handlers.uncondition(model)
    seen = numpyro.infer.Predictive(unseen, num_samples=50)(jax.random.key(0), release)["y"]
    assert seen.shape == (50, 2)
    assert float(jnp.abs(seen - jnp.round(seen)).max()) == 0  # on the grid, as noisy counts are


def refused(release, *args, match, **kwargs):
    with pytest.raises(tacit.errors.ModelError, match=match):
        log_likelihood(release, *args, **kwargs)


def test_what_is_refused_says_what_to_write():
    release = smokers()
    refused("smokers.release", 3.0, match="tacit.Release")
    refused(release, match="none of these")
    refused(release, mean=3.0, match="variance= or with covariance=")
    refused(release, 3.0, mean=3.0, match="statistic, mean")
    refused(release, jnp.array([34.0, 6.0]), match=r"shape \(1,\).*'yes'.*without \['no'\]")
    refused(release, {"sex": 3.0}, match=r"among \['smoker'\], got \['sex'\]")
    refused(release, {}, match="among")
    refused(release, mean={"smoker": 3.0}, variance=2.0, match="the same tables")
    refused(release, mean=3.0, covariance=jnp.eye(2), match=r"\(1, 1\).*got \(2, 2\)")
    refused(release, dist.Gamma(3.0), match="Gamma")
    refused(release, dist.Multinomial(40, jnp.array([0.5, 0.5])), match="covariance=")
    wide = smokers(tacit.Laplace("0.00001"))
    refused(wide, dist.Binomial(40, 0.2), match="mean= and variance=")
    draw = tacit.Public({"smoker": ["yes", "no"]}, smokers().schema).release(
        tacit.BetaBernoulli("smoker", success="yes").draw_query(
            smokers().schema, truncation=0.05, draws=1, temper_prior=False
        ),
        tacit.queries.Exponential(1),
    )
    refused(draw, 0.5, match="draws")

    def inside():
        with numpyro.plate("rows", 3):
            tacit.numpyro.observe("y", release, 3.0)

    with pytest.raises(tacit.errors.ModelError, match="outside of plates"):
        log_density(inside, (), {}, {})


def test_tacit_itself_does_not_import_jax():
    code = "import sys, tacit; sys.exit('jax' in sys.modules or 'numpyro' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""One posterior sample of a model that is known by its log-likelihood, row by row.

Statistical tests have a false-alarm rate of 1e-6.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.methods.density_sample import public_range, region_of, synthetic_rows
from tacit.methods.method import Task
from tacit.posterior import Posterior

ALARM = 1e-6


@dataclass(frozen=True)
class Rows:
    """A stand-in: any log-likelihood of one row in JAX, and a prior."""

    function: Any
    columns: tuple
    size: int
    prior: Any = None
    gradient: Any = None

    def likelihood(self, schema):
        start = np.zeros(self.size)
        gradients = self.gradient and tacit.queries.BoundedSum(
            self.gradient, self.columns, size=self.size, clip=10.0, state=start
        )
        program = tacit.queries.trace(self.function, len(self.columns), start)
        return tacit.queries.Likelihood(program, self.columns, self.size, self.prior, gradients)

    def posterior(self, release, **sampling):
        theta = release.query.parameters(release)
        assert self.size == theta.shape[1]
        labels = {"theta": {"parameter": range(self.size)}}
        return Posterior.from_draws(self, release, {"theta": theta}, labels)


# Losses as log-likelihoods, of the parameters and one row (y, x...)


def hinge(row, theta):
    return -jnp.maximum(0, 1 - (2 * row[0] - 1) * (theta[0] + theta[1] * row[1]))


def huber(row, theta):
    short = jnp.abs(row[1] - theta[0])
    return jnp.where(short < 0.5, -0.5 * short**2, -0.5 * (short - 0.25))


def absolute(row, theta):
    return -jnp.abs(row[1] - theta[0])


def line(row, theta):
    return -jnp.abs(row[1] - theta[0] - theta[1] * row[0])


SCHEMA = tacit.Schema(
    tacit.Categorical("y", ["no", "yes"]), tacit.Real("x", -2, 2), neighbours="replace_one"
)
RNG = np.random.default_rng(3)
X = np.clip(RNG.normal(0.6, 0.7, 3000), -2, 2)
Y = np.where(RNG.random(3000) < 1 / (1 + np.exp(-4 * X)), "yes", "no")
TABLE = {"y": Y, "x": X}
COLUMNS = ("y", "x")


def wall(schema=SCHEMA):
    return tacit.Wall(TABLE, schema, budget=tacit.Budget(1000, 1e-3), ledger=":memory:")


@pytest.mark.parametrize(
    ("loss", "median"), [(absolute, np.median(X)), (huber, np.mean(X))], ids=["L1", "Huber"]
)
def test_an_interval_of_one_parameter_is_drawn_from_exactly(loss, median):
    model = Rows(loss, COLUMNS, 1, prior=3.0)
    posterior = tacit.fit(model, wall(), tacit.OnePosteriorSample(2, truncation=(-2, 2)))
    release = posterior.releases[0]
    assert len(release.query.region.theta) == 1001
    assert (posterior.noise, posterior.certificate.epsilon) == ("tempered", 2)
    assert not any("float" in text for text in posterior.certificate.assumptions)
    # nothing is cut: a row at one end of the column says the most
    ends = {"absolute": 4.0, "huber": 0.5 * (4 - 0.25)}[loss.__name__]
    assert release.query.width == pytest.approx(ends, rel=1e-5)
    assert release.noise[0].scale == pytest.approx(2 * release.query.width / 2, rel=1e-9)
    assert posterior.mean()[0] == pytest.approx(median, abs=0.3)


def test_a_hinge_loss_on_a_ball_and_in_a_box():
    model = Rows(hinge, COLUMNS, 2)
    for truncation in (2.0, (-2.0, 2.0)):
        how = tacit.OnePosteriorSample(5, truncation=truncation, steps=600)
        posterior = tacit.fit(model, wall(), how)
        right = (posterior.mean()[0] + posterior.mean()[1] * X > 0) == (Y == "yes")
        assert right.mean() > 0.8
        assert any("600 steps" in text for text in posterior.certificate.assumptions)


def test_a_gradient_is_one_line():
    for loss in (hinge, line):
        model = Rows(loss, COLUMNS, 2, 5.0, jax.grad(loss, argnums=1))
        how = tacit.OnePosteriorSample(5, truncation=2.0, steps=10)
        posterior = tacit.fit(model, wall(), how)
        assert np.linalg.norm(posterior.mean()) <= 2


def test_draws_have_the_law_of_the_tempered_posterior():
    """Chi-square on tenths of the law, enumerated with NumPy."""
    model = Rows(absolute, COLUMNS, 1, prior=1.0)
    how = tacit.OnePosteriorSample(500, draws=1000, truncation=(-2, 2))
    data = {name: cells[:8] for name, cells in TABLE.items()}
    schema = tacit.Schema(*SCHEMA.columns, neighbours="add_remove")
    held = tacit.Wall(data, schema, budget=tacit.Budget(1000), ledger=":memory:")
    posterior = tacit.fit(model, held, how)
    at, temperature = np.linspace(-2, 2, 1001), posterior.releases[0].noise[0].scale
    assert temperature == pytest.approx(4.0 * 1000 / 500, rel=1e-5)
    log = -np.abs(data["x"][:, None] - at).sum(axis=0) / temperature - 0.5 * at**2
    below = np.cumsum(np.exp(log)) / np.exp(log).sum()
    edges = np.searchsorted(below, np.arange(1, 10) / 10)
    chances = np.diff(np.concatenate([[0.0], below[edges], [1.0]]))
    drawn = np.rint((posterior.flat()[:, 0] + 2) * 250).astype(int)
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=10)
    distance = ((seen - 1000 * chances) ** 2 / (1000 * chances)).sum()
    assert chi2.sf(distance, 9) > ALARM


def test_the_same_question_is_answered_once():
    held, model = wall(), Rows(absolute, COLUMNS, 1)
    how = tacit.OnePosteriorSample(1, truncation=2.0)
    first = tacit.fit(model, held, how, name="middle")
    left = held.remaining
    assert tacit.fit(model, held, how, name="middle").mean() == first.mean()
    assert held.remaining == left


# The width


def test_the_default_width_is_the_range_over_the_public_domain():
    """Logistic regression on a ball: exactly the radius times the longest row."""

    def logistic(row, theta):
        z = (2 * row[0] - 1) * (theta[0] + theta[1] * row[1]) / np.sqrt(5)
        return -jnp.log1p(jnp.exp(-z))

    with jax.enable_x64(True):
        density = Rows(logistic, COLUMNS, 2).likelihood(SCHEMA)
    assert density.kernel.dtype == "float64"
    least, most = public_range(density, tacit.queries.Ball(2, 3.0), SCHEMA)
    assert most - least == pytest.approx(3.0)
    assert least == pytest.approx(np.log(2) - np.log1p(np.exp(3)))


def test_a_given_width_is_kept_and_a_range_without_bound_asks_for_one():
    def steep(row, theta):
        return jnp.where(theta[0] > 0, -jnp.inf, 0.0)

    how = tacit.OnePosteriorSample(1, truncation=1.0)
    with pytest.raises(tacit.errors.ModelError, match="width="):
        how.query(Task(Rows(steep, COLUMNS, 1), SCHEMA))
    how = tacit.OnePosteriorSample(1, truncation=1.0, width=2)
    query = how.query(Task(Rows(steep, COLUMNS, 1), SCHEMA))
    assert query.width == 2
    query = how.query(Task(Rows(absolute, COLUMNS, 2), SCHEMA))
    assert (query.width, query.lift) == (2, pytest.approx(1.0, rel=1e-2))


def test_synthetic_rows_are_within_the_domain():
    columns = [*SCHEMA.columns, tacit.Integer("k", 3, 9)]
    rows = synthetic_rows(columns)
    assert set(rows[:, 0]) == {0.0, 1.0}
    assert (rows[:, 1].min(), rows[:, 1].max()) == (-2, 2)
    assert (rows[:, 2].min(), rows[:, 2].max()) == (3, 9)
    assert np.all(rows[:, 2] == np.floor(rows[:, 2]))
    assert len(np.unique(rows[:8], axis=0)) == 8  # all corners


# What is refused


@pytest.mark.parametrize(
    ("truncation", "size"),
    [
        (None, 1),
        (True, 2),
        (-1.0, 1),
        ((1, 0), 1),
        ((1, 0), 2),
        ("x", 1),
        (tacit.queries.Ball(3, 1), 2),
    ],
)
def test_regions_that_make_no_sense(truncation, size):
    with pytest.raises(tacit.TacitError, match="Expected"):
        region_of(truncation, size)


def test_options_that_do_not_apply():
    model = Rows(absolute, COLUMNS, 1)
    for options in ({"steps": 10}, {"temper_prior": True}):
        with pytest.raises(tacit.errors.ModelError, match="Expected"):
            tacit.fit(model, wall(), tacit.OnePosteriorSample(1, truncation=1.0, **options))
    with pytest.raises(tacit.errors.ModelError, match="draws"):
        tacit.fit(model, wall(), tacit.OnePosteriorSample(1, truncation=1.0), draws=5)
    beta = tacit.BetaBernoulli("y", success="yes")
    with pytest.raises(tacit.errors.ModelError, match="width"):
        tacit.fit(beta, wall(), tacit.OnePosteriorSample(1, truncation=0.1, width=1))
    with pytest.raises(tacit.errors.ModelError, match="OnePosteriorSample"):
        tacit.fit(model, wall(), tacit.Laplace(1))

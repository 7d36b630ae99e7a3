"""Samplers by gradients through the wall: their target, what they cost, what they refuse.

Runs whose draws are compared are seeded, noise included. They walk in six dimensions at once, which
costs what two do and shows three times as much. Means are compared with a chi-square of a chain
whose draws are worth a fiftieth of independent ones, a false-alarm rate of 1e-6 were the seeds not
fixed; the variance of all columns within a factor of 1.6, where it would be about 1e-3 (three of
its errors on the low side). A factor of 2 fails.
"""

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.methods import Hybrid, PhaseTransition, Polynomial, suits
from tacit.methods.sampler_plans import paper_multiplier
from tacit.methods.sgfs import with_squares
from tacit.posterior import Posterior
from tacit.spec.walks import Gradients, at_parameters
from tacit.subsampling import Poisson, WithoutReplacement

SAMPLERS = [tacit.SGLD, tacit.methods.SGHMC, tacit.methods.SGNHT, tacit.methods.SGFS]
LOW, HIGH, SD = -6.0, 6.0, 1.0


class Means:
    """Means of normal columns of known variance 1, under a standard normal prior."""

    def __init__(self, *columns, clip=4.0):
        self.columns, self.clip = columns, clip

    def gradients(self, schema):
        size = len(self.columns)
        return Gradients(
            question=tacit.queries.BoundedSum(
                lambda row, theta: row - theta,
                self.columns,
                size=size,
                clip=self.clip * math.sqrt(size),
                state=np.zeros(size),
            ),
            log_prior_gradient=lambda theta: -theta,
            start=np.zeros(size),
            curvature=1.0,
            prior_precision=1.0,
            posterior=self._walked,
            parameters=lambda posterior: np.atleast_1d(posterior.mean("mean")),
        )

    def _walked(self, release, theta):
        return Posterior(
            draws={"mean": theta},
            dims={"mean": ("column",)},
            coords={"column": self.columns},
            model={"model": "Means"},
            releases=(release,),
            noise="tempered",
        )


def schema(neighbours="replace_one", columns="ab", **options):
    bounded = (tacit.Real(name, LOW, HIGH) for name in columns)
    return tacit.Schema(*bounded, neighbours=neighbours, **options)


def table(n=400, columns="ab"):
    rng = np.random.default_rng(3)
    return {name: rng.normal((-1) ** i / 2, SD, n) for i, name in enumerate(columns)}


def wall(budget=(1000, 1e-2), neighbours="replace_one", n=400, **options):
    return tacit.Wall(
        table(n), schema(neighbours, **options), budget=tacit.Budget(*budget), ledger=":memory:"
    )


MODEL = Means("a", "b")
SIX = "abcdef"


def walked(how, n=400):
    """Draws of the means of six columns."""
    public = tacit.Public(table(n, SIX), schema(columns=SIX), seed=1)
    return tacit.fit(Means(*SIX), public, how, seed=2)


def check(posterior, n=400, worth=0.02, temperature=1.0):
    """Draws are worth `worth` of independent ones."""
    data = np.column_stack(list(table(n, SIX).values()))
    draws, variance = posterior.flat("mean"), temperature / (n + 1)
    off = draws - data.sum(axis=0) / (n + 1)
    assert worth * len(draws) * (off.mean(axis=0) ** 2).sum() / variance < chi2.isf(1e-6, len(SIX))
    assert variance / 1.6 < draws.var(axis=0).mean() < 1.6 * variance


# The target


# All records at once are what a temperature, below, is tried on.
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("rate", [pytest.param(1.0, marks=pytest.mark.slow), 0.5])
@pytest.mark.no_cover
def test_at_a_large_epsilon_the_draws_are_the_posteriors(sampler, rate):
    posterior = walked(sampler(490, 1e-6, steps=2000, sampling=Poisson(rate)))
    assert posterior.draws["mean"].shape == (1, 1000, 6)
    assert not any("hotter" in text for text in posterior.certificate.assumptions)
    check(posterior)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.no_cover
def test_privacy_noise_is_part_of_the_noise(sampler):
    """At this epsilon it is all of it, or nearly; added to the sampler's own it would double it."""
    posterior = walked(sampler(45, 1e-6, steps=3300, temperature=1.0), 1000)
    assert posterior.releases[0].noise[0].scale ** 2 > 0.9 * 4 * 1000 / 0.2
    check(posterior, 1000)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.no_cover
def test_a_temperature_widens_the_draws(sampler):
    check(walked(sampler(490, 1e-6, steps=2000, temperature=4.0)), temperature=4.0)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_small_epsilon_tempers_and_says_so(sampler):
    posterior = tacit.fit(MODEL, wall(), sampler(0.3, 1e-6, steps=200), seed=1)
    assert any("tempered the draws" in a for a in posterior.certificate.assumptions)
    assert np.all(np.isfinite(posterior.summary()))
    assert posterior.flat("mean").std() > 3 / math.sqrt(400)


@pytest.mark.no_cover
def test_draws_do_not_depend_on_the_unit_of_length():
    """A thermostat of mass 1 would adapt a hundred times too slowly here."""
    how = tacit.methods.SGNHT(490, 1e-6, steps=2000, sampling=Poisson(0.05))
    check(walked(how, 40_000), 40_000)


# Schedules


SCHEDULES = (
    tacit.methods.Constant(1e-4),
    1.5e-4,
    tacit.methods.Polynomial(1e-3, 10, 0.33),
    tacit.methods.PhaseTransition(0.2),
)
SCHEDULED = (tacit.SGLD, tacit.methods.SGHMC, tacit.methods.SGNHT)


# Each schedule with one sampler and each sampler with a schedule; the other pairs are slow.
@pytest.mark.parametrize(
    ("sampler", "schedule"),
    [
        pytest.param(sampler, schedule, marks=[] if j % 3 == i else pytest.mark.slow)
        for i, sampler in enumerate(SCHEDULED)
        for j, schedule in enumerate(SCHEDULES)
    ],
    ids=str,
)
@pytest.mark.no_cover
def test_every_schedule_reaches_the_posterior(sampler, schedule):
    check(walked(sampler(490, 1e-6, steps=2000, step_size=schedule)), worth=0.005)


def test_the_phase_transition_is_where_the_noises_meet():
    sizes = PhaseTransition(0.25).sizes(1000, noise_limited=1e-3, stable=1.0)
    assert np.flatnonzero(sizes <= 1e-3 * (1 + 1e-12))[0] + 1 == 250
    np.testing.assert_allclose(sizes[499], 5e-4)
    assert PhaseTransition(0.25).sizes(1000, 1e-3, 2e-3).max() == 2e-3
    assert Polynomial(2.0, 1, 0.5).sizes(3, 0, 0)[2] == pytest.approx(1.0)


def test_long_steps_count_for_more():
    """A walk at even intervals of its own time, so that means are weighted by step sizes."""
    how = tacit.SGLD(490, 1e-6, steps=100, step_size=tacit.methods.Polynomial(1e-3, 0, 1.0))
    draws = tacit.fit(MODEL, tacit.Public(table(), schema(), seed=1), how, seed=2).flat("mean")
    assert len(draws) == 50
    assert len(np.unique(draws[:, 0])) < 50  # the long steps stand there twice


# What it costs


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_a_walk_costs_what_it_says(sampler, neighbours):
    behind = wall((1, 1e-5), neighbours, max_units=500)
    how = sampler(0.8, 1e-6, steps=20, sampling=Poisson(0.3))
    posterior = tacit.fit(MODEL, behind, how)
    certificate = posterior.certificate
    assert 0.79 < certificate.epsilon <= how.epsilon
    assert certificate.delta == how.delta
    assert tacit.Budget(1, 1e-5).epsilon - behind.remaining.epsilon == certificate.epsilon
    assert certificate.events[0]["steps"] == 20


def test_blocks_are_paid_one_by_one_and_add_up():
    behind = wall((1, 1e-5))
    posterior = tacit.fit(MODEL, behind, tacit.SGLD(0.8, 1e-6, steps=20, blocks=4))
    certificate = posterior.certificate
    assert len(certificate.events) == 4
    assert 0.79 < certificate.epsilon <= tacit.Budget("0.8").epsilon
    assert 1 - behind.remaining.epsilon == certificate.epsilon
    assert "4 payments" in certificate.accountant


class Interrupted:
    """A wall whose user presses Ctrl-C in the middle of a walk."""

    def __init__(self, inner, after):
        self.inner, self.left = inner, after
        self.schema, self.quote = inner.schema, inner.quote

    remaining = property(lambda self: self.inner.remaining)

    def prepay(self, plan, *, name=None):
        self.lease = self.inner.prepay(plan, name=name)
        self.certificate = self.lease.certificate
        return self

    steps_left = property(lambda self: self.lease.steps_left)

    def release(self, query):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return self.lease.release(query)


def test_an_interrupted_walk_has_paid_for_what_it_began():
    behind = wall((1, 1e-5))
    how = tacit.SGLD(0.8, 1e-6, steps=20, blocks=4)
    posterior = tacit.fit(MODEL, Interrupted(behind, after=7), how)
    assert posterior.draws["mean"].shape == (1, 4, 2)
    assert 0.39 < posterior.certificate.epsilon <= tacit.Budget("0.4").epsilon
    assert 1 - behind.remaining.epsilon == posterior.certificate.epsilon
    assert any("interrupted" in text for text in posterior.certificate.assumptions)


def test_an_interruption_before_a_block_is_complete_is_one():
    behind = wall((1, 1e-5))
    with pytest.raises(KeyboardInterrupt):
        tacit.fit(MODEL, Interrupted(behind, after=4), tacit.SGLD(0.8, 1e-6, steps=20, blocks=4))


def test_the_noise_of_the_paper_is_for_public_data():
    # 32,561 records in batches of 180, 32,641 steps, epsilon 1
    assert paper_multiplier(1, 1e-5, 32641) * 180 / 32561 == pytest.approx(188.6, rel=1e-3)
    how = tacit.SGLD(1, 1e-5, steps=20, constants="paper")
    with pytest.raises(tacit.errors.BudgetError, match="Public alone"):
        tacit.fit(MODEL, wall(), how)
    posterior = tacit.fit(MODEL, tacit.Public(table(), schema()), how)
    scale = posterior.releases[0].noise[0].scale
    assert scale == pytest.approx(paper_multiplier(1, 1e-5, 20) * 4 * math.sqrt(2), rel=1e-6)


def test_the_certificate_has_both_routes_and_claims_one():
    posterior = tacit.fit(MODEL, wall(), tacit.SGLD(0.8, 1e-6, steps=20))
    texts = posterior.certificate.assumptions
    assert any("whether or not the chain had converged" in text for text in texts)
    (other,) = (text for text in texts if "not claimed" in text)
    assert "epsilon" in other


# Fisher scoring


def test_squares_of_a_program_and_of_a_kernel():
    """Of x - theta, and of a logistic regression's gradient (y - p) x."""
    theta = np.array([0.25, -1.0])
    rows = np.column_stack([table()[c] for c in "ab"])
    program = tacit.queries.trace(lambda row, state: row - state, 2, theta)
    found = [_with_squares(program, ("a", "b"), schema(), table(), (theta,))]
    gradients = [rows - theta]
    ill = np.where(rows[:, 1] > 0, "yes", "no")
    described = tacit.Schema(
        tacit.Real("a", LOW, HIGH),
        tacit.Categorical("ill", ["no", "yes"]),
        neighbours="replace_one",
    )
    model = tacit.LogisticRegression("ill", "a")
    question = at_parameters(model.gradients(described).question, theta)
    data = {"a": rows[:, 0], "ill": ill}
    found.append(_with_squares(question.kernel, question.columns, described, data, question.state))
    x = model.design(described).rows(rows[:, :1])
    gradients.append(((ill == "yes") - 1 / (1 + np.exp(-x @ theta)))[:, None] * x)
    for value, gradient in zip(found, gradients, strict=True):
        both = gradient.T @ gradient
        expected = [*gradient.sum(axis=0), both[0, 0], math.sqrt(2) * both[0, 1], both[1, 1]]
        room = len(rows) * np.repeat([50.0, 2500.0], [2, 3]) * 2.0**-22  # rounded towards zero
        np.testing.assert_array_less(np.abs(value - expected), room + 1e-5)


def _with_squares(gradient, columns, described, data, state):
    blocks = {"sum": tacit.queries.Bound(2, 50.0), "squares": tacit.queries.Bound(3, 2500.0)}
    query = tacit.queries.BoundedSum(with_squares(gradient, 2), columns, blocks=blocks, state=state)
    return tacit.Public(data, described).release(query, tacit.Exact()).value


def test_a_kernel_without_squares_is_refused_by_fisher_scoring():
    with pytest.raises(tacit.errors.ModelError, match=r"columns\.values_and_squares"):
        with_squares(tacit.queries.Kernel("columns.values"), 2)


def test_other_parameters_keep_the_rest_of_the_state_and_the_precision():
    described = tacit.Schema(
        tacit.Real("a", LOW, HIGH),
        tacit.Categorical("ill", ["no", "yes"]),
        neighbours="replace_one",
    )
    question = tacit.LogisticRegression("ill", "a").gradients(described).question
    theta = np.array([0.1, 0.2])
    first, *rest = at_parameters(question, theta).state
    assert first.dtype == np.float64
    assert np.array_equal(first, theta)
    assert all(a is not b and np.array_equal(a, b) for a, b in zip(rest, question.state[1:]))
    (single,) = at_parameters(MODEL.gradients(schema()).question, theta).state
    assert single.dtype == np.float32


def test_scoring_noise_is_for_both_blocks():
    posterior = tacit.fit(MODEL, wall(), tacit.methods.SGFS(0.8, 1e-6, steps=20))
    first, second = posterior.releases[0].noise
    clip = 4 * math.sqrt(2)
    # outer products that are replaced move by the root of 2 of their norm, gradients by 2
    assert second.scale / first.scale == pytest.approx(clip / math.sqrt(2), rel=1e-6)
    alone = tacit.fit(MODEL, wall(), tacit.SGLD(0.8, 1e-6, steps=20)).releases[0].noise[0]
    assert first.scale / alone.scale == pytest.approx(math.sqrt(2), rel=1e-4)


def test_a_batch_may_have_a_fixed_size():
    behind = wall((2, 1e-5))
    how = tacit.SGLD(0.8, 1e-6, steps=20, sampling=WithoutReplacement(100, 400))
    posterior = tacit.fit(MODEL, behind, how, seed=1)
    assert 0.79 < posterior.certificate.epsilon <= tacit.Budget("0.8").epsilon
    assert posterior.certificate.events[0]["sampling"]["type"] == "WithoutReplacement"
    assert tacit.SGLD(1, 1e-6, sampling=Poisson(1.0)).sampling == tacit.SGLD(1, 1e-6).sampling


# Hybrid


class Mean(Means):
    """A model that can also be drawn from."""

    def __init__(self):
        super().__init__("a")
        self.normal = tacit.NormalMean("a", sd=SD, prior=(0, 1))

    def draw_query(self, schema, **options):
        return self.normal.draw_query(schema, **options)

    def posterior(self, release, **sampling):
        return self.normal.posterior(release, **sampling)


def test_a_hybrid_begins_at_a_posterior_sample():
    how = tacit.methods.Hybrid(tacit.OnePosteriorSample(0.5), tacit.SGLD(0.5, 1e-6, steps=10))
    behind = wall((2, 1e-5))
    posterior = tacit.fit(Mean(), behind, how, seed=1)
    certificate = posterior.certificate
    assert 0.99 < certificate.epsilon <= how.epsilon == 1
    assert 2 - behind.remaining.epsilon == certificate.epsilon
    assert len(certificate.events) == 2
    assert "for the start" in certificate.accountant


def test_a_hybrid_needs_no_time_to_arrive():
    """Steps so short that from zero it would not get there."""
    short = tacit.SGLD(400, 1e-6, steps=100, step_size=1e-6)
    how = tacit.methods.Hybrid(tacit.OnePosteriorSample(50), short)
    data = {"a": np.full(400, 3.0), "b": np.zeros(400)}
    public = tacit.Public(data, schema(), seed=1)
    assert tacit.fit(Mean(), public, how, seed=1).mean("mean")[0] == pytest.approx(3, abs=0.5)
    assert tacit.fit(Mean(), public, short, seed=1).mean("mean")[0] < 0.5


def test_who_can_be_fitted_how():
    assert suits(tacit.SGLD, MODEL)
    assert not suits(Hybrid, MODEL)
    assert suits(Hybrid, Mean())
    with pytest.raises(tacit.errors.ModelError, match=r"methods\.SGFS, tacit.methods.SGHMC"):
        tacit.fit(MODEL, wall(), tacit.Laplace(1))
    with pytest.raises(tacit.errors.ModelError, match="no initial="):
        tacit.methods.Hybrid(tacit.OnePosteriorSample(1), tacit.SGLD(1, 1e-6, initial=[1.0]))


# What is refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delta": 0}, "Expected a delta"),
        ({"epsilon": None}, "Expected epsilon"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 10, "blocks": 3}, "multiple of blocks=3"),
        ({"sampling": 0.5}, "Expected sampling to be"),
        ({"step_size": -1.0}, "step_size=-1.0"),
        ({"step_size": "long"}, "step_size as a number"),
        ({"clip": 0}, "clip=0"),
        ({"temperature": -1}, "temperature=-1"),
        ({"n_units": 0}, "n_units=0"),
        ({"constants": "mine"}, "constants='mine'"),
    ],
    ids=str,
)
def test_bad_options_are_refused_in_a_sentence(options, says):
    with pytest.raises(tacit.TacitError, match=says):
        tacit.SGLD(**{"epsilon": 1, "delta": 1e-6, **options})


@pytest.mark.parametrize("sampler", [tacit.methods.SGHMC, tacit.methods.SGNHT])
def test_friction_is_a_share(sampler):
    with pytest.raises(tacit.errors.ModelError, match="friction=1"):
        sampler(1, 1e-6, friction=1)


def test_nothing_is_charged_for_what_is_refused():
    behind = wall((1, 1e-5), "add_remove")
    before = behind.remaining
    for refused, options in (
        (tacit.SGLD(0.5, 1e-6, steps=10), {}),  # how many units?
        (tacit.SGLD(0.5, 1e-6, steps=10, n_units=400, initial=[1.0]), {}),
        (tacit.SGLD(0.5, 1e-6, steps=10, n_units=400), {"draws": 10}),
    ):
        with pytest.raises(tacit.errors.ModelError):
            tacit.fit(MODEL, behind, refused, **options)
    assert behind.remaining == before
    tacit.fit(MODEL, behind, tacit.SGLD(0.5, 1e-6, steps=10, n_units=400))


@pytest.mark.parametrize("sampler", [tacit.SGLD, tacit.methods.SGHMC, tacit.methods.SGNHT])
def test_a_walk_that_runs_away_says_what_was_charged(sampler):
    behind = wall((1, 1e-5))
    with pytest.raises(tacit.errors.ModelError, match=r"diverged at step \d+: .* Epsilon 0\.[45]"):
        tacit.fit(MODEL, behind, sampler(0.5, 1e-6, steps=200, step_size=1e3))
    assert behind.remaining.epsilon < tacit.Budget("0.6").epsilon


def test_jax_is_not_imported_with_the_library():
    code = (
        "import sys, tacit; tacit.SGLD(1, 1e-6); tacit.LogDensity(len, x='a', parameters={'a': ()})"
        "; print([m for m in ('jax', 'numpyro', 'blackjax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

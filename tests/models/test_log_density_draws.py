"""One posterior sample of a model given by a loss: on points exactly, on a region by a chain."""

import jax.numpy as jnp
import numpy as np
import pytest

import tacit

SCHEMA = tacit.Schema(tacit.Real("x", -1, 1), tacit.Real("y", -3, 3), neighbours="replace_one")
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, 2000)
DATA = {"x": X, "y": np.clip(1.5 * X - 0.5 + 0.3 * RNG.standard_t(2, 2000), -3, 3)}


def huber(parameters, x, y):
    off = jnp.abs(y - parameters["slope"] * x[0] - parameters["intercept"])
    return -4 * jnp.where(off < 0.5, off**2 / 2, 0.5 * off - 0.125)


def absolute(parameters, x, y):
    return -2 * jnp.abs(y - parameters["level"])


LINE = tacit.LogDensity(huber, x="x", y="y", parameters={"slope": (), "intercept": ()})
LEVEL = tacit.LogDensity(absolute, x="x", y="y", parameters={"level": ()}, prior_scale=3.0)


def draw(model, how):
    wall = tacit.Wall(DATA, SCHEMA, budget=tacit.Budget(100, 1e-3), ledger=":memory:")
    return tacit.fit(model, wall, how)


def test_one_parameter_is_drawn_from_exactly():
    posterior = draw(LEVEL, tacit.OnePosteriorSample(5, draws=3, truncation=(-3.0, 3.0)))
    assert posterior.draws["level"].shape == (1, 3)
    assert np.all(np.abs(posterior.flat("level") - np.median(DATA["y"])) < 0.5)
    assert posterior.certificate.epsilon <= 5
    assert posterior.noise == "tempered"
    assert not any("converge" in each for each in posterior.certificate.assumptions)


def test_several_parameters_by_a_chain_that_is_assumed_to_have_converged():
    posterior = draw(LINE, tacit.OnePosteriorSample(8, truncation=3.0, steps=60))
    assert abs(posterior.mean("slope") - 1.5) < 0.6
    assert abs(posterior.mean("intercept") + 0.5) < 0.6
    assert any("converge" in each for each in posterior.certificate.assumptions)


def test_a_sample_begins_a_walk():
    how = tacit.methods.Hybrid(
        tacit.OnePosteriorSample(5, truncation=3.0, steps=40),
        tacit.methods.SGNHT(5, 1e-6, steps=100),
    )
    posterior = draw(LINE, how)
    assert posterior.certificate.epsilon <= 10
    assert abs(posterior.mean("slope") - 1.5) < 0.6


@pytest.mark.parametrize("truncation", [None, (-np.inf, np.inf)])
def test_a_region_is_needed(truncation):
    with pytest.raises(tacit.TacitError, match=r"truncation|within 1e6"):
        draw(LINE, tacit.OnePosteriorSample(1, truncation=truncation))

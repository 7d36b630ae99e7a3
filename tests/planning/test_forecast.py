"""What is expected of a fit before any data: against formulas, and in words where it cannot be."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

import tacit

SCHEMA = tacit.Schema(
    tacit.Categorical("ill", ["no", "yes"], default="no"),
    tacit.Real("age", 18, 90),
    tacit.Integer("visits", 0, 30),
    neighbours="replace_one",
)
ILL = tacit.BetaBernoulli("ill", success="yes")
GUESS = {"ill": {"no": 0.9, "yes": 0.1}}


GAUSSIAN = tacit.Gaussian(0.5, 1e-6)  # its posterior is normal, so that a formula has its width


def planned(model=ILL, how=GAUSSIAN, n_units=4000):
    return tacit.plan(model, SCHEMA, how, n_units=n_units)


def half_width(n, epsilon):
    """Of a 90% interval of a share of .1."""
    sd = 0.0
    if math.isfinite(epsilon):
        sd = planned(how=tacit.Gaussian(epsilon, 1e-6)).noise["Counts"]
    # One noisy count: the other follows, as the number of units is public.
    return norm.isf(0.05) * math.sqrt(0.1 * 0.9 / n + (sd / n) ** 2)


def test_widths_are_those_of_the_formula():
    found = planned().forecast(guess=GUESS, epsilons=[0.05, 1], repeats=4)
    assert found.quantities == ("p",)
    for epsilon, width in found.half_widths().items():
        assert width == pytest.approx(half_width(4000, epsilon), rel=0.1)
    # Errors are about the width of an interval; four tables cannot say more.
    assert (found.table["error"] < 4 * found.table["half_width"]).all()
    assert "4,000 units" in str(found)
    assert "coverage" not in str(found)  # of four tables it would say nothing
    assert "coverage" in str(replace(found, repeats=100))
    assert "guesses of ill" in str(found)
    axes = found.plot(Figure().subplots())
    assert len(axes.lines) == 2  # one quantity, and what it would be without noise
    assert axes.get_ylim()[0] == 0


def test_epsilon_for_a_width_gives_that_width():
    plan = planned()
    epsilon = plan.epsilon_for(0.02, guess=GUESS, repeats=3)
    assert half_width(4000, epsilon) == pytest.approx(0.02, rel=0.15)
    with pytest.raises(tacit.TacitError, match="want of data"):
        plan.epsilon_for(0.001, guess=GUESS, repeats=2)
    with pytest.raises(tacit.TacitError, match="No quantity 'q'; there are p"):
        plan.epsilon_for(0.02, "q", guess=GUESS, repeats=2)


def test_numbers_are_guessed_by_mean_and_sd_or_by_rows():
    model = tacit.NormalModel("age")
    rows = pd.DataFrame({"age": np.random.default_rng(0).normal(50, 10, 3000)})
    for guess in ({"age": {"mean": 50, "sd": 10}}, rows):
        found = planned(model).forecast(guess=guess, epsilons=[5], repeats=3)
        widths = found.table["half_width"].loc[math.inf]
        assert widths["mean"] == pytest.approx(norm.isf(0.05) * 10 / math.sqrt(4000), rel=0.1)
        assert found.quantities == ("mean", "sd")
    counts = planned(tacit.GammaPoisson("visits"), n_units=500).forecast(
        guess={"visits": 3}, epsilons=[5], repeats=2
    )
    wanted = norm.isf(0.05) * math.sqrt(3 / 500)
    assert counts.half_widths()[math.inf] == pytest.approx(wanted, rel=0.1)


def test_without_a_guess_the_prior_is_said_to_be_one():
    found = planned(n_units=200).forecast(epsilons=[1], repeats=2)
    assert found.assumptions == ("nothing about ill: drawn anew for each table, independent",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"guess": {"sick": 1}}, "No column 'sick' to guess"),
        ({"guess": {"ill": {"maybe": 1.0}}}, "No level 'maybe'"),
        ({"guess": {"ill": {"no": 0.5}}}, "sum to 1"),
        ({"guess": {"ill": [0.5]}}, "sum to 1"),
        ({"guess": {**GUESS, "age": {"mode": 3}}}, "such as {'mean': 50, 'sd': 15}"),
        ({"guess": {**GUESS, "age": 500}}, "within its bounds"),
        ({"guess": pd.DataFrame({"age": [40]})}, "Expected a column 'ill'"),
        ({"n_units": None}, "Expected n_units="),
        ({"repeats": 1}, "repeats=1 to be a whole number from 2"),
        ({"n_units": -5}, "n_units=-5 to be a whole number from 1"),
    ],
)
def test_what_cannot_be_guessed_is_said(options, says):
    with pytest.raises(tacit.TacitError, match=says):
        planned().forecast(**{"repeats": 2, "epsilons": [1], **options})


def test_models_with_hidden_states_and_other_ways_to_spend_are_refused():
    hidden = tacit.plan(
        tacit.GaussianMixture(2, ["age"]), SCHEMA, tacit.Budget(1, 1e-6), n_units=500
    )
    with pytest.raises(tacit.TacitError, match="only its cost"):
        hidden.forecast()
    with pytest.raises(tacit.TacitError, match="says its epsilon"):
        planned(how=tacit.Gaussian(noise_multiplier=2, delta=1e-6)).forecast(guess=GUESS, repeats=2)

"""No audit exceeds its claim and every broken twin is caught. False-alarm rate: 1e-5 a game.

Games that take seconds are played once for each family of mechanisms; its further relations and
mistakes are marked slow, and `make audit` plays all of them at full size.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import audit
from tacit.cli import app

# All games by name: collecting tests should not wait until they are built.
TITLES = (
    "counts, Laplace, add_remove: half the noise",
    "counts, Laplace, replace_one: sensitivity of add_remove",
    "counts, Gaussian, add_remove: half the noise",
    "counts, Gaussian, replace_one: half the noise",
    "counts, three rows a unit, add_remove: noise for one row a unit",
    "sum, Laplace, replace_one: sensitivity of add_remove",
    "sum, Gaussian, free, add_remove: half the noise",
    "sum, Gaussian, free, replace_one: sensitivity of add_remove",
    "sum, Gaussian, nonnegative, replace_one: the square root of 2 forgotten",
    "sum, Gaussian, outer products, replace_one: the square root of 2 forgotten",
    "sum, Gaussian, three rows a unit, add_remove: rows clipped, not units",
    "moments, Laplace, add_remove: half the noise",
    "moments, Laplace, replace_one: half the noise",
    "moments of two columns, Laplace, replace_one: half the noise",
    "moments, Laplace, replace_one: sensitivity of add_remove",
    "moments, Gaussian, replace_one: half the noise",
    "moments, Gaussian, replace_one: sensitivity of add_remove",
    "5 steps, Poisson, add_remove: everyone takes part",
    "5 steps, Poisson, free, replace_one: half the noise",
    "5 steps, Poisson, nonnegative, replace_one: half the noise",
    "5 steps, Poisson, outer products, replace_one: half the noise",
    "5 steps, fixed size, replace_one: half the noise",
    "5 steps, Poisson, replace_one: fixed size at the price of Poisson",
    "a step of VIPS, topics, replace_one: the paper's sensitivity, too small by the root of 2",
    "a pilot query of VIPS, pairs of words, replace_one: "
    "the paper's sensitivity, too small by the root of 2",
    "5 steps of VIPS, topics, Poisson, add_remove: half the noise",
    "a step of VIPS, belief network, replace_one: half the noise",
    "draw of coefficients, add_remove: half the temperature",
    "draw of coefficients, replace_one: half the temperature",
    "Langevin draw of a logistic regression, add_remove: a fifth of the temperature",
    "Langevin draw of a logistic regression, replace_one: a fifth of the temperature",
    "objective perturbation, replace_one: a fifth of the noise",
    "objective perturbation, add_remove: hardly any regularizer",
    "output perturbation, add_remove: noise for the mean of the losses",
    "output perturbation, replace_one: noise for a row more or less",
    "draw of a mean, add_remove: half the temperature",
    "draw of a mean, replace_one: half the temperature",
    "draw of a mean without bounds, replace_one: half the temperature",
    "Beta draw, add_remove: half the temperature",
    "Beta draw, replace_one: temperature of add_remove",
    "Dirichlet draw, add_remove: half the temperature",
    "Dirichlet draw, replace_one: temperature of add_remove",
    "draw of a network's tables, add_remove: half the temperature",
    "draw of a network's tables, replace_one: temperature of add_remove",
    "draw of a mean and an sd, add_remove: half the temperature",
    "draw of a mean and an sd, replace_one: temperature of add_remove",
    "draw of a rate of counts, add_remove: half the temperature",
    "draw of a rate of counts, replace_one: half the temperature",
    "draw of a rate of waits, add_remove: half the temperature",
    "draw of a rate of waits, replace_one: half the temperature",
    "choice, add_remove: half the temperature",
    "choice, replace_one: temperature of add_remove",
    "choice among annealed runs, two rows a unit, replace_one: temperature of add_remove",
    "Barker step, add_remove: Metropolis's rule in its place",
    "draw among points, replace_one: temperature of add_remove",
    "draw among points, add_remove: width not enforced",
    "chain of a log-likelihood, its target, replace_one: temperature of add_remove",
    "chain of a log-likelihood, its target, add_remove: width not enforced",
    "paths of hidden states, add_remove: half the temperature",
    "paths of hidden states, replace_one: temperature of add_remove",
    "paths of hidden states, two rows a unit, replace_one: temperature of one row a unit",
    "profiles of hidden states, add_remove: range of one emission of two",
    "profiles of hidden states, replace_one: temperature of add_remove",
    "chain of hidden states, its target, add_remove: half the temperature",
    "chain of hidden states, its target, replace_one: half the temperature",
    "tables of latent classes, add_remove: range of one table of two",
    "tables of latent classes, replace_one: temperature of add_remove",
    "tables of latent classes, two rows a unit, replace_one: temperature of one row a unit",
)
# Beside each of them another game of its family stays: the same code under the other relation, or
# with another mistake.
FURTHER = {
    "moments, Gaussian, replace_one: sensitivity of add_remove",
    "5 steps, Poisson, free, replace_one: half the noise",
    "5 steps, Poisson, nonnegative, replace_one: half the noise",
    "5 steps, Poisson, replace_one: fixed size at the price of Poisson",
    "Langevin draw of a logistic regression, add_remove: a fifth of the temperature",
    "objective perturbation, add_remove: hardly any regularizer",
    "output perturbation, add_remove: noise for the mean of the losses",
    "chain of a log-likelihood, its target, replace_one: temperature of add_remove",
    "chain of hidden states, its target, add_remove: half the temperature",
    "tables of latent classes, add_remove: range of one table of two",
    "tables of latent classes, two rows a unit, replace_one: temperature of one row a unit",
}


# Caught with 5 standard deviations to spare at so many runs; all others are played 4,000 times.
# The steps of VIPS are played `pace` times as often.
RUNS = {
    "moments, Gaussian, replace_one: half the noise": 500,
    "5 steps, Poisson, add_remove: everyone takes part": 1_000,
    "5 steps, fixed size, replace_one: half the noise": 2_500,
    "a step of VIPS, topics, replace_one: "
    "the paper's sensitivity, too small by the root of 2": 3_000,
    "a pilot query of VIPS, pairs of words, replace_one: "
    "the paper's sensitivity, too small by the root of 2": 3_000,
    "5 steps of VIPS, topics, Poisson, add_remove: half the noise": 3_000,
    "a step of VIPS, belief network, replace_one: half the noise": 1_000,
    "objective perturbation, replace_one: a fifth of the noise": 2_000,
}


@cache
def games():
    return {f"{game.name}: {game.mistake}": game for game in audit.games()}


def marks(title):
    """Thousands of runs of the wall's own code, which other tests trace."""
    long = title.startswith(("5 steps", "a step of", "a pilot query of", "Langevin", "objective"))
    return [*[pytest.mark.slow] * (title in FURTHER), *[pytest.mark.no_cover] * long]


@pytest.mark.parametrize("title", [pytest.param(t, marks=marks(t)) for t in TITLES])
def test_the_claim_holds_and_the_twin_is_caught(title):
    game = games()[title]
    verdict = audit.play(game, runs=RUNS.get(title, 4_000))
    assert verdict.passed, f"{verdict.bound} > {game.epsilon}"
    assert verdict.caught, f"{verdict.twin} <= {game.epsilon}"
    if game.exact:
        # The worst data set of a draw nearly attains the claim. Computed, not sampled: false
        # alarms come from the test of the draws alone, 1e-6.
        assert verdict.bound > 0.95 * game.epsilon


def test_every_game_is_listed():
    assert tuple(games()) == TITLES
    assert len(games()) == len(audit.games())
    assert set(TITLES) > FURTHER
    assert set(TITLES) > set(RUNS)


def test_the_auditor_finds_most_of_a_known_epsilon_and_never_more():
    """Laplace noise at epsilon 1: about .8 at 10^4 runs; a hundred honest audits raise no alarm."""
    rng = np.random.default_rng(5)
    found = [
        audit.lower_bound(rng.laplace(0, 1, 4_000), rng.laplace(1, 1, 4_000), 0.0)
        for _ in range(100)
    ]
    assert max(found) <= 1
    large = audit.lower_bound(rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000), 0.0)
    assert 0.75 < large <= 1
    half = audit.lower_bound(rng.laplace(0, 0.5, 4_000), rng.laplace(1, 0.5, 4_000), 0.0)
    assert half > 1


def test_the_auditor_subtracts_delta_and_looks_both_ways():
    rng = np.random.default_rng(6)
    # One outcome in twenty gives the second data set away: delta 0.05 allows it, 0.01 does not.
    here = rng.random(8_000)
    there = np.where(rng.random(8_000) < 0.05, 2.0, rng.random(8_000))
    assert audit.lower_bound(here, there, 0.06) == 0
    assert audit.lower_bound(here, there, 0.01) > 1
    assert audit.lower_bound(-there, -here, 0.01) > 1
    assert audit.lower_bound(there, here, 0.01) < 0.2  # the order says which score is which


def test_every_kind_of_mechanism_is_audited():
    names = " ".join(TITLES)
    for kind in (
        "counts",
        "sum",
        "moments",
        "steps",
        "VIPS",
        "Langevin",
        "objective perturbation",
        "output perturbation",
        "Laplace",
        "Gaussian",
        "Poisson",
        "fixed size",
        "Beta",
        "Dirichlet",
        "mean",
        "coefficients",
    ):
        assert kind in names
    for relation in ("replace_one", "add_remove"):
        assert relation in names


def test_the_command_prints_and_writes(tmp_path, monkeypatch):
    some = list(games().values())[:2]
    monkeypatch.setattr(audit, "games", lambda: some)
    report = tmp_path / "audit.md"
    result = CliRunner().invoke(app, ["audit", "--runs", "1000", "-o", str(report)])
    assert result.exit_code == 0, result.output
    assert "holds" in result.output
    assert "caught" in result.output
    assert "half the noise" in report.read_text()
    broken = replace(some[0], epsilon=0.1)
    monkeypatch.setattr(audit, "games", lambda: [broken])
    assert CliRunner().invoke(app, ["audit", "--runs", "1000"]).exit_code == 1
    assert CliRunner().invoke(app, ["audit", "--runs", "3"]).exit_code != 0

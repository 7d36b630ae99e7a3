"""Audits of choices, log-likelihoods and hidden states see what they should. Alarms: 1e-6."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tacit.audit.choices import choice_games
from tacit.audit.densities import density_games
from tacit.audit.exact import Outcomes, chi_square
from tacit.audit.game import ALARM
from tacit.audit.hidden_states import state_games
from tacit.draws.choice import ChoiceAnswer
from tacit.draws.density import DensityAnswer
from tacit.draws.states import StatesAnswer


@cache
def games():
    """Not while tests are collected: some compile a map."""
    return [*choice_games(), *density_games(), *state_games()]


def test_every_new_mechanism_is_audited():
    names = " ".join(game.name for game in games())
    for kind in (
        "choice",
        "annealed",
        "Barker",
        "paths",
        "profiles",
        "chain",
        "points",
        "two rows a unit",
    ):
        assert kind in names
    assert {"add_remove", "replace_one"} <= {game.name.split(", ")[-1] for game in games()}


def test_a_metropolis_rule_gives_itself_away_for_good():
    (game,) = [game for game in games() if "Barker" in game.name]
    assert game.shown(game.broken, 100) == np.inf


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ChoiceAnswer, "choice, replace_one"),
        (StatesAnswer, "paths of hidden states, rep"),
        (ChoiceAnswer, "draw among points, rep"),
        (DensityAnswer, "chain of a log-likelihood, its target, rep"),
    ],
    ids=lambda k: getattr(k, "__name__", k),
)
def test_draws_of_another_law_are_noticed(kind, name, monkeypatch):
    """A wall that samples at another temperature than it says."""
    original = kind.sample

    def cold(self, statistic, noise, words):
        colder = tuple(replace(law, scale=law.scale / 4) for law in noise)
        return original(self, statistic, colder, words)

    monkeypatch.setattr(kind, "sample", cold)
    (game,) = [game for game in games() if game.name.startswith(name)]
    assert game.shown(game.honest, 4_000) == np.inf


def test_the_chi_square_test_can_tell():
    rng = np.random.default_rng(1)
    law = np.array([0.5, 0.3, 0.1999, 0.0001])
    drawn = rng.choice(4, size=4000, p=law)
    assert chi_square(drawn, np.log(law)) > ALARM
    assert chi_square(drawn, np.log([0.4, 0.4, 0.1999, 0.0001])) < ALARM
    assert chi_square(np.append(drawn, [3] * 60), np.log(law)) < ALARM


def test_losses_are_taken_over_all_neighbours():
    """Two options, one row's say of 1 for either: all of it under add_remove, twice replaced."""
    outcomes = Outcomes(np.array([0.0, -20.0]), np.eye(2))
    rows = np.eye(2)
    assert outcomes.largest_loss(rows, 1, "add_remove", 1.0) == pytest.approx(1, rel=1e-6)
    assert outcomes.largest_loss(rows, 1, "replace_one", 1.0) == pytest.approx(2, rel=1e-6)
    assert outcomes.largest_loss(rows, 3, "add_remove", 2.0) == pytest.approx(1.5, rel=1e-6)

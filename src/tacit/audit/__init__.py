"""Attack the mechanisms: an empirical lower bound on epsilon that must stay below the claim.

Each game runs a mechanism many times on two neighbouring data sets that are worst for it and asks
which one it was. The best answer is a threshold on the log-likelihood ratio; how often it is right
bounds epsilon from below. Every game has a broken twin, a mistake that people make, and the same
attack must catch it. Passing is no proof: those are in wall/PROOFS.md.
"""

from __future__ import annotations

from tacit.audit.choices import choice_games
from tacit.audit.densities import density_games
from tacit.audit.draws import coefficient_games, draw_games
from tacit.audit.game import COLUMNS, DELTA, Game, Verdict, lower_bound, markdown, play
from tacit.audit.hidden_states import state_games
from tacit.audit.latent_tables import latent_games
from tacit.audit.leases import step_games, variational_games
from tacit.audit.logistic import logistic_games
from tacit.audit.statistics import count_games, moment_games, sum_games

__all__ = [
    "COLUMNS",
    "DELTA",
    "Game",
    "Verdict",
    "games",
    "lower_bound",
    "markdown",
    "play",
]


def games() -> list[Game]:
    """All games: one for each mechanism, relation and geometry that can go wrong by itself."""
    return [
        *count_games(),
        *sum_games(),
        *moment_games(),
        *step_games(),
        *variational_games(),
        *coefficient_games(),
        *logistic_games(),
        *draw_games(),
        *choice_games(),
        *density_games(),
        *state_games(),
        *latent_games(),
    ]

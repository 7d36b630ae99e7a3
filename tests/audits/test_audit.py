"""No audit exceeds its claim and every broken twin is caught. False-alarm rate: 1e-5 a game."""

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit import audit
from tacit.cli import app

GAMES = audit.games()


@pytest.mark.parametrize("game", GAMES, ids=lambda g: f"{g.name}: {g.mistake}")
def test_the_claim_holds_and_the_twin_is_caught(game):
    verdict = audit.play(game, runs=4_000)
    assert verdict.passed, f"{verdict.bound} > {game.epsilon}"
    assert verdict.caught, f"{verdict.twin} <= {game.epsilon}"


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
    names = " ".join(game.name for game in GAMES)
    kinds = ("counts", "sum", "moments", "steps", "Laplace", "Gaussian", "Poisson", "fixed size")
    for kind in kinds:
        assert kind in names
    for relation in ("replace_one", "add_remove"):
        assert relation in names


def test_the_command_prints_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(audit, "games", lambda: GAMES[:2])
    report = tmp_path / "audit.md"
    result = CliRunner().invoke(app, ["audit", "--runs", "1000", "-o", str(report)])
    assert result.exit_code == 0, result.output
    assert "holds" in result.output
    assert "caught" in result.output
    assert "half the noise" in report.read_text()
    broken = audit.replace(GAMES[0], epsilon=0.1)
    monkeypatch.setattr(audit, "games", lambda: [broken])
    assert CliRunner().invoke(app, ["audit", "--runs", "1000"]).exit_code == 1
    assert CliRunner().invoke(app, ["audit", "--runs", "3"]).exit_code != 0

"""Dirichlet priors next to which doubles would round what a row adds to more than is charged."""

from decimal import Decimal

import numpy as np
import pytest

import tacit
from tacit.draws.conjugate import concentration
from tacit.methods import PrivateGibbs
from tacit.spec.hidden_states import Panel, StateProfiles
from tacit.spec.latent_tables import LatentTables
from tacit.spec.mechanisms import Exponential
from tacit.wall.answers import Answers

ANSWERS = Answers.of(("statistics", "draws"))
SCHEMA = tacit.Schema(
    *(tacit.Categorical(name, ["a", "b"]) for name in "xyz"), neighbours="add_remove"
)


def dirichlet(prior, **options):
    law = tacit.queries.TruncatedDirichlet("x", (1.0, prior), truncation=0.1)
    return tacit.queries.ConjugateDraw(law, **options)


def queries(prior):
    tables = tacit.queries.TruncatedTables((("x",),), prior=prior, truncation=0.1)
    cells = np.zeros((2, 2), int)
    return (
        dirichlet(prior),
        tacit.queries.ConjugateDraw(tables),
        LatentTables(("x",), [1.0], (np.ones((1, 2)),), ("x",), prior, 0.2),
        StateProfiles(Panel("y", "z", ("x",)), cells, 1, prior, 0.2),
    )


def test_no_prior_that_is_drawn_with_rounds_a_row_to_more_than_is_charged():
    """The largest priors that are not refused, over 20,000 neighbours at each epsilon."""
    width, counts = np.log(0.9 / 0.1), np.arange(20_001)
    for exponent in (-9, -6, -3):
        epsilon = 10.0**exponent
        prior = min(1e9, 2**40 / (1.001 * width / epsilon))
        answer = ANSWERS.resolve(dirichlet(prior), SCHEMA)
        (noise,) = answer.calibrate(Exponential(epsilon)).noise
        pairs = np.stack([0 * counts, counts], axis=1)
        at = concentration(answer.query, pairs, noise.scale)[:, 1]
        assert np.diff(at).max() * width <= epsilon * (1 + 2**-12)
        assert np.diff(at).min() * width >= epsilon * (1 - 2**-11)


@pytest.mark.parametrize("at", range(4))
def test_larger_priors_are_refused_before_anything_is_spent(at):
    answer = ANSWERS.resolve(queries(1e9)[at], SCHEMA)
    answer.calibrate(Exponential("0.01"))
    wall = tacit.Wall(
        {name: ["a"] for name in "xyz"}, SCHEMA, budget=tacit.Budget(1, 0.1), ledger=":memory:"
    )
    with pytest.raises(tacit.errors.QueryError, match="prior"):
        wall.release(queries(1e9)[at], Exponential("1e-6"))
    assert wall.remaining.epsilon == 1
    if answer.stepwise:
        lease = wall.prepay(
            tacit.queries.Plan(tacit.queries.Steps(1, Exponential("1e-6")), delta=0)
        )
        with pytest.raises(tacit.errors.QueryError, match="prior"):
            lease.release(queries(1e9)[at])
        assert lease.steps_left == 1
        lease.release(queries(10)[at])


def test_a_tempered_prior_is_small_and_a_method_asks_before_it_pays():
    ANSWERS.resolve(dirichlet(1e9, temper_prior=True), SCHEMA).calibrate(Exponential("1e-6"))
    held = tacit.Schema(SCHEMA["x"], neighbours="add_remove")
    wall = tacit.Wall({"x": ["a"]}, held, budget=tacit.Budget(1), ledger=":memory:")
    model = tacit.NaiveBayesMixture(2, ["x"], prior=1e8)
    how = PrivateGibbs("0.01", truncation=0.2, sweeps=100)
    with pytest.raises(tacit.errors.QueryError, match="Nothing was read or spent"):
        tacit.fit(model, wall, how)
    assert wall.remaining.epsilon == Decimal(1)

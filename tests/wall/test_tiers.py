"""Tiers: what a wall's ledger does not allow is refused before any charge, and not imported."""

import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.draws import DRAWS
from tacit.spec.queries import QUERIES
from tacit.wall.answers import TIERS, Answers
from tests.conftest import SMOKERS, smoking

COUNTS = tacit.queries.Counts("smoker")
VOTES = np.eye(2), np.array([0])
SUM = tacit.queries.BoundedSum(
    tacit.queries.Kernel("table.scores"), "smoker", size=2, clip=1, geometry="box", state=VOTES
)
DRAW = tacit.queries.ConjugateDraw(
    tacit.queries.TruncatedDirichlet("smoker", (1, 1), truncation=0.1)
)
NOISY = tacit.queries.Plan(
    tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=50.0)), delta=1e-6
)
DRAWN = tacit.queries.Plan(tacit.queries.Steps(2, tacit.queries.Exponential("0.1")), delta=0)
BUDGET = tacit.Budget(9, 1e-3)


def wall(allow, ledger=":memory:"):
    return tacit.Wall(SMOKERS, smoking(), budget=BUDGET, ledger=ledger, allow=allow)


def refused(home, ask, says):
    """In one sentence or two on a single line, with nothing charged and nothing claimed."""
    before = home._ledger.read().seq
    with pytest.raises(tacit.errors.QueryError, match=says) as caught:
        ask()
    assert "\n" not in str(caught.value)
    assert (home._ledger.read().seq, home.remaining.epsilon) == (before, 9)


def test_statistics_alone():
    home = wall(("statistics",))
    for query, mechanism in (
        (SUM, tacit.Laplace(1)),
        (DRAW, tacit.queries.Exponential(1)),
        (tacit.queries.Choice(SUM), tacit.queries.Exponential(1)),
    ):
        says = f"answers statistics, and no {type(query).__name__}.*Nothing was charged"
        refused(home, lambda q=query, m=mechanism: home.release(q, m, name="x"), says)
        refused(home, lambda q=query, m=mechanism: home.quote(q, m), says)
    for plan in (NOISY, DRAWN):
        refused(home, lambda p=plan: home.prepay(p, name="loop"), "answers statistics only")
    assert home.release(COUNTS, tacit.Laplace(1)).n == 8
    assert home.release(tacit.queries.Moments(("smoker",), degree=1), tacit.Laplace(1)).n == 8


def test_steps_without_draws():
    home = wall(("steps", "statistics"))
    for query in (DRAW, tacit.queries.Choice(SUM)):
        refused(home, lambda q=query: home.release(q, tacit.queries.Exponential(1)), "and no")
    lease = home.prepay(NOISY)
    assert lease.release(SUM).n == 8
    with pytest.raises(tacit.errors.QueryError, match="statistics, steps, and no ConjugateDraw"):
        lease.release(DRAW)
    assert lease.steps_left == 1


def test_draws_without_steps():
    home = wall(("statistics", "draws"))
    refused(home, lambda: home.release(SUM, tacit.Laplace(1)), "and no BoundedSum")
    lease = home.prepay(DRAWN)
    with pytest.raises(tacit.errors.QueryError, match="and no BoundedSum"):
        lease.release(SUM)
    assert lease.steps_left == 2
    assert lease.release(DRAW).n == 8


@pytest.mark.parametrize(("tier", "plan"), [("steps", DRAWN), ("draws", NOISY)])
def test_a_plan_that_nothing_allowed_can_use_is_refused_before_the_charge(tier, plan):
    home = wall(("statistics", tier))
    refused(home, lambda: home.prepay(plan), "allow")


def test_every_query_belongs_to_one_tier():
    answered = [set(Answers.of(("statistics", *more)).resolvers) for more in ((), ("steps",))]
    assert {kind.__name__ for kind in answered[0]} == {"Counts", "Moments"}
    assert {kind.__name__ for kind in answered[1] - answered[0]} == {"BoundedSum"}
    assert set(DRAWS) == set(QUERIES.values()) - answered[1]
    assert set(Answers.of(TIERS).resolvers) == set(QUERIES.values())


@pytest.mark.parametrize(
    "allow", ["statistics", (), ("steps",), ("draws", "steps"), ("statistics", "everything")]
)
def test_other_words_are_refused(allow, tmp_path):
    with pytest.raises(tacit.errors.QueryError, match='Expected allow= with "statistics"'):
        wall(allow, tmp_path / "l.ledger")
    assert not (tmp_path / "l.ledger").exists()


def test_what_is_allowed_is_pinned_in_the_ledger(tmp_path):
    path = tmp_path / "l.ledger"
    wall(("statistics", "steps"), path)
    assert tacit.Ledger(path).entries()[0]["pins"]["allow"] == ["statistics", "steps"]
    for other in (("statistics",), TIERS, ("statistics", "draws")):
        with pytest.raises(tacit.errors.LedgerError, match="created with allow"):
            wall(other, path)
    home = wall(("steps", "statistics"), path)  # in whatever order
    assert home.release(COUNTS, tacit.Laplace(1)).n == 8
    assert len(tacit.Ledger(path).entries()) == 2


_WITHOUT_DRAWS = """
import sys
import tacit

schema = tacit.Schema(tacit.Categorical("a", ["x", "y"]), neighbours="replace_one")
budget, allow = tacit.Budget(9, 1e-3), ("statistics", "steps")
wall = tacit.Wall({"a": ["x", "y"]}, schema, budget=budget, ledger=":memory:", allow=allow)
wall.release(tacit.queries.Counts("a"), tacit.Laplace(1), name="counts")
query = tacit.queries.BoundedSum(lambda row, state: row, "a", size=1, clip=1)
wall.release(query, tacit.Laplace(1))
plan = tacit.queries.Plan(tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=9.0)), delta=1e-6)
wall.prepay(plan).release(query)
try:
    votes = tacit.queries.BoundedSum(query.kernel, "a", size=1, clip=1, geometry="box")
    wall.release(tacit.queries.Choice(votes), tacit.queries.Exponential(1))
except tacit.errors.QueryError:
    print([name for name in sys.modules if name.startswith("tacit.draws")])
"""


def test_a_tier_that_is_not_allowed_is_not_imported():
    command = [sys.executable, "-c", _WITHOUT_DRAWS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr

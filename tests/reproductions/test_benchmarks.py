"""What the pages of benchmarks say of their figures."""

from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.no_cover
FOLDER = Path(__file__).parents[2] / "reproductions"


@pytest.fixture(scope="module")
def logistic():
    """The module benchmarks/logistic.py, which has its measures from the reproduction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        patch.syspath_prepend(FOLDER.parent / "benchmarks")
        import logistic
    return logistic


def test_being_behind_is_said(logistic):
    scores = np.tile([0.84, 0.85, 0.86], (5, 1))
    worse = scores.copy()
    worse[2] -= 0.1  # epsilon 1
    better = logistic.Curve(logistic.EPSILONS, scores, -scores)
    said = logistic.verdict(logistic.Curve(logistic.EPSILONS, worse, -scores), better)
    assert "Targets missed at epsilon: 1." in said
    assert "In accuracy Budget is behind" in said
    assert said.count("epsilon: 1.") == 2
    assert said.endswith("epsilon: none.")


def test_coverage_is_measured(logistic):
    # 20 regressions of 2 coefficients: fewer than half of the 90% intervals hold the truth one
    # time in 1e6 even if both coefficients of a regression stand or fall together.
    case = logistic.Simulated("uniform", size=2, sd=1.0, epsilon=2.0, repeats=20, rows=2000)
    aware, plugin = (logistic.cover(case, noise) for noise in ("aware", "plugin"))
    assert aware.coefficients >= 0.5
    assert plugin.width < aware.width

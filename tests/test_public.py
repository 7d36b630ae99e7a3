"""The public surface: what is at the top, what is in modules, and what an import loads."""

import subprocess
import sys

import pytest

import tacit

MODULES = {
    "accounting": ["epsilon", "noise_multiplier"],
    "audit": [],
    "datasets": ["hospital_incidents"],
    "errors": ["BudgetError", "OverBudgetError", "QueryError"],
    "kernels": ["KERNELS"],
    "methods": ["AnnealedImportance", "Hybrid", "PrivateGibbs", "SGFS", "SGLD", "VIPS"],
    "models": ["BetaBernoulli", "LDA"],
    "numpyro": ["observe"],
    "plots": ["topics"],
    "queries": ["BoundedSum", "Counts", "Kernel", "Moments", "Plan", "Program", "trace"],
    "report": ["write"],
    "subsampling": ["Everyone", "Poisson", "WithoutReplacement"],
    "testing": ["simulated_release"],
}


def test_what_is_at_the_top():
    """A name more is a decision: most belong in a module."""
    assert sorted(tacit.__all__) == sorted(
        [
            "CSV",
            "BayesNet",
            "BetaBernoulli",
            "Budget",
            "Categorical",
            "Certificate",
            "DirichletCategorical",
            "Exact",
            "GammaExponential",
            "GammaPoisson",
            "Gaussian",
            "GaussianMixture",
            "HMM",
            "Integer",
            "LDA",
            "Laplace",
            "Ledger",
            "LinearRegression",
            "LogDensity",
            "LogisticRegression",
            "MarkovRandomField",
            "MultivariateNormalModel",
            "NaiveBayes",
            "NaiveBayesMixture",
            "NormalMean",
            "NormalModel",
            "OnePosteriorSample",
            "OverBudgetError",
            "Posterior",
            "PrivateNewton",
            "Public",
            "Real",
            "Release",
            "SGLD",
            "Schema",
            "SigmoidBeliefNetwork",
            "Table",
            "TacitError",
            "Time",
            "Tokens",
            "VIPS",
            "Wall",
            "connect",
            "fit",
            "plan",
            "release_from_table",
            "with_prior",
        ]
    )
    for name in tacit.__all__:
        assert getattr(tacit, name).__name__ == name
        assert name in dir(tacit)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = tacit.Nothing


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_reachable(name):
    module = getattr(tacit, name)
    assert module.__name__ == f"tacit.{name}"
    for what in MODULES[name]:
        assert hasattr(module, what)


def test_all_errors_end_in_error():
    assert all(name.endswith(("Error", "Warning")) for name in tacit.errors.__all__)


def test_an_import_loads_nothing_heavy():
    code = "import sys, tacit; print([m for m in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    for heavy in ("numpy", "numba", "scipy", "pandas", "matplotlib", "jax", "duckdb", "jinja2"):
        assert f"'{heavy}'" not in loaded.stdout


def test_functions_stay_functions_whatever_is_imported_later():
    """A module of the same name would take their place."""
    import tacit.cli
    import tacit.study.file

    assert callable(tacit.fit)
    assert callable(tacit.plan)

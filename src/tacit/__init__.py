"""Differentially private Bayesian inference: posteriors with honest error bars.

At the top is what is used most. The rest is in modules, reachable after `import tacit`:
`tacit.methods`, `tacit.queries`, `tacit.subsampling`, `tacit.accounting`,
`tacit.errors`, `tacit.plots`, `tacit.report`, `tacit.testing`, `tacit.datasets`, `tacit.audit`,
`tacit.numpyro`.
Everything is imported when it is first used.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time see `__getattr__`
    from tacit.custodian.client import connect
    from tacit.fitting import fit
    from tacit.methods import SGLD, VIPS, OnePosteriorSample, PrivateNewton
    from tacit.models import (
        HMM,
        LDA,
        BayesNet,
        BetaBernoulli,
        DirichletCategorical,
        GammaExponential,
        GammaPoisson,
        GaussianMixture,
        LinearRegression,
        LogDensity,
        LogisticRegression,
        MarkovRandomField,
        MultivariateNormalModel,
        NaiveBayes,
        NaiveBayesMixture,
        NormalMean,
        NormalModel,
        SigmoidBeliefNetwork,
    )
    from tacit.planning.plan import plan
    from tacit.posterior import Posterior
    from tacit.priors import with_prior
    from tacit.public import Public
    from tacit.spec.budget import Budget
    from tacit.spec.certificate import Certificate
    from tacit.spec.columns import Categorical, Integer, Real, Time, Tokens
    from tacit.spec.csv_file import CSV
    from tacit.spec.elsewhere import release_from_table
    from tacit.spec.errors import OverBudgetError, TacitError
    from tacit.spec.mechanisms import Exact, Gaussian, Laplace
    from tacit.spec.release import Release
    from tacit.spec.schema import Schema
    from tacit.spec.table import Table
    from tacit.wall import Ledger, Wall

__version__ = version("tacit")

__all__ = [
    "CSV",
    "HMM",
    "LDA",
    "SGLD",
    "VIPS",
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
    "Integer",
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
    "Schema",
    "SigmoidBeliefNetwork",
    "Table",
    "TacitError",
    "Time",
    "Tokens",
    "Wall",
    "connect",
    "fit",
    "plan",
    "release_from_table",
    "with_prior",
]

_HOMES = {
    "tacit.custodian.client": ("connect",),
    "tacit.fitting": ("fit",),
    "tacit.methods": ("SGLD", "VIPS", "OnePosteriorSample", "PrivateNewton"),
    "tacit.planning.plan": ("plan",),
    "tacit.posterior": ("Posterior",),
    "tacit.priors": ("with_prior",),
    "tacit.public": ("Public",),
    "tacit.spec.budget": ("Budget",),
    "tacit.spec.certificate": ("Certificate",),
    "tacit.spec.columns": ("Categorical", "Integer", "Real", "Time", "Tokens"),
    "tacit.spec.csv_file": ("CSV",),
    "tacit.spec.elsewhere": ("release_from_table",),
    "tacit.spec.errors": ("OverBudgetError", "TacitError"),
    "tacit.spec.mechanisms": ("Exact", "Gaussian", "Laplace"),
    "tacit.spec.release": ("Release",),
    "tacit.spec.schema": ("Schema",),
    "tacit.spec.table": ("Table",),
    "tacit.wall": ("Ledger", "Wall"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = (
    *("accounting", "audit", "datasets", "errors", "kernels", "methods", "models", "numpyro"),
    *("plots", "queries", "report", "subsampling", "testing"),
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tacit.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    found = getattr(import_module(_HOME.get(name, "tacit.models")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})

"""Bayesian inference that keeps its data's confidences."""

from importlib.metadata import version

from tacit import accounting
from tacit.fit import fit
from tacit.methods.statistics import Statistics
from tacit.models import BetaBernoulli, DirichletCategorical
from tacit.posterior import Posterior
from tacit.spec.budget import Budget
from tacit.spec.certificate import Certificate
from tacit.spec.columns import Categorical, Integer, Real, Time, Tokens
from tacit.spec.errors import (
    BudgetError,
    FileError,
    LedgerError,
    ModelError,
    OverBudget,
    QueryError,
    SchemaError,
    SourceError,
    StudyError,
    TacitError,
)
from tacit.spec.mechanisms import Exact, Gaussian, Laplace
from tacit.spec.queries import Counts, Is
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.wall import Ledger, Public, Wall

__version__ = version("tacit")

__all__ = [
    "BetaBernoulli",
    "Budget",
    "BudgetError",
    "Categorical",
    "Certificate",
    "Counts",
    "DirichletCategorical",
    "Exact",
    "FileError",
    "Gaussian",
    "Integer",
    "Is",
    "Laplace",
    "Ledger",
    "LedgerError",
    "ModelError",
    "OverBudget",
    "Posterior",
    "Public",
    "QueryError",
    "Real",
    "Release",
    "Schema",
    "SchemaError",
    "SourceError",
    "Statistics",
    "StudyError",
    "TacitError",
    "Time",
    "Tokens",
    "Wall",
    "accounting",
    "fit",
]

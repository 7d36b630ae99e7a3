"""Bayesian inference that keeps its data's confidences."""

from importlib.metadata import version

from tacit import accounting
from tacit.fit import fit
from tacit.methods import (
    SGFS,
    SGHMC,
    SGLD,
    SGNHT,
    VIPS,
    AnnealedImportance,
    Constant,
    Hybrid,
    ObjectivePerturbation,
    OnePosteriorSample,
    OutputPerturbation,
    PhaseTransition,
    Polynomial,
    PrivateGibbs,
    PrivateMetropolis,
    PrivateNewton,
    Statistics,
)
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
    MultivariateNormal,
    NaiveBayes,
    NaiveBayesMixture,
    Normal,
    NormalMean,
    SigmoidBeliefNetwork,
)
from tacit.posterior import Posterior
from tacit.priors import with_prior
from tacit.public import Public
from tacit.spec.budget import Budget
from tacit.spec.certificate import Certificate
from tacit.spec.choice import Choice
from tacit.spec.columns import Categorical, Integer, Real, Time, Tokens
from tacit.spec.density import Ball, Box, DensityDraw, Likelihood, Points
from tacit.spec.draws import BallRegression, BoundedNormal, ConjugateDraw, TruncatedDirichlet
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
from tacit.spec.kernels import Kernel
from tacit.spec.keys import Is
from tacit.spec.logistic import Logistic, LogisticDraw, LogisticMinimum
from tacit.spec.mechanisms import Exact, Exponential, Gaussian, Laplace
from tacit.spec.moments import Moments
from tacit.spec.plan import Everyone, Plan, Poisson, Steps, WithoutReplacement
from tacit.spec.programs import Program, trace
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.sums import Bound, BoundedSum
from tacit.wall import Lease, Ledger, Wall

__version__ = version("tacit")

__all__ = [
    "HMM",
    "LDA",
    "SGFS",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "VIPS",
    "AnnealedImportance",
    "Ball",
    "BallRegression",
    "BayesNet",
    "BetaBernoulli",
    "Bound",
    "BoundedNormal",
    "BoundedSum",
    "Box",
    "Budget",
    "BudgetError",
    "Categorical",
    "Certificate",
    "Choice",
    "ConjugateDraw",
    "Constant",
    "Counts",
    "DensityDraw",
    "DirichletCategorical",
    "Everyone",
    "Exact",
    "Exponential",
    "FileError",
    "GammaExponential",
    "GammaPoisson",
    "Gaussian",
    "GaussianMixture",
    "Hybrid",
    "Integer",
    "Is",
    "Kernel",
    "Laplace",
    "Lease",
    "Ledger",
    "LedgerError",
    "Likelihood",
    "LinearRegression",
    "LogDensity",
    "Logistic",
    "LogisticDraw",
    "LogisticMinimum",
    "LogisticRegression",
    "MarkovRandomField",
    "ModelError",
    "Moments",
    "MultivariateNormal",
    "NaiveBayes",
    "NaiveBayesMixture",
    "Normal",
    "NormalMean",
    "ObjectivePerturbation",
    "OnePosteriorSample",
    "OutputPerturbation",
    "OverBudget",
    "PhaseTransition",
    "Plan",
    "Points",
    "Poisson",
    "Polynomial",
    "Posterior",
    "PrivateGibbs",
    "PrivateMetropolis",
    "PrivateNewton",
    "Program",
    "Public",
    "QueryError",
    "Real",
    "Release",
    "Schema",
    "SchemaError",
    "SigmoidBeliefNetwork",
    "SourceError",
    "Statistics",
    "Steps",
    "StudyError",
    "TacitError",
    "Time",
    "Tokens",
    "TruncatedDirichlet",
    "Wall",
    "WithoutReplacement",
    "accounting",
    "fit",
    "trace",
    "with_prior",
]

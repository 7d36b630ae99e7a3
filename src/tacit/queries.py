"""What can be asked of a wall, and how it is paid for: queries, plans, and the draws' mechanism."""

from tacit.spec.choice import Choice
from tacit.spec.density import Ball, Box, DensityDraw, Likelihood, Points
from tacit.spec.draws import (
    BallRegression,
    BoundedMeanSd,
    BoundedNormal,
    BoundedRate,
    ConjugateDraw,
    TruncatedDirichlet,
    TruncatedTables,
)
from tacit.spec.kernels import Kernel
from tacit.spec.keys import Is
from tacit.spec.logistic import Logistic, LogisticDraw, LogisticMinimum
from tacit.spec.mechanisms import Exponential
from tacit.spec.moments import Moments
from tacit.spec.plan import Plan, Steps
from tacit.spec.programs import Program, trace
from tacit.spec.queries import Counts
from tacit.spec.sums import Bound, BoundedSum

__all__ = [
    "Ball",
    "BallRegression",
    "Bound",
    "BoundedMeanSd",
    "BoundedNormal",
    "BoundedRate",
    "BoundedSum",
    "Box",
    "Choice",
    "ConjugateDraw",
    "Counts",
    "DensityDraw",
    "Exponential",
    "Is",
    "Kernel",
    "Likelihood",
    "Logistic",
    "LogisticDraw",
    "LogisticMinimum",
    "Moments",
    "Plan",
    "Points",
    "Program",
    "Steps",
    "TruncatedDirichlet",
    "TruncatedTables",
    "trace",
]

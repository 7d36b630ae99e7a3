"""Ways to spend, one a file.

METHODS says what each needs of a model. A new method is added to it; `fit` and study files then
know it.
"""

from collections.abc import Mapping
from typing import Any

from tacit.methods.annealed import AnnealedImportance
from tacit.methods.baselines import ObjectivePerturbation, OutputPerturbation
from tacit.methods.gibbs import PrivateGibbs
from tacit.methods.hybrid import Hybrid
from tacit.methods.metropolis import PrivateMetropolis
from tacit.methods.newton import PrivateNewton
from tacit.methods.one_sample import OnePosteriorSample
from tacit.methods.run import run
from tacit.methods.schedules import SCHEDULES, Constant, PhaseTransition, Polynomial
from tacit.methods.sgfs import SGFS
from tacit.methods.sghmc import SGHMC, SGNHT
from tacit.methods.sgld import SGLD
from tacit.methods.statistics import Statistics
from tacit.methods.vips import VIPS
from tacit.spec.errors import ModelError
from tacit.spec.protocols import (
    AnnealedModel,
    DrawModel,
    GibbsModel,
    GradientModel,
    HybridModel,
    LikelihoodModel,
    LogisticModel,
    NewtonModel,
    StatisticsModel,
    VariationalModel,
    WalkModel,
)

Method = (
    Statistics
    | OnePosteriorSample
    | PrivateGibbs
    | PrivateMetropolis
    | AnnealedImportance
    | PrivateNewton
    | SGLD
    | SGHMC
    | SGNHT
    | SGFS
    | Hybrid
    | ObjectivePerturbation
    | OutputPerturbation
    | VIPS
)
METHODS: Mapping[type[Method], Any] = {
    Statistics: StatisticsModel,
    OnePosteriorSample: DrawModel | LikelihoodModel,
    PrivateGibbs: GibbsModel,
    PrivateMetropolis: WalkModel,
    AnnealedImportance: AnnealedModel,
    SGLD: GradientModel,
    SGHMC: GradientModel,
    SGNHT: GradientModel,
    SGFS: GradientModel,
    Hybrid: HybridModel,
    PrivateNewton: NewtonModel,
    ObjectivePerturbation: LogisticModel,
    OutputPerturbation: LogisticModel,
    VIPS: VariationalModel,
}


def check_suits(method: Method, model: Any) -> None:
    """Refuse a pair that makes no sense, and name the methods that do."""
    if isinstance(model, METHODS[type(method)]):
        return
    known = [kind.__name__ for kind, needed in METHODS.items() if isinstance(model, needed)]
    asked = type(method).__name__
    if isinstance(method, Statistics):  # nobody wrote that word
        asked = "Statistics (noisy counts or sums, by a mechanism or a Budget)"
    raise ModelError(
        f"{type(model).__name__} cannot be fitted by {asked}; it can by {', '.join(known)}."
    )


__all__ = [
    "METHODS",
    "SCHEDULES",
    "SGFS",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "VIPS",
    "AnnealedImportance",
    "Constant",
    "Hybrid",
    "Method",
    "ObjectivePerturbation",
    "OnePosteriorSample",
    "OutputPerturbation",
    "PhaseTransition",
    "Polynomial",
    "PrivateGibbs",
    "PrivateMetropolis",
    "PrivateNewton",
    "Statistics",
    "check_suits",
    "run",
]

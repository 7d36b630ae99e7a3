"""Ways to spend, one a file.

METHODS says what each needs of a model. A new method is added to it; `fit` and study files then
know it.
"""

from collections.abc import Mapping
from typing import Any

from tacit.methods.annealed import AnnealedImportance
from tacit.methods.baselines import ObjectivePerturbation, OutputPerturbation
from tacit.methods.gibbs import PrivateGibbs
from tacit.methods.metropolis import PrivateMetropolis
from tacit.methods.one_sample import OnePosteriorSample
from tacit.methods.statistics import Statistics
from tacit.spec.errors import ModelError
from tacit.spec.protocols import (
    AnnealedModel,
    DrawModel,
    GibbsModel,
    LogisticModel,
    StatisticsModel,
    WalkModel,
)

Method = (
    Statistics
    | OnePosteriorSample
    | PrivateGibbs
    | PrivateMetropolis
    | AnnealedImportance
    | ObjectivePerturbation
    | OutputPerturbation
)
METHODS: Mapping[type[Method], type[Any]] = {
    Statistics: StatisticsModel,
    OnePosteriorSample: DrawModel,
    PrivateGibbs: GibbsModel,
    PrivateMetropolis: WalkModel,
    AnnealedImportance: AnnealedModel,
    ObjectivePerturbation: LogisticModel,
    OutputPerturbation: LogisticModel,
}


def check_suits(method: Method, model: Any) -> None:
    """Refuse a pair that makes no sense, and name the methods that do."""
    if isinstance(model, METHODS[type(method)]):
        return
    known = [kind.__name__ for kind, needed in METHODS.items() if isinstance(model, needed)]
    raise ModelError(
        f"{type(model).__name__} cannot be fitted by {type(method).__name__}; "
        f"it can by {', '.join(known)}."
    )


__all__ = [
    "METHODS",
    "AnnealedImportance",
    "Method",
    "ObjectivePerturbation",
    "OnePosteriorSample",
    "OutputPerturbation",
    "PrivateGibbs",
    "PrivateMetropolis",
    "Statistics",
    "check_suits",
]

"""Baselines: one noisy point estimate of a logistic regression, and no error bars."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Unpack

from tacit.methods.common import ask_once
from tacit.spec.budget import Number
from tacit.spec.errors import ModelError
from tacit.spec.logistic import LogisticMinimum, Perturbed
from tacit.spec.mechanisms import Gaussian
from tacit.spec.protocols import LogisticModel, Releaser
from tacit.spec.sampling import SamplingOptions
from tacit.spec.schema import Schema


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Minimise the loss plus a random slope (Chaudhuri et al. 2011, Kifer et al. 2012).

    The result is a point: its draws are all the same, and it says nothing of its own error. The
    noise is not Kifer's, which is for add_remove and larger than needed, but that of a proof which
    holds for both relations (wall/PROOFS.md).

    Parameters
    ----------
    epsilon, delta
        What it costs.
    regularizer
        The least loss is that of all rows together, plus regularizer |theta|^2 / 2. Default: by a
        public rule from the number of units, the number of coefficients and the noise.
    """

    epsilon: Decimal
    delta: Decimal
    regularizer: float | None

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        regularizer: float | None = None,
    ) -> None:
        _keep(self, epsilon, delta, regularizer)

    def question(self, model: LogisticModel, schema: Schema) -> tuple[LogisticMinimum, Gaussian]:
        """What is asked of the wall, and how it is paid for."""
        return _question(self, model, schema, "objective")

    def run(
        self,
        model: LogisticModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Any:
        _refuse_draws(sampling)
        return ask_once(self, model, releaser, name, sampling)


@dataclass(frozen=True)
class OutputPerturbation:
    """Minimise the loss, then add Gaussian noise to where it is least.

    The result is a point, as that of `ObjectivePerturbation`, and mostly a worse one.

    Parameters
    ----------
    epsilon, delta
        What it costs.
    regularizer
        As there. The noise in theta is in proportion to 1 / regularizer.
    """

    epsilon: Decimal
    delta: Decimal
    regularizer: float | None

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        regularizer: float | None = None,
    ) -> None:
        _keep(self, epsilon, delta, regularizer)

    def question(self, model: LogisticModel, schema: Schema) -> tuple[LogisticMinimum, Gaussian]:
        """What is asked of the wall, and how it is paid for."""
        return _question(self, model, schema, "output")

    def run(
        self,
        model: LogisticModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **sampling: Unpack[SamplingOptions],
    ) -> Any:
        _refuse_draws(sampling)
        return ask_once(self, model, releaser, name, sampling)


def _refuse_draws(sampling: SamplingOptions) -> None:
    if sampling.get("draws") is not None or sampling.get("chains") is not None:
        raise ModelError(
            "Expected no draws= or chains=: a noisy minimum is one point without error bars. "
            "tacit.PrivateNewton(epsilon, delta) has both."
        )


def _keep(method: Any, epsilon: Any, delta: Any, regularizer: Any) -> None:
    mechanism = Gaussian(epsilon, delta)
    object.__setattr__(method, "epsilon", mechanism.epsilon)
    object.__setattr__(method, "delta", mechanism.delta)
    plain = float(regularizer) if isinstance(regularizer, Decimal) else regularizer
    object.__setattr__(method, "regularizer", plain)


def _question(
    method: ObjectivePerturbation | OutputPerturbation,
    model: LogisticModel,
    schema: Schema,
    noise: Perturbed,
) -> tuple[LogisticMinimum, Gaussian]:
    query = LogisticMinimum(model.logistic(schema), noise, method.regularizer)
    return query, Gaussian(method.epsilon, method.delta)

"""The verb: one model, one wall, one way to spend."""

from __future__ import annotations

from typing import Any

from tacit.methods import METHODS, VIPS, Method, PrivateNewton, Statistics, check_suits, run
from tacit.methods.budget import for_budget
from tacit.posterior import Posterior
from tacit.spec.budget import Budget
from tacit.spec.errors import ModelError
from tacit.spec.mechanisms import NOISE, Exact, Exponential, Mechanism
from tacit.spec.protocols import NewtonModel, Releaser, VariationalModel
from tacit.spec.sampling import NoiseHandling, Sampling, SamplingOptions

How = Mechanism | Budget | Method


def fit(
    model: Any,
    wall: Releaser,
    how: How | None = None,
    *,
    name: str | None = None,
    draws: int | None = None,
    chains: int | None = None,
    seed: int | None = None,
    noise: NoiseHandling = "aware",
    progress: bool | None = None,
) -> Posterior:
    """Spend some budget and return a posterior whose error bars include the privacy noise.

    Parameters
    ----------
    model
        What is believed, such as `BetaBernoulli("smoker", success="yes")`.
    wall
        A `Wall`, or a `Public` for data that need none.
    how
        A mechanism (`Laplace(epsilon)`, `Gaussian(epsilon, delta)`), a method
        (`OnePosteriorSample(epsilon, truncation=0.05)`), or a `Budget`: spend this and choose what
        is most accurate.
    name
        Under a name every answer is stored. Asking the same again under it returns the stored
        answers for free, and a run that was killed goes on where it stopped.
    draws, chains, seed
        Posterior draws for each chain, chains, and a seed for them. Privacy noise has no seed.
    noise
        "aware" (the default), or "plugin" for the papers' overconfident projection.
    progress
        Whether long work shows how many of its steps are done. Statistics have a single one.
    """
    if not isinstance(model, tuple(METHODS.values())):
        raise ModelError(f"Expected a model such as tacit.BetaBernoulli(...), got {model!r}.")
    if how is None:
        left = wall.remaining
        rest = "" if left is None else f" {left} remains."
        raise ModelError(f"Expected how to spend, for example tacit.Laplace(epsilon=0.5).{rest}")
    options: SamplingOptions = {"draws": draws, "chains": chains, "seed": seed, "noise": noise}
    Sampling.of(options)  # a bad option is refused before anything is spent
    method: Any = resolve(model, wall, how)
    return run(method, model, wall, name=name, progress=progress, **options)


def resolve(model: Any, wall: Releaser, how: Any) -> Method:
    """The method that `how` stands for, if it suits the model."""
    match how:
        case Budget():
            if not isinstance(model, (NewtonModel, VariationalModel)):
                check_suits(Statistics(Exact()), model)
            return for_budget(model, wall, how)
        case Exponential(epsilon=epsilon):
            raise ModelError(
                "Exponential is a draw and needs a truncation: write "
                f"tacit.OnePosteriorSample({epsilon}, truncation=0.05)."
            )
        case Exact() if isinstance(model, NewtonModel):
            return PrivateNewton.exact()
        case Exact() if isinstance(model, VariationalModel):
            return VIPS.exact()
        case _ if isinstance(how, NOISE):
            method: Method = Statistics(how)
        case _ if isinstance(how, tuple(METHODS)):
            method = how
        case _:
            raise ModelError(
                "Expected how to be a mechanism such as tacit.Laplace(0.5), a method or a "
                f"tacit.Budget, got {how!r}."
            )
    check_suits(method, model)
    return method

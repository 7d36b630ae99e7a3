"""The verb: one model, one wall, one inference method."""

from __future__ import annotations

import warnings
from decimal import Decimal
from itertools import product
from typing import Any

from tacit.methods import (
    METHODS,
    VIPS,
    OnePosteriorSample,
    PrivateNewton,
    RidgeNewton,
    Statistics,
    check_suits,
    suits,
)
from tacit.methods.method import Method, Task
from tacit.methods.run import before_the_charge, run
from tacit.posterior import Posterior
from tacit.spec.budget import Budget
from tacit.spec.errors import BudgetError, ModelError, PrivacyWarning, TacitError
from tacit.spec.mechanisms import NOISE, Exact, Exponential, Gaussian, Laplace, Mechanism
from tacit.spec.protocols import Releaser
from tacit.spec.sampling import NoiseHandling, Sampling, SamplingOptions

How = Mechanism | Budget | Method[Any]


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
        The model, such as `BetaBernoulli("smoker", success="yes")`.
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
    options: SamplingOptions = {"draws": draws, "chains": chains, "seed": seed, "noise": noise}
    with before_the_charge(wall):
        if not hasattr(wall, "quote"):
            raise ModelError(
                "Expected data behind a wall, tacit.Wall(table, schema, budget=..., ledger=...), "
                f"or public data, tacit.Public(table, schema), got {type(wall).__name__}."
            )
        check_model(model)
        if how is None:
            rest = "" if wall.remaining is None else f" {wall.remaining} remains."
            raise ModelError(
                f"Expected how to spend, for example tacit.Laplace(epsilon=0.5).{rest}"
            )
        if name is not None and not isinstance(name, str):
            raise ModelError(f"Expected name={name!r} to be a text, such as name='smokers'.")
        Sampling.of(options)
        method: Any = resolve(model, wall, how)
    if wall.remaining is not None:
        for doubt in doubts(how):
            warnings.warn(doubt, PrivacyWarning, stacklevel=2)
    return run(method, model, wall, name=name, progress=progress, **options)


def check_model(model: Any) -> None:
    """Refuse what is not a model, or is its class."""
    if not any(suits(method, model) for method in METHODS):
        raise ModelError(f"Expected a model such as tacit.BetaBernoulli(...), got {model!r}.")
    if isinstance(model, type):
        raise ModelError(
            f"Expected a model, not its class: write tacit.{model.__name__}(...) with its options."
        )


def doubts(spent: Any) -> list[str]:
    """Sentences about privacy parameters that were hardly meant, of a method or a budget."""
    found = []
    epsilon, delta = (getattr(spent, what, None) for what in ("epsilon", "delta"))
    if epsilon is not None and epsilon > 10:
        found.append(
            f"Epsilon {epsilon} promises little: with it, what is published may be e^{epsilon} "
            "times as probable with a person's data as without. Usual values are from 0.1 to 10."
        )
    if delta is not None and delta > Decimal("0.001"):
        found.append(
            f"Delta {delta} promises little: it is about the probability that the promise fails. "
            "Usual values are below one in the number of people, such as 1e-6."
        )
    return found


def resolve(model: Any, wall: Releaser, how: Any) -> Method[Any]:
    """The method that `how` stands for, if it suits the model."""
    match how:
        case Budget():
            return for_budget(model, wall, how)
        case Exponential():
            raise ModelError(
                f"Exponential is the mechanism of a draw: write {draw_instead(model, wall, how)}."
            )
        case Exact() if suits(PrivateNewton, model):
            return newton_for(model, wall).exact()
        case Exact() if suits(VIPS, model):
            return VIPS(noise_multiplier=0)
        case _ if isinstance(how, NOISE):
            method: Any = Statistics(how)
        case _ if isinstance(how, METHODS):
            method = how
        case _:
            raise ModelError(
                "Expected how to be a mechanism such as tacit.Laplace(0.5), a method or a "
                f"tacit.Budget, got {how!r}."
            )
    check_suits(method, model)
    return method


def draw_instead(model: Any, wall: Releaser, how: Exponential) -> str:
    """What to write for a draw at this price, tried without the data; refused if there is none."""
    check_suits(OnePosteriorSample(how.epsilon), model, "Exponential")
    refusal: TacitError | None = None
    deltas = (how.delta,) if how.delta else (0, "1e-6")
    for truncation, delta in product((None, 2, 0.05), deltas):
        method = OnePosteriorSample(how.epsilon, delta, truncation=truncation)
        try:
            for query, mechanism in method.plan(Task(model, wall.schema)).trials:
                wall.quote(query, mechanism)
        except TacitError as error:
            refusal = error
        else:
            given = f", {delta}" * bool(delta)
            kept = "" if truncation is None else f", truncation={truncation}"
            return f"tacit.OnePosteriorSample({how.epsilon}{given}{kept})"
    raise ModelError(f"Exponential is the mechanism of a draw. {refusal}") from None


def for_budget(model: Any, wall: Releaser, budget: Budget) -> Method[Any]:
    """Return the most accurate method within this budget, chosen without the data.

    `PrivateNewton` where a model has derivatives, or `RidgeNewton` for a logistic regression of
    more than 30 coefficients: their intervals include privacy noise, and in accuracy no other
    method was clearly ahead where they were measured side by side (docs/logistic-regression.md);
    `VIPS` for other models with hidden variables; else statistics with the mechanism that adds less
    noise to them.
    """
    newton = suits(PrivateNewton, model)
    if newton or suits(VIPS, model):
        if budget.delta == 0:
            instead = f"; without one there is tacit.OnePosteriorSample({budget.epsilon}, ...)"
            instead *= suits(OnePosteriorSample, model)
            raise BudgetError(
                f"Expected a delta for {type(model).__name__}, for example "
                f"tacit.Budget({budget.epsilon}, 1e-6){instead}."
            )
        method: Any = newton_for(model, wall) if newton else VIPS
        return method(budget.epsilon, budget.delta)
    laplace = Statistics(Laplace(budget.epsilon))
    check_suits(laplace, model, "a Budget")
    if budget.delta == 0:
        return laplace
    gaussian = Statistics(Gaussian(budget.epsilon, budget.delta))
    query = model.query()
    return min(laplace, gaussian, key=lambda m: wall.quote(query, m.mechanism).variance or 0.0)


def newton_for(model: Any, wall: Releaser) -> Any:
    """The Newton method for a model's number of parameters."""
    many = suits(RidgeNewton, model) and model.derivatives(wall.schema) is None
    return RidgeNewton if many else PrivateNewton

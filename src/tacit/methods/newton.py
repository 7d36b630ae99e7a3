"""A private Newton method: a few noisy looks at slope and curvature, then a posterior from them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.accounting.plans import largest_plan
from tacit.infer.newton import (
    Curvature,
    Slope,
    best_ridge,
    draw,
    likely_spread,
    next_place,
)
from tacit.methods.common import whole_number
from tacit.methods.progress import counted
from tacit.spec.budget import Budget, Number
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.newton import CURVATURE, Newton, unpacked
from tacit.spec.plan import Plan, Steps
from tacit.spec.protocols import NewtonModel, Releaser
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema

# What is spent on the part of the slope that does not change, on the way, and on the last look.
# Measured in docs/logistic-regression.md; halving or doubling any of them changes little.
_PULL, _WAY, _LAST = 0.3, 0.35, 0.35
_CURVED = 3  # a look in so many shows the curvature too: it changes little, and takes longer


@dataclass(frozen=True)
class PrivateNewton:
    """Find the parameters by noisy Newton steps, and say how well they are known.

    Each step releases the log-likelihood's slope and curvature at a public place, with Gaussian
    noise. The noise is known, so that the posterior of the last look includes it: the intervals
    cover (docs/logistic-regression.md).

    Parameters
    ----------
    epsilon, delta
        What all looks cost together.
    steps
        How many looks on the way to the last one.
    """

    epsilon: Decimal | None
    delta: Decimal
    steps: int

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number | None = None,
        *,
        steps: int | None = None,
    ) -> None:
        mechanism = Gaussian(epsilon, delta)
        object.__setattr__(self, "epsilon", mechanism.epsilon)
        object.__setattr__(self, "delta", mechanism.delta)
        object.__setattr__(self, "steps", whole_number(steps, "steps", 12, most=1000))

    @classmethod
    def exact(cls) -> PrivateNewton:
        """Without noise, for public data: what `tacit.Exact()` means."""
        made = cls(1, "1e-6")
        object.__setattr__(made, "epsilon", None)
        return made

    def run(
        self,
        model: NewtonModel,
        releaser: Releaser,
        *,
        name: str | None,
        progress: bool | None = None,
        **options: Any,
    ) -> Any:
        how = Sampling.of(options)  # type: ignore[arg-type]
        newton = model.newton(releaser.schema)
        trial: Any = Exact() if self.epsilon is None else Gaussian(1, "1e-6")
        releaser.quote(newton.curved(np.zeros(newton.size)), trial)  # before it is paid for
        lease = releaser.prepay(self._plan(newton, releaser.schema), name=name)
        pull = lease.release(newton.pull)
        last_variance = pull.noise[0].scale ** 2 * (1 + _PULL / _LAST)
        place, spread, ridge = np.zeros(newton.size), newton.spread, 0.0
        places, curvatures = [], list[Curvature]()
        for i in counted(self.steps, "Looks", progress):
            if i % _CURVED:
                slope = _slope(pull, lease.release(newton.push(place)), place)
            else:
                release = lease.release(newton.curved(place))
                slope = _slope(pull, release, place)
                curvatures.append(_curvature(release, newton.size))
            recent = Curvature.mean(curvatures[len(curvatures) // 2 :])
            ridge = best_ridge(recent, last_variance, spread)
            place = next_place(slope, recent, ridge)
            spread, _ = likely_spread(place, recent, last_variance, ridge, newton.spread)
            places.append(place)
        centre = np.mean(places[self.steps // 2 :], axis=0)
        release = lease.release(newton.curved(centre))
        near = [curvatures[-1], _curvature(release, newton.size)]
        rng = np.random.default_rng(how.seed)
        theta = draw(
            _slope(pull, release, centre),
            Curvature.mean(near),
            ridge,
            newton.spread,
            how.chains * how.draws,
            rng,
            aware=how.noise == "aware",
        )
        return model.newton_posterior(release, theta.reshape(how.chains, how.draws, -1), how.noise)

    def _plan(self, newton: Newton, schema: Schema) -> Plan:
        """All looks, as quiet as the budget affords."""
        numbers = newton.curved(np.zeros(newton.size)).numbers
        parts = (1, _PULL, newton.size), (self.steps, _WAY, numbers), (1, _LAST, numbers)
        if self.epsilon is None:
            steps = (Steps(count, Exact(), numbers=most) for count, _, most in parts)
            return Plan(*steps, delta=self.delta)

        def quieter(x: float) -> Plan:
            noise = (Gaussian(noise_multiplier=(n / share) ** 0.5 / x) for n, share, _ in parts)
            steps = (Steps(n, law, numbers=most) for (n, _, most), law in zip(parts, noise))
            return Plan(*steps, delta=self.delta)

        return largest_plan(quieter, Budget(self.epsilon, self.delta), schema.neighbours)


def _slope(pull: Release, push: Release, place: np.ndarray) -> Slope:
    """What two releases say of the log-likelihood's slope at a place."""
    value = pull.value - push.value[: len(place)]
    return Slope(place, value, pull.noise[0].scale ** 2 + push.noise[0].scale ** 2)


def _curvature(curved: Release, size: int) -> Curvature:
    _, matrix = unpacked(curved.value, size)
    least = 1e-9 * (1 + abs(float(np.trace(matrix))))  # without noise there is still rounding
    return Curvature(matrix, max(curved.noise[0].scale / CURVATURE, least))

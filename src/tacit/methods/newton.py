"""A private Newton method: a few noisy looks at slope and curvature, then a posterior from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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

_CURVED = 3  # a look in so many shows the curvature too: it changes little, and takes longer
_RECENT = 0.6  # of the looks on the way: these are near where it ends


@dataclass(frozen=True)
class Way:
    """How many looks are taken, and what is spent on each part of them.

    On the part of the slope that does not change (`pull`), on the looks on the way, and on the
    last one. Chosen on simulated and public data (docs/logistic-regression.md); halving or doubling
    any of it changes little. `ridge` is a share of the one that would be best under a normal prior
    with one variance, which makes too much of coefficients that differ in size.
    """

    looks: int
    pull: float
    way: float
    last: float
    ridge: float
    averaged: bool


# With few coefficients every curvature can be told from its noise, and one good look at the end is
# best; with many most cannot, and the way is what finds them.
_FEW = Way(looks=12, pull=0.3, way=0.35, last=0.35, ridge=0.75, averaged=False)
_MANY = Way(looks=24, pull=0.35, way=0.55, last=0.1, ridge=0.25, averaged=True)
_MOST_OF_FEW = 30


@dataclass(frozen=True)
class PrivateNewton:
    """Find the parameters by noisy Newton steps, and say how well they are known.

    Each step releases the log-likelihood's slope and curvature at a public place, with Gaussian
    noise. The noise is known, so that the posterior of the last look includes it
    (docs/logistic-regression.md says where its intervals cover, and where they do not).

    Parameters
    ----------
    epsilon, delta
        What all looks cost together.
    steps
        How many looks on the way to the last one. Default: 12, or 24 for more than 30 coefficients.
    """

    epsilon: Decimal | None
    delta: Decimal
    steps: int | None

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
        given = None if steps is None else whole_number(steps, "steps", 1, most=1000)
        object.__setattr__(self, "steps", given)

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
        way = _FEW if newton.size <= _MOST_OF_FEW else _MANY
        way = way if self.steps is None else replace(way, looks=self.steps)
        lease = releaser.prepay(self._plan(newton, way, releaser.schema), name=name)
        pull = lease.release(newton.pull)
        variance = pull.noise[0].scale ** 2 * (1 + way.pull / (way.last + way.way / 2))
        place, spread, ridge = np.zeros(newton.size), newton.spread, 0.0
        slopes, curvatures = list[Slope](), list[Curvature]()
        for i in counted(way.looks, "Looks", progress):
            ask = newton.push if i % _CURVED else newton.curved
            release = lease.release(ask(place))
            slopes.append(_slope(pull, release, place))
            if not i % _CURVED:
                curvatures.append(_curvature(release, newton.size))
            recent = Curvature.mean(curvatures[len(curvatures) // 2 :])
            ridge = way.ridge * best_ridge(recent, variance, spread)
            place = next_place(slopes[-1], recent, ridge)
            spread, _ = likely_spread(place, recent, variance, ridge, newton.spread)
        near = slopes[way.looks - math.ceil(_RECENT * way.looks) :]
        centre = np.mean([each.at for each in near[1:]] + [place], axis=0)
        release = lease.release(newton.curved(centre))
        last = _slope(pull, release, centre)
        if way.averaged:
            last = Slope.mean([*near, last], pull.noise[0].scale ** 2)
        late = curvatures[-max(1, round(0.4 * len(curvatures))) :]
        theta = draw(
            last,
            Curvature.mean([*late, _curvature(release, newton.size)]),
            ridge,
            newton.spread,
            how.chains * how.draws,
            np.random.default_rng(how.seed),
            aware=how.noise == "aware",
        )
        return model.newton_posterior(release, theta.reshape(how.chains, how.draws, -1), how.noise)

    def _plan(self, newton: Newton, way: Way, schema: Schema) -> Plan:
        """All looks, as quiet as the budget affords."""
        numbers = newton.curved(np.zeros(newton.size)).numbers
        parts = (1, way.pull, newton.size), (way.looks, way.way, numbers), (1, way.last, numbers)
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

"""Pilot queries: noisy Newton steps that find the mode, and coordinates of equal curvature there.

A pilot query asks for the gradient and the Hessian at a public point. The first ones adapt: each
moves the point, and the coordinates towards those in which a record has a curvature of 1. The last
ones have most of the budget; they stay in one basis, and what they release is what a posterior is
made of (`tacit.infer.linearised`), with more gradients from the steps of a sampler after them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc

from tacit.infer.linearised import (
    Linearised,
    Observed,
    adapted,
    bent,
    inverse_root,
    newton_step,
    overshot,
    walked_draws,
)
from tacit.methods.method import Task
from tacit.spec.mechanisms import Exact, Gaussian
from tacit.spec.missing import Rows, Z
from tacit.spec.packing import packed_size
from tacit.spec.plan import Steps
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.walks import Derivatives, Frame

Warnings = tuple[str, ...]

ADAPTING, LAST = 6, 3
_ADAPTING_SHARE = 0.15  # of the pilot queries' budget
_NOISE = 0.5  # clips are widened while privacy noise has less than this share of the variance
_WIDER = 4.0  # times, at most
# Privacy noise over that of sampling, above which clips are narrowed: where they cut records
# whatever their targets, and where they do not and so move estimates.
_LOUD, _LOUDER = 1.0, 4.0
_LOUDEST = 6.0  # above which clips shorten the longer half of records too
_SURPRISE = 1e-4  # probability under which gradients are said to disagree
_WIDEST = 100.0  # the prior's curvature over that of all records, where coordinates widen no more
# Contrasts off their lines, as a share of their squares. (In regressions and a centred hierarchy it
# was at most 0.02 at epsilon 0.5 to 4, in a hierarchy by offsets 0.07 to 3.7 at 0.5 and 1.)
_BENT = 0.03
_FEW = 0.5  # rows that were counted, as a share of units, below which most may have no value
_UNRESOLVED = 0.75  # noise in the Hessian, as a share of it, above which intervals rest on a guess


@dataclass(frozen=True, eq=False)
class Pilots:
    """The state of the pilot queries: where the next is asked, and what the last ones released.

    `n` is about how many rows there are, and `precision` how well that is known; `multiplier` is
    the noise multiplier of the last queries. `before` is the newest answer, `known` the precision
    with which answers so far tell the mode, in coordinates of the frame.
    """

    derivatives: Derivatives
    frame: Frame
    max_rows: int
    n: float = 1.0
    precision: float = 0.0
    multiplier: float = 0.0
    asked: int = 0
    before: Observed | None = None
    known: np.ndarray | None = None
    observed: tuple[Observed, ...] = ()

    @property
    def done(self) -> bool:
        return self.asked == ADAPTING + LAST

    @property
    def question(self) -> BoundedSum:
        """The gradient and the Hessian at the origin of the frame."""
        clip = self.clip(self._usual, self.width)
        return self.derivatives.question(self.frame, clip, hessian=True)

    @property
    def _usual(self) -> float:
        """A clip with room for long tails."""
        return math.sqrt(2 * self.derivatives.size) + 7

    @property
    def width(self) -> float:
        """Clips over the usual ones: small noise leaves room for tails, large noise costs more."""
        if self.derivatives.clip is not None:
            return 1.0
        clip = self.clip(self._usual, 1.0)
        noise = self.multiplier * clip / math.sqrt(LAST * max(self.n, 1.0))
        loud = _LOUD if self._fair else _LOUDER
        if noise > loud:  # squared norms of records are mostly below 6 size + 1, half 2 size + 1
            most = self.derivatives.size * (2 + 4 * min(1.0, _LOUDEST / noise)) + 1
            return min(1.0, max(loud / noise, math.sqrt(most) / self._usual))
        if self.asked < ADAPTING:
            return 1.0
        return float(np.clip(math.sqrt(_NOISE) / max(noise, 1e-9), 1.0, _WIDER))

    @property
    def _fair(self) -> bool:
        """Whether clips move no estimate; the sum of a unit's rows is clipped as it is."""
        return self.derivatives.fair and self.max_rows == 1

    def clip(self, default: float, width: float) -> float:
        """The largest norm of a unit's contribution where a record has a curvature of 1."""
        if self.derivatives.clip is not None:
            return self.derivatives.clip
        return default * width * math.sqrt(self.max_rows)

    def told(self, release: Release) -> Pilots:
        """The state after an answer."""
        derivatives, last = self.derivatives, self.asked >= ADAPTING
        sd, multiplier, kept = release.noise[0].scale, self.multiplier, self.observed
        observed = Observed.of(self.frame, release.value, sd)
        n, precision = self._counted(observed, release.n)
        if last:
            kept = (*kept, observed)
            laws = [Linearised.of(each, kept, n) for each in kept]
            law = Linearised.combined(laws, self.frame)
            # In directions that noise hides, the next step is shorter.
            curvature = law.hessian / n + 0.35 * law.hessian_sd / n * np.eye(derivatives.size)
            law = replace(law, hessian=n * curvature)
        else:
            assert isinstance(release.query, BoundedSum)
            ((_, bound),) = release.query.blocks
            ratio = (LAST / (1 - _ADAPTING_SHARE)) / (ADAPTING / _ADAPTING_SHARE)
            multiplier = sd / bound.clip * math.sqrt(ratio)
            curvature = adapted(observed, n)
            if self.before is not None:
                curvature = overshot(curvature, self.before, observed, n)
            noise = observed.sd**2 * np.eye(derivatives.size)
            law = Linearised(self.frame, observed.gradient, noise, n * curvature, 0.0, 0.0)
        prior, basis = derivatives.prior_precision, self.frame.basis
        before = None if last else self.known
        step, known = newton_step(law, derivatives.prior_mean, prior, before)
        # Where the data say nothing, coordinates widen only until the prior says all.
        turn = inverse_root(curvature + basis.T @ prior @ basis / (_WIDEST * n))
        frame = self.frame.moved(step, None if last else turn)
        if self.asked == ADAPTING + LAST - 1:
            frame = self.frame  # the end is where the last question was
        facts: Any = {"frame": frame, "n": n, "precision": precision, "multiplier": multiplier}
        facts |= {"before": observed, "known": turn.T @ known @ turn, "observed": kept}
        return replace(self, asked=self.asked + 1, **facts)

    def _counted(self, observed: Observed, n_units: int | None) -> tuple[float, float]:
        """About how many rows there are: as many as units, or the mean of what was released."""
        if n_units is not None:
            return float(max(n_units, 1)), math.inf
        precision = self.precision + observed.sd**-2.0
        mean = self.n + (observed.rows - self.n) * observed.sd**-2.0 / precision
        return max(mean, precision**-0.5, 1.0), precision

    @property
    def law(self) -> Linearised:
        """What the last queries say together."""
        return Linearised.combined(self._laws, self.observed[-1].frame)

    @property
    def _laws(self) -> list[Linearised]:
        return [Linearised.of(each, self.observed, self.n) for each in self.observed]

    @property
    def rows(self) -> Rows:
        """About how many rows have a value: as the last queries counted them, clipped ones less."""
        counted = float(np.mean([each.rows for each in self.observed]))
        return Rows(max(counted, 0.0), self.observed[0].sd / math.sqrt(len(self.observed)))

    @property
    def warnings(self) -> Warnings:
        """What makes the law doubtful, in sentences."""
        law, size = self.law, self.derivatives.size
        found = []
        if disagree(self._laws, law):
            found.append(
                "the pilot queries had not settled: their gradients differ by more than noise and "
                "the Hessian explain, so that intervals may be too narrow; take a larger epsilon, "
                "or a prior or start nearer to the truth"
            )
        noise = self.observed[0].hessian_sd / self.n / math.sqrt(len(self.observed))
        if noise * math.sqrt(2 * size) > _UNRESOLVED:
            found.append(
                "privacy noise hides the curvature of the log-likelihood: intervals rest on a "
                "guess of it; take a larger epsilon or fewer parameters"
            )
        rows = self.rows
        # A row counts less where it is shortened, and a narrow clip shortens many.
        counted = self.precision == math.inf and (self.width >= 1 or self._fair)
        if counted and rows.estimate + Z * rows.sd < _FEW * self.n:
            found.append(
                f"the pilot queries counted about {rows.estimate:,.0f} rows of {self.n:,.0f} "
                "units: most units have no value in a column, or a clip is far too small; check "
                "levels, codes, bounds, date formats and the encoding against the data"
            )
        return tuple(found)


def begun(derivatives: Derivatives, max_rows: int, initial: np.ndarray | None = None) -> Pilots:
    """The state before the first pilot query."""
    frame = derivatives.frame
    if initial is not None:
        frame = Frame(initial, frame.basis)
    return Pilots(derivatives, frame, max_rows)


def pilot_steps(size: int, share: float, x: float) -> tuple[Steps, ...]:
    """The pilot queries of a plan, with a share of its budget; x is an inverse noise multiplier.

    Everyone takes part in them: they are few.
    """
    parts = ((ADAPTING, _ADAPTING_SHARE), (LAST, 1 - _ADAPTING_SHARE))

    def law(count: int, part: float) -> Exact | Gaussian:
        if x == math.inf:
            return Exact()
        return Gaussian(noise_multiplier=(count / (part * share)) ** 0.5 / x)

    numbers = size + packed_size(size) + 1
    return tuple(Steps(count, law(count, part), numbers=numbers) for count, part in parts)


def disagree(parts: list[Linearised], law: Linearised) -> bool:
    """Whether gradients differ by more than their noise, given the Hessian, and so that it matters.

    It does where the distance is a quarter of what sampling and noise together explain, or more.
    """
    size = len(law.gradient)
    surprise = matter = 0.0
    for each in parts:
        off = each.at(law.frame) - law.gradient
        surprise += float(off @ np.linalg.solve(each.noise, off))
        matter = max(matter, float(off @ np.linalg.solve(law.hessian + each.noise, off)))
    improbable = chdtrc(size * (len(parts) - 1), surprise) < _SURPRISE
    return bool(improbable and matter > size / 4)


def drawn(law: Linearised, derivatives: Derivatives, task: Task) -> tuple[np.ndarray, Warnings]:
    """Return draws (draw, parameter) under a law and the model's prior, and warnings."""
    sampling = task.sampling
    count = sampling.chains * sampling.draws
    aware = sampling.noise == "aware"
    precision = derivatives.prior_precision
    if derivatives.log_prior is None or not aware:
        rng = np.random.default_rng(sampling.seed)
        mean = derivatives.prior_mean
        return law.normal_draws(mean, precision, count, rng, aware=aware), ()
    vectors, stuck = walked_draws(law, precision, derivatives.log_prior, count, sampling.seed or 0)
    said = "a chain of NUTS under the model's prior was stuck: do not use the draws"
    return vectors, (said,) if stuck else ()


def posterior_of(
    law: Linearised,
    pilots: Pilots,
    release: Release,
    task: Task,
    warnings: Warnings,
    draws: Callable[..., tuple[np.ndarray, Warnings]] = drawn,
) -> Any:
    """The posterior by a law of the released gradients and the model's prior."""
    sampling, derivatives = task.sampling, pilots.derivatives
    vectors, more = draws(law, derivatives, task)
    warnings += more
    if derivatives.contrasts is not None and sampling.noise == "aware":
        share = bent(derivatives.contrasts, law.frame.origin, vectors, derivatives.prior_precision)
        if share > _BENT:
            warnings += (
                "the log-likelihood is far from quadratic where the posterior is, so that "
                "intervals may be too narrow and in the wrong place; where parameters are "
                "multiplied, as in mean + spread * away, write level ~ Normal(mean, spread)",
            )
    shaped = vectors.reshape(sampling.chains, sampling.draws, -1)
    found = derivatives.posterior(release, shaped, sampling.noise)
    return found.counting(pilots.rows).warned(warnings)

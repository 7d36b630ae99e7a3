"""Annealed importance sampling through the wall: chains at falling temperatures, then weights."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tacit.accounting.plans import least_noise, plan_epsilon
from tacit.infer.annealed_weights import NoisyWeights, draw_weights
from tacit.methods.method import Spending, Task
from tacit.methods.metropolis import choice_query, nearby, stamped
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.choice import Choice
from tacit.spec.errors import BudgetError, ModelError
from tacit.spec.mechanisms import Exponential, Gaussian
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.schema import Neighbours, Schema
from tacit.spec.sums import Bound, BoundedSum
from tacit.spec.walks import Walk

Weights = Literal["choice", "noise", "none"]
_WIDTH = 4.0  # standard deviations of the last law that its steps may be long
_FLATNESS = 0.25  # epsilon rises with the inverse temperature to this power
_RATIO = 2.0  # of one inverse temperature to the next
_MOST_TEMPERATURES = 1000
_DRAWS = 1000  # of the weights, where they have noise


@dataclass(frozen=True)
class AnnealedImportance:
    """Carry runs from the prior to the posterior through falling temperatures, and weight them.

    Foulds et al. (2016, supplement C.2). A run begins with a draw from the prior. At each
    temperature it takes private transitions: a choice, by the exponential mechanism, among the
    present point and candidates near it. The likelihood's inverse temperature rises by about a
    factor of 2 from one to the next; the prior stays as it is. A step of length l at the inverse
    temperature b costs 2 b l times the largest gradient of a row, so that early steps are long and
    cheap, and late ones short. What r runs cost is r times the paper's sum (Eq. 44 and 45 are for
    one run), composed by bounded range.

    It needs no truncation, and its draws are of a lower temperature than those of
    `OnePosteriorSample` where there are many units; where there are few, plain draws are better
    (`docs/chains-through-the-wall.md` has figures).

    Parameters
    ----------
    epsilon, delta
        What transitions and weights cost together.
    runs
        How many runs there are.
    temperatures
        How many temperatures each passes. Default: such that the next inverse temperature is
        about twice the last.
    transitions
        How many at each temperature.
    candidates
        How many points each transition chooses from, besides staying. More cost no more.
    temperature
        The last temperature. Default: the lowest at which steps can be as long as the law is
        wide, and 1, the posterior itself, where the budget is enough for that.
    weights
        "choice": runs are chosen in proportion to their weights (Eq. 46) by the exponential
        mechanism, `runs` times. "noise": the log weights are released with Gaussian noise. That
        gives the normalising constant too, `log_evidence`, or `log_tempered_evidence` where the
        last temperature is above 1, with an interval that includes the noise; there are 1,000
        draws then, of as many points as there are runs. "none": runs are returned as they are.
    weights_share
        The share of the budget, in zero-concentrated privacy, that pays for the weights.
    n_units
        About how many units there are, where that is secret.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    runs: int = 10
    temperatures: int | None = None
    transitions: int = 1
    candidates: int = 100
    temperature: float | None = None
    weights: Weights = "choice"
    weights_share: float = 0.2
    n_units: int | None = None

    needs: ClassVar[tuple[str, ...]] = ("walk",)
    needs_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        mechanism = Exponential(self.epsilon, self.delta)
        one_of(self.weights, "weights", get_args(Weights), ModelError)
        if self.weights == "noise" and mechanism.delta == 0:
            raise BudgetError("Expected a delta for Gaussian noise, for example delta=1e-6.")
        if not 0 < float(self.weights_share) < 1:
            raise ModelError(f"Expected 0 < weights_share={self.weights_share} < 1.")
        if self.temperature is not None and not 1 <= float(self.temperature) < 1e9:
            raise ModelError(f"Expected temperature={self.temperature} >= 1.")
        counts = {
            "runs": whole_number(self.runs, "runs", 10, most=1000),
            "transitions": whole_number(self.transitions, "transitions", 1, most=1000),
            "candidates": whole_number(self.candidates, "candidates", 100, most=10**4),
        }
        if self.temperatures is not None:
            counts["temperatures"] = whole_number(
                self.temperatures, "temperatures", most=_MOST_TEMPERATURES
            )
        set_fields(self, epsilon=mechanism.epsilon, delta=mechanism.delta, **counts)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self, "runs=")
        state = self.start(task)
        return Spending((state.path.plan,), (self.ask(state),))

    def start(self, task: Task) -> AnnealedState:
        walk = task.model.walk(task.schema)
        # Before the first temperature stands the prior, which is public.
        points = walk.draw_prior(task.rng(0), self.runs)
        return AnnealedState(task, walk, self._path(walk, task), (points,))

    def ask(self, state: AnnealedState) -> Query:
        if not state.moving:
            return self._weighing(state)
        level, points = len(state.points) - 1, self._proposed(state)
        path, schema = state.path, state.task.schema
        # The clip at which the step's epsilon buys this level's temperature.
        both = 2 if schema.neighbours == "replace_one" else 1
        clip = path.epsilons[level] / (both * path.inverse_temperatures[level])
        return choice_query(state.walk, points, clip)

    def tell(self, state: AnnealedState, release: Release) -> AnnealedState:
        if not state.moving:
            return replace(state, weighing=(*state.weighing, release))
        moved = state.points[-1] if state.moved is None else state.moved
        moved = moved.copy()
        moved[state.run] = self._proposed(state)[int(release.value[0])]
        step = state.step + 1
        if step % (self.runs * self.transitions):
            return replace(state, moved=moved, step=step, release=release)
        points = (*state.points, moved)
        return replace(state, points=points, moved=None, step=step, release=release)

    def posterior(self, state: AnnealedState) -> Any:
        release = state.weighing[-1] if state.weighing else state.release
        ends, rng = state.points[-1], state.task.rng(1)
        inverse = state.path.inverse_temperatures
        kept, evidence = np.arange(self.runs), None
        match self.weights:
            case "choice":
                kept = np.array([int(chosen.value[0]) for chosen in state.weighing])
            case "noise":
                kept, evidence = draw_weights(_noisy_weights(release, state), _DRAWS, rng)
        posterior = state.task.model.walk_posterior(release, ends[kept])
        if evidence is not None:
            name = "log_evidence" if inverse[-1] == 1 else "log_tempered_evidence"
            draws = {**posterior.draws, name: evidence[None]}
            posterior = replace(posterior, draws=draws, dims={**posterior.dims, name: ()})
        return stamped(posterior, state.path.plan.count, 1 / inverse[-1], *self._notes(state))

    def _notes(self, state: AnnealedState) -> tuple[str, ...]:
        notes = [
            f"{self.runs} runs passed {len(state.path.epsilons)} temperatures, from "
            f"{1 / state.path.inverse_temperatures[0]:.4g} on; there are no more points than runs"
        ]
        if self.weights == "choice":
            chosen = len({int(each.value[0]) for each in state.weighing})
            notes.append(
                f"{chosen} of them were chosen, by their weights to the power "
                f"1 / {state.weighing[-1].noise[0].scale:.4g}"
            )
        return tuple(notes)

    def _proposed(self, state: AnnealedState) -> np.ndarray:
        """The present point of a run, and the candidates for its next."""
        now = state.points[-1] if state.moved is None else state.moved
        length = state.path.lengths[len(state.points) - 1]
        return nearby(now[state.run], length, self.candidates, state.task.rng(2 + state.step))

    def _weighing(self, state: AnnealedState) -> Choice | BoundedSum:
        walk, schema = state.walk, state.task.schema
        visited, powers = _weighted_points(state)
        rows = walk.log_likelihoods(visited)
        if self.weights == "choice":
            kernel, given = walk.combinations(visited, powers, lifted=True)
            scores = rows @ powers.T
            clip = _largest(scores - scores.min(axis=1, keepdims=True), schema)
            asked = BoundedSum(
                kernel, walk.columns, size=self.runs, clip=clip, geometry="box", state=given
            )
            return Choice(asked)
        level = powers.mean(axis=0, keepdims=True)
        spread = powers - level
        levels, norms = rows @ level.T, np.linalg.norm(rows @ spread.T, axis=1)
        centre = _centre(levels, walk, schema)
        constants = np.concatenate([[-centre], np.zeros(self.runs)])
        kernel, given = walk.combinations(visited, np.concatenate([level, spread]), constants)
        blocks = {
            "level": Bound(1, _largest(levels - centre, schema)),
            "spread": Bound(self.runs, _largest(norms, schema)),
        }
        return BoundedSum(kernel, walk.columns, blocks=blocks, state=given)

    def _path(self, walk: Walk, task: Task) -> Path:
        """The temperatures, the longest steps, and what is paid for them."""
        schema = task.schema
        units = 1 if task.n_units == 0 else task.known_units(self)
        rows = units * schema.max_rows_per_unit
        both = 2 if schema.neighbours == "replace_one" else 1
        moved = both * walk.max_gradient * schema.max_rows_per_unit
        size = walk.start.size
        return _lowest(self, Setting(rows * walk.curvature, walk.scale, moved, both, size))

    def path(self, x: float, setting: Setting, count: int | None = None) -> Path:
        """The path with x as the last inverse temperature; beyond 1, with longer steps.

        `count` is the number of temperatures, where no option says it.
        """
        information, scale, moved = setting.information, setting.scale, setting.moved
        last = min(1.0, x) if self.temperature is None else 1 / float(self.temperature)
        stretch = max(1.0, x) if self.temperature is None else x
        # Where the likelihood begins to say as much as the prior.
        first = min(1 / (information * scale**2), last / _RATIO)
        count = self.temperatures or count or 1 + math.ceil(math.log(last / first, _RATIO))
        inverse = np.geomspace(first, last, count) if count > 1 else np.array([last])
        inverse[-1] = last
        widths = (information * inverse + scale**-2) ** -0.5
        # Longer steps would leave too few candidates where the law is.
        reach = 2 * max(1.0, self.candidates / 2) ** (1 / setting.size)
        length = stretch * min(_WIDTH, reach) * widths[-1]
        epsilons = moved * last * length * (inverse / last) ** _FLATNESS
        epsilons = np.array([float(f"{each:.12g}") for each in epsilons])
        lengths = np.minimum(epsilons / (moved * inverse), reach * widths)
        return Path(inverse, lengths, epsilons, self._plan(epsilons, setting.both))

    def _plan(self, epsilons: np.ndarray, both: int) -> Plan:
        moves = self.runs * self.transitions
        steps = [Steps(moves, Exponential(each)) for each in epsilons.tolist()]
        # Ranges of epsilon cost epsilon^2 / 8 in zero-concentrated privacy.
        spent = moves * float(epsilons @ epsilons) / 8
        paid = spent * self.weights_share / (1 - self.weights_share)
        if self.weights == "choice":
            each = float(f"{(8 * paid / self.runs) ** 0.5:.12g}")
            steps.append(Steps(self.runs, Exponential(each)))
        elif self.weights == "noise":
            noise = Gaussian(noise_multiplier=both / (2 * paid) ** 0.5)
            steps.append(Steps(1, noise, numbers=1 + self.runs))
        return Plan(*steps, delta=self.delta)


@dataclass(frozen=True)
class Path:
    """What a run passes: inverse temperatures, the longest step and the epsilon at each."""

    inverse_temperatures: np.ndarray
    lengths: np.ndarray
    epsilons: np.ndarray
    plan: Plan


@dataclass(frozen=True)
class Setting:
    """What a path depends on: the curvature of all rows, the width of the prior, how far one unit
    moves the log-likelihood for a step of length one, 2 where a unit is replaced (else 1), and the
    number of parameters.
    """

    information: float
    scale: float
    moved: float
    both: int
    size: int


@lru_cache(maxsize=16)
def _lowest(method: AnnealedImportance, setting: Setting) -> Path:
    """The path to the lowest temperature that the budget affords."""
    neighbours: Neighbours = "replace_one" if setting.both == 2 else "add_remove"
    budget = Budget(method.epsilon, method.delta)

    def lowest(count: int | None, guess: float) -> tuple[Path, float]:
        made: dict[float, Path] = {}

        def make(noise: float) -> Plan:
            made[noise] = method.path(1 / noise, setting, count)
            return made[noise].plan

        plan = least_noise(make, budget, neighbours, guess)
        return next((path, noise) for noise, path in made.items() if path.plan is plan)

    path, noise = lowest(None, 10.0)
    spent, _ = plan_epsilon(path.plan, neighbours)
    if spent < 0.99 * float(budget.epsilon):
        # One temperature more would cost too much; as many can come a little lower.
        path, _ = lowest(len(path.epsilons), noise)
    return path


@dataclass(frozen=True)
class AnnealedState:
    """Points (run, parameter) after each temperature, and as far as they have moved at the next."""

    task: Task
    walk: Walk
    path: Path
    points: tuple[np.ndarray, ...]
    moved: np.ndarray | None = None
    step: int = 0
    release: Release | None = None
    weighing: tuple[Release, ...] = ()

    @property
    def moving(self) -> bool:
        return len(self.points) <= len(self.path.epsilons)

    @property
    def run(self) -> int:
        """Whose turn it is."""
        return self.step % len(self.points[0])


def _weighted_points(state: AnnealedState) -> tuple[np.ndarray, np.ndarray]:
    """All points that were visited, and (run, point) with what each adds to a log weight.

    Eq. 46: the rise of the inverse temperature that a run met there.
    """
    rises = np.diff(state.path.inverse_temperatures, prepend=0.0)
    visited = np.concatenate(state.points[:-1])
    runs = len(state.points[0])
    return visited, np.kron(rises, np.eye(runs))


def _largest(contributions: np.ndarray, schema: Schema) -> float:
    """The clip that leaves rows of the public domain alone."""
    return max(float(np.abs(contributions).max()), 1e-9) * schema.max_rows_per_unit


def _centre(levels: np.ndarray, walk: Walk, schema: Schema) -> float:
    """Return the constant subtracted from every row's log-likelihood; 0 where n is secret.

    Where every unit has one complete row, what was taken off all of them is known.
    """
    complete = all(schema[name].default is not None for name in walk.columns)
    if schema.neighbours != "replace_one" or schema.max_rows_per_unit > 1 or not complete:
        return 0.0
    return float(levels.max() + levels.min()) / 2


def _noisy_weights(release: Release, state: AnnealedState) -> NoisyWeights:
    level, spread = release.table("level"), release.table("spread")
    visited, powers = _weighted_points(state)
    levels = state.walk.log_likelihoods(visited) @ powers.mean(axis=0)[:, None]
    taken = (release.n or 0) * _centre(levels, state.walk, release.schema)
    known = float(level.value[0]) + taken
    return NoisyWeights(known, spread.value, level.noise.scale, spread.noise.scale)

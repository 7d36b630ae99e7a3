"""Gibbs sampling through the wall: each update is a draw, paid for in advance."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

from tacit.accounting.plans import largest_plan
from tacit.methods.method import OneQuestion, Spending, Task, noted, tempered_note
from tacit.spec.budget import Budget, Number
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.errors import ModelError
from tacit.spec.gibbs import GibbsBlocks, Values
from tacit.spec.hidden_states import StateChain
from tacit.spec.mechanisms import Exponential
from tacit.spec.plan import Plan, Steps
from tacit.spec.queries import Query
from tacit.spec.release import Release

Scan = Literal["parallel", "systematic", "random"]
_NAMED = 3  # blocks whose temperatures a certificate gives one by one


@dataclass(frozen=True)
class PrivateGibbs(OneQuestion):
    """Draw a model's parameters block by block, each update by the exponential mechanism.

    Foulds et al. (2016, section 4.1), with the range of the scores in place of their bound, and
    bounded-range composition: 400 updates at epsilon 1 cost 96 and not 400. Every update is
    released, so that the guarantee holds whether or not the chain has converged. Draws are of a
    tempered posterior, wider than the posterior itself: that is the price.

    States of an `HMM` are drawn all at once, and are public. The class of a row
    (`NaiveBayesMixture`) and the topic of a word (`LDA`) are assigned behind the wall for each
    update, and forgotten. A log potential (`MarkovRandomField`) is drawn from a grid.

    Parameters
    ----------
    epsilon, delta
        What all sweeps cost together, or with `assume_converged` the last one.
    truncation
        The smallest probability of a level, as a share of 1 / levels; log potentials lie within
        log(1 / truncation) of 0. Smaller is more faithful, at a higher temperature.
    sweeps
        How often every block is drawn. The first half is not used.
    scan
        "systematic": block after block. "random": a block drawn at random, as many times.
        "parallel": all blocks in one update, where they are independent given the assignments.
        Default: "parallel" where the model allows it with `delta=0`, else "systematic", which with
        a delta has lower temperatures.
    assume_converged
        Run the chain of an `HMM` behind the wall and release its last sweep alone, as one posterior
        sample. That costs (epsilon, delta) only if the chain had come close to its target: the
        certificate lists this assumption, how close that delta allows, and what is left of the
        guarantee if it fails.
    """

    epsilon: Number | None = None
    delta: Number = 0
    _: KW_ONLY
    truncation: float | None = None
    sweeps: int | None = None
    scan: Scan | None = None
    assume_converged: bool = False

    needs: ClassVar[tuple[str, ...]] = ("gibbs",)

    def __post_init__(self) -> None:
        default = 200 if self.assume_converged else 10
        sweeps = whole_number(self.sweeps, "sweeps", default, most=10**5)
        if self.scan is not None:
            one_of(self.scan, "scan", get_args(Scan), ModelError)
            if self.assume_converged:
                raise ModelError("Expected no scan= beside assume_converged=True.")
        set_fields(self, epsilon=self.mechanism.epsilon, delta=self.mechanism.delta, sweeps=sweeps)

    @property
    def mechanism(self) -> Exponential:
        return Exponential(self.epsilon, self.delta)

    def query(self, task: Task) -> StateChain:
        """The chain, as the wall runs it by itself."""
        if not hasattr(task.model, "state_chain"):
            raise ModelError(
                "Expected assume_converged=True with an HMM alone, whose chain the wall runs, not "
                f"with {type(task.model).__name__}."
            )
        return task.model.state_chain(truncation=self.truncation, sweeps=self.sweeps)

    def plan(self, task: Task) -> Spending:
        task.refuse_draws(self, "sweeps=")
        if self.assume_converged:
            return super().plan(task)
        state = self.start(task)
        updates = state.each * (self.sweeps or 0)
        plan = largest_plan(
            lambda x: Plan(Steps(updates, Exponential(x)), delta=self.delta),
            Budget(self.epsilon, self.delta),
            task.schema.neighbours,
        )
        return Spending((plan,), state.questions)

    def start(self, task: Task) -> Any:
        if self.assume_converged:
            return super().start(task)
        blocks = task.model.gibbs(task.schema, truncation=self.truncation)
        scan = self.scan
        if scan is None:
            scan = "parallel" if blocks.together and not self.delta else "systematic"
        if scan == "parallel" and not blocks.together:
            raise ModelError(
                'Expected scan="systematic" or "random" for '
                f"{type(task.model).__name__}, whose blocks depend on one another given the data."
            )
        return GibbsState(task, blocks, scan, blocks.start(task.rng(0)))

    def ask(self, state: Any) -> Query:
        if not isinstance(state, GibbsState):
            return super().ask(state)
        rng, names = state.next()
        return state.blocks.query(state.values, names, rng)

    def tell(self, state: Any, release: Release) -> Any:
        if not isinstance(state, GibbsState):
            return super().tell(state, release)
        rng, names = state.next()
        values = state.blocks.read(state.values, names, rng, release)
        state.temperatures.append((names, release.noise[0].scale))
        if (state.step + 1) % state.each == 0:
            state.kept.append(values)
        return replace(state, values=values, step=state.step + 1, release=release)

    def posterior(self, state: Any) -> Any:
        if not isinstance(state, GibbsState):
            found = super().posterior(state)
            return noted(found, tempered_note(state.release.noise[0].scale))
        half = (self.sweeps or 0) // 2
        model = state.task.model
        return noted(
            model.gibbs_posterior(state.release, state.kept[half:]),
            f"every one of the {state.step} updates is public: the guarantee needs no convergence",
            "the target is tempered, prior x likelihood^(1/T): T = "
            + _temperatures(state.temperatures[half * state.each :]),
            *getattr(model, "gibbs_notes", ()),
        )


@dataclass(frozen=True)
class GibbsState:
    """The public state of the sampler, and what it was after each sweep."""

    task: Task
    blocks: GibbsBlocks
    scan: Scan
    values: Values
    step: int = 0
    release: Release | None = None
    kept: list[Values] = field(default_factory=list)
    temperatures: list[tuple[tuple[str, ...], float]] = field(default_factory=list)

    @property
    def each(self) -> int:
        """Updates of a sweep."""
        return 1 if self.scan == "parallel" else len(self.blocks.names)

    @property
    def questions(self) -> tuple[Query, ...]:
        """A question of each form: what the wall would refuse of a block, it refuses unpaid."""
        names = self.blocks.names
        forms = (names,) if self.scan == "parallel" else tuple((name,) for name in names)
        return tuple(self.blocks.query(self.values, form, self.task.rng(0)) for form in forms)

    def next(self) -> tuple[Any, tuple[str, ...]]:
        """The next update's public randomness, and the blocks that it draws."""
        rng, names = self.task.rng(1 + self.step), self.blocks.names
        match self.scan:
            case "parallel":
                return rng, names
            case "systematic":
                return rng, (names[self.step % len(names)],)
            case "random":
                return rng, (names[int(rng.integers(len(names)))],)


def _temperatures(found: list[tuple[tuple[str, ...], float]]) -> str:
    """The temperatures of each block's updates in words, of many blocks together."""
    by: dict[tuple[str, ...], list[float]] = {}
    for names, scale in found:
        by.setdefault(names, []).append(scale)
    if len(by) > _NAMED:
        return f"{_span([scale for _, scale in found])} for {len(by)} blocks"
    if len(by) == 1 and len(next(iter(by))) > 1:
        return f"{_span(next(iter(by.values())))} for all blocks"
    return ", and ".join(f"{_span(scales)} for {names[0]}" for names, scales in by.items())


def _span(scales: list[float]) -> str:
    ends = [f"{end(scales):.4g}" for end in (min, max)]
    return ends[0] if ends[0] == ends[1] else f"from {ends[0]} to {ends[1]}"

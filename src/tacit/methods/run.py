"""The one loop: quote, pay, ask, tell, count progress; replay and resume under a name."""

from __future__ import annotations

import hashlib
import re
import secrets
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tacit.methods.method import Once, Task
from tacit.spec.errors import (
    InferenceWarning,
    ModelError,
    OverBudgetError,
    ReplacedError,
    TacitError,
)
from tacit.spec.protocols import Releaser

_MOST_KEPT = 20  # answers that are stored until a method's state replaces them


def run(
    method: Any,
    model: Any,
    releaser: Releaser,
    *,
    name: str | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Pay for what the method plans, ask and tell step by step, and return its posterior.

    Under a name every answer is stored before it is handed out. Running again returns the stored
    answers to the same questions, for nothing, and goes on where the last run stopped. Where a
    method has `save`, its state is stored in place of old answers.
    """
    with before_the_charge(releaser):
        task = task_of(method, model, releaser, name, options)
        spending = method.plan(task)
        for query, mechanism in spending.trials:
            releaser.quote(query, mechanism)  # what would be refused is refused before it is paid
        state = method.start(task)
    steps = sum(1 if isinstance(p, Once) else p.count for p in spending.payments)
    paid = 0
    with showing(steps, progress) as shown:
        try:
            for payment in spending.payments:
                own = name_of_payment(name, paid, len(spending.payments))
                if isinstance(payment, Once):
                    release = releaser.release(method.ask(state), payment.mechanism, name=own)
                    state = method.tell(state, release)
                    shown.advance(1)
                else:
                    lease = releaser.prepay(payment, name=own)
                    step = 0
                    while step < payment.count:
                        state, after = stepped(method, model, state, lease, step)
                        if after % _MOST_KEPT == 0 and after < payment.count:
                            keep(method, model, state, lease)
                        shown.advance(after - step)
                        step = after
                paid += 1
        except KeyboardInterrupt:
            # What was paid for in parts may end after any of them.
            if not paid or not getattr(method, "stops_early", False):
                raise
        except OverBudgetError as error:
            if name is None:
                adding(error, "What is asked under a name, fit(..., name=...), is free to repeat.")
            raise
        shown.sampling()
        posterior = _posterior(method, state, releaser, name)
    for text in getattr(posterior, "warnings", ()):
        warnings.warn(text, InferenceWarning, stacklevel=3)
    return posterior


def _posterior(method: Any, state: Any, releaser: Releaser, name: str | None) -> Any:
    """The posterior; what is refused only now says that the answers were paid for."""
    try:
        return method.posterior(state)
    except TacitError as error:
        if releaser.remaining is not None:
            kept = "" if name is None else f", and the answers are stored under {name!r}"
            adding(error, f"What was asked is paid for{kept}.")
        raise


def name_of_payment(name: str | None, paid: int, parts: int) -> str | None:
    """The name under which a method's next payment is stored, after `paid` of `parts`."""
    return name if name is None or parts == 1 else f"{name} ({paid + 1} of {parts})"


@contextmanager
def before_the_charge(releaser: Any) -> Iterator[None]:
    """Add to errors raised inside that nothing was spent, unless the data are public."""
    try:
        yield
    except TacitError as error:
        free = getattr(releaser, "remaining", ...) is None
        if not free and not re.search("spent|charged", str(error)):
            adding(error, "Nothing was read or spent.")
        raise


def adding(error: TacitError, sentence: str) -> TacitError:
    """Return the error with a sentence added to its message."""
    error.args = (f"{str(error).rstrip('.')}. {sentence}",)
    return error


def stepped(method: Any, model: Any, state: Any, lease: Any, step: int) -> tuple[Any, int]:
    """The state after one more step, or after all whose answers a stored state replaced."""
    try:
        return method.tell(state, lease.release(method.ask(state))), step + 1
    except ReplacedError as replaced:
        of, facts = replaced.facts["of"], replaced.facts["state"]
        if of != [repr(method), repr(model)]:
            raise ModelError(
                "Expected the method and the model that the name stands for, "
                f"{' and '.join(of)}: choose another. Nothing was read or spent."
            ) from None
        return method.resume(state, facts), replaced.step


def keep(method: Any, model: Any, state: Any, lease: Any) -> None:
    """Store the state in place of old answers, where these are stored and the method can."""
    saved = method.save(state) if hasattr(method, "save") else None
    if saved is not None and hasattr(lease, "keep_state"):
        of = [repr(method), repr(model)]
        with suppress(TacitError):  # the answers are then still there, and take more room
            lease.keep_state({"of": of, "state": saved}, since=saved["since"])


def task_of(
    method: Any, model: Any, releaser: Releaser, name: str | None, options: dict[str, Any]
) -> Task:
    """What the method may know, with a seed that a run under the same name has again."""
    return Task(
        model=model,
        schema=releaser.schema,
        n_units=releaser.n_units if getattr(method, "needs_units", False) else None,
        options=options,
        private=releaser.remaining is not None,
        seed=seed_of(name, options.get("seed")),
    )


def seed_of(name: str | None, seed: int | None) -> int:
    """The seed that was given, or that of the name."""
    if seed is not None:
        return seed
    if name is None:
        return secrets.randbits(64)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])


class Shown:
    """What a user sees of a run: nothing."""

    def advance(self, steps: int) -> None:
        """`steps` more questions were answered."""

    def sampling(self) -> None:
        """Draws from the posterior begin."""


class Bars(Shown):
    """A bar of the questions, and one that moves while draws are taken or code is compiled."""

    def __init__(self, progress: Any, steps: int) -> None:
        self._progress = progress
        self._task = progress.add_task("Asking", total=steps)

    def advance(self, steps: int) -> None:
        self._progress.advance(self._task, steps)

    def sampling(self) -> None:
        self._progress.add_task("Drawing from the posterior (compiles at first)", total=None)


@contextmanager
def showing(steps: int, show: bool | None) -> Iterator[Shown]:
    """What to tell of progress; it is shown on a terminal, or where it is asked for."""
    if not (sys.stderr.isatty() if show is None else show):
        yield Shown()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bars(progress, steps)

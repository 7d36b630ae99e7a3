"""What can be refused. Each message is one sentence that says what to write instead."""

from __future__ import annotations

from typing import Any


class TacitError(Exception):
    """Anything Tacit refuses; the command line prints it as one sentence."""


class SchemaError(TacitError, ValueError):
    """The public description of the data is incomplete or contradictory."""


class BudgetError(TacitError, ValueError):
    """A privacy parameter is not a usable number."""


class QueryError(TacitError, ValueError):
    """A question that the schema cannot answer."""


class ModelError(TacitError, ValueError):
    """A model, method or option that does not fit the others."""


class SourceError(TacitError):
    """The path, header or type of the data source is unusable; never a single cell."""


class LedgerError(TacitError):
    """The ledger is locked, unreadable, broken or belongs to another study."""


class NameTakenError(LedgerError):
    """The name stands for another question. No data were read and no budget was spent."""


class ReplacedError(LedgerError):
    """Stored answers were replaced by `facts`, a method's public state after `step` answers."""

    def __init__(self, name: str, step: int, facts: Any) -> None:
        self.step, self.facts = step, facts
        super().__init__(
            f"Old answers under the name {name!r} were replaced by the state after step {step}: "
            "only the method that was run under it can go on. Nothing was read or spent."
        )


class StudyError(TacitError, ValueError):
    """A study file does not say what is needed."""


class FileError(TacitError):
    """A result file is not what it should be."""


class OverBudgetError(TacitError):
    """The charge would exceed the budget. Nothing was read and nothing was spent."""

    def __init__(self, requested: str, remaining: str) -> None:
        self.requested = requested
        self.remaining = remaining
        super().__init__(
            f"Over budget: requested {requested}, remaining {remaining}. "
            "No data were read and no budget was spent."
        )


class PolicyError(TacitError):
    """The custodian's policy does not allow it. Nothing was read and nothing was spent."""


class StoppedError(TacitError):
    """The custodian's data set answers nothing until its custodian has looked."""


class RemoteError(TacitError):
    """The custodian's server cannot be reached, or does not answer as Tacit's would."""


class PrivacyWarning(UserWarning):
    """A warning that the epsilon or delta asked for protects people little."""


class InferenceWarning(UserWarning):
    """Intervals may be wrong: a chain has not mixed, or noise hides what they rest on."""

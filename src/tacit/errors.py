"""What Tacit refuses or doubts, each in one sentence; a refusal says what to write instead."""

from tacit.spec.errors import (
    BudgetError,
    FileError,
    InferenceWarning,
    LedgerError,
    ModelError,
    NameTakenError,
    OverBudgetError,
    PolicyError,
    PrivacyWarning,
    QueryError,
    RemoteError,
    SchemaError,
    SourceError,
    StoppedError,
    StudyError,
    TacitError,
)

__all__ = [
    "BudgetError",
    "FileError",
    "InferenceWarning",
    "LedgerError",
    "ModelError",
    "NameTakenError",
    "OverBudgetError",
    "PolicyError",
    "PrivacyWarning",
    "QueryError",
    "RemoteError",
    "SchemaError",
    "SourceError",
    "StoppedError",
    "StudyError",
    "TacitError",
]

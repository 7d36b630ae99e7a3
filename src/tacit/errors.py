"""What Tacit refuses, each with one sentence that says what to write instead."""

from tacit.spec.errors import (
    BudgetError,
    FileError,
    LedgerError,
    ModelError,
    OverBudgetError,
    QueryError,
    SchemaError,
    SourceError,
    StudyError,
    TacitError,
)

__all__ = [
    "BudgetError",
    "FileError",
    "LedgerError",
    "ModelError",
    "OverBudgetError",
    "QueryError",
    "SchemaError",
    "SourceError",
    "StudyError",
    "TacitError",
]

"""A table, with columns of texts or not, or a matrix of documents: opened, counted and read."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse

from tacit.sources.documents import Documents, DocumentSource, open_documents
from tacit.sources.opening import open_source
from tacit.sources.rows import Rows, count_units, load_rows
from tacit.sources.source import Snapshot, Source
from tacit.sources.texts import read_texts
from tacit.sources.units import WHICH_ROWS
from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema
from tacit.spec.texts import check_words

Data = Rows | Documents
AnySource = Source | DocumentSource
AnySnapshot = Snapshot | DocumentSource


def open_data(data: Any, schema: Schema, owners: Any = None) -> AnySource:
    """Check path, header, shapes and types. No cell is looked at."""
    if issparse(data):
        return open_documents(data, schema, owners)
    if owners is not None:
        raise SourceError("Expected owners= beside a sparse matrix only; a table has a column.")
    for column in schema.columns:
        if isinstance(column, Tokens):  # words that can be found in texts
            check_words(column.vocabulary)
    return open_source(data, schema)


def check_header(source: AnySource) -> None:
    """Refuse a file or table whose columns have changed since it was opened. Reads no cell."""
    if isinstance(source, Source):
        source.check()


def protected(schema: Schema) -> dict[str, Any]:
    """Who is protected and how much of each is used: what one ledger is for."""
    facts = {"unit": schema.unit, "max_rows_per_unit": schema.max_rows_per_unit}
    which = {} if schema.unit is None else {"which_rows": WHICH_ROWS}
    return {**facts, **which, "neighbours": schema.neighbours}


def units_of_data(source: AnySource, schema: Schema) -> int:
    """How many units there are."""
    with source.snapshot() as data:
        return count_units(data, schema) if isinstance(data, Snapshot) else data.units()


def load(data: AnySnapshot, schema: Schema, columns: tuple[str, ...]) -> Data:
    """What kernels run over, read once: the documents of one column, or rows of numbers."""
    if isinstance(data, DocumentSource):
        return data.read()
    match [schema[name] for name in columns]:
        case [Tokens() as column]:
            return read_texts(data, schema, column)
    return load_rows(data, schema, columns)

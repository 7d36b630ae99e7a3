"""Any source: a table, a matrix of documents, or a table with texts. Opened, counted and read."""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse

from tacit.sources.documents import Documents, DocumentSource, open_documents
from tacit.sources.rows import Rows, count_units, load_rows
from tacit.sources.source import Source, open_source
from tacit.sources.texts import TextSource, open_texts
from tacit.spec.columns import Tokens
from tacit.spec.errors import SourceError
from tacit.spec.schema import Schema

Data = Rows | Documents
AnySource = Source | DocumentSource | TextSource


def open_data(data: Any, schema: Schema, owners: Any = None) -> AnySource:
    """Check path, header, shapes and types. No cell is looked at."""
    if issparse(data):
        return open_documents(data, schema, owners)
    if owners is not None:
        raise SourceError("Expected owners= beside a sparse matrix only; a table has a column.")
    source = open_source(data, schema)
    if any(isinstance(column, Tokens) for column in schema.columns):
        return open_texts(source, schema)
    return source


def check_header(source: AnySource) -> None:
    """Refuse a file or table whose columns have changed since it was opened. Reads no cell."""
    match source:
        case Source():
            source.check()
        case TextSource(table=table):
            table.check()


def units_of_data(source: AnySource, schema: Schema) -> int:
    """How many units there are."""
    return count_units(source, schema) if isinstance(source, Source) else source.units()


def load(source: AnySource, schema: Schema, columns: tuple[str, ...]) -> Data:
    """What kernels run over, read once."""
    return load_rows(source, schema, columns) if isinstance(source, Source) else source.read()

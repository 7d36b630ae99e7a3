"""CSV and Parquet files: checked by their header, read in batches, and never refused for a cell."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tacit.sources.cells import Raw, is_textual
from tacit.sources.delimited import records
from tacit.sources.source import Snapshot
from tacit.sources.tables import folded
from tacit.spec.csv_file import CSV
from tacit.spec.errors import SourceError

CSV_NAMES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
_LONGEST_LINE = 2**20
_MOST_FOLDED = 2**31  # bytes of texts that Arrow keeps each once
_ROWS = 2**16  # of a batch: columns that fit into the processor's cache


def parquet_schema(path: Path) -> pa.Schema:
    try:
        return pyarrow.parquet.read_schema(path)
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a Parquet file')}.") from None
    except pa.ArrowException:
        raise SourceError(f"Cannot read {path}: not a Parquet file.") from None


@contextmanager
def open_parquet(path: Path) -> Iterator[Snapshot]:
    """A Parquet file as it is now: one that takes its place by name is not looked at."""
    with pa.OSFile(str(path)) as opened:
        facts = pyarrow.parquet.read_metadata(opened)
        # Without a buffer of the whole file, and columns in turn: memory and work stay small.
        options = {"metadata": facts, "pre_buffer": False, "buffer_size": 2**22}
        file = pyarrow.parquet.ParquetFile(opened, read_dictionary=_folded(facts), **options)

        def batches(wanted: Sequence[str]) -> Iterator[list[Raw]]:
            for batch in file.iter_batches(_ROWS, columns=list(wanted), use_threads=False):
                yield [folded(batch.column(name)) for name in wanted]

        yield Snapshot(batches)


def _folded(facts: pyarrow.parquet.FileMetaData) -> list[str]:
    """The columns of texts to be read as dictionaries, each different cell once.

    With 32-bit indices, whatever type the file names: a cell must not be one too many. And not
    where all texts together may be too long for a dictionary of Arrow.
    """  # proof: cells
    leaves = [facts.schema.column(leaf).path for leaf in range(facts.num_columns)]
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]

    def size(name: str) -> int:
        leaf = leaves.index(name)
        return sum(int(group.column(leaf).total_uncompressed_size) for group in groups)

    found = []
    for field in facts.schema.to_arrow_schema():
        encoded = pa.types.is_dictionary(field.type)
        textual = is_textual(field.type.value_type if encoded else field.type)
        if textual and (encoded or size(field.name) < _MOST_FOLDED):
            found.append(field.name)
    return found


def csv_header(file: CSV) -> list[str]:
    """The column names, which are all that is looked at before a charge; none in an empty file."""
    path = Path(file.path)
    try:
        with _opened(path) as opened:
            line = opened.readline(_LONGEST_LINE).removeprefix(b"\xef\xbb\xbf")
    except (EOFError, OSError, zlib.error) as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a gzip file')}.") from None
    if line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line:
        raise SourceError(
            f"Cannot read {path}: its header is UTF-16 or UTF-32. Write it as UTF-8 first, for "
            f"example: iconv -f utf-16 -t utf-8 {path.name} > utf8.csv. Nothing was charged."
        )
    if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        raise SourceError(f"Cannot read {path}: its lines do not end as those of a CSV do.")
    letters, raw = file.letters, line.rstrip(b"\r\n")
    text = raw.decode("utf-8", "surrogateescape")
    if letters is not None:
        text = raw.decode("latin-1").translate(letters)
    names = _split(text, str(file.separator), path)
    if line and not names:
        raise SourceError(f"{path} has no header line; expected column names in its first line.")
    return names


def _split(text: str, separator: str, path: Path) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=separator, strict=True), [])
    except csv.Error:
        raise SourceError(
            f"Cannot read {path}: a quotation mark in its first line, the header, is not closed or "
            "stands within a name, or a name is too long."
        ) from None


def how_to_read(file: CSV, header: Sequence[str], wanted: Sequence[str]) -> str:
    """What to write where the header has all that is wanted, but for its separator or encoding.

    No more of the header is quoted than names that are known: it might be a record.
    """
    path = Path(file.path)
    for separator in (";", "\t", "|", ","):
        with suppress(SourceError):
            names = csv_header(replace(file, separator=separator))
            if separator != file.separator and set(wanted) <= set(names):
                return (
                    f" Its names stand between {separator!r}: write tacit.CSV({path.name!r}, "
                    f"separator={separator!r}), in a study file separator = "
                    f"{json.dumps(separator)} under [data]. Nothing was charged."
                )
    if any(not name.isprintable() for name in header):  # surrogates: bytes that are not UTF-8
        return (
            " Its header is not UTF-8: write "
            f'tacit.CSV({path.name!r}, encoding="latin-1") or another. Nothing was charged.'
        )
    return ""


@contextmanager
def open_csv(file: CSV, header: Sequence[str], numeric: Container[str] = ()) -> Iterator[Snapshot]:
    """A CSV as it is now, its cells as bytes of UTF-8; `numeric` ones with decimal points."""
    letters = file.letters
    with _opened(Path(file.path)) as opened:

        def batches(wanted: Sequence[str]) -> Iterator[list[Raw]]:
            where = [header.index(name) for name in wanted]
            commas = [file.decimal == "," and name in numeric for name in wanted]
            opened.seek(0)
            for cells in records(opened, str(file.separator), len(header), where):
                found = cells if letters is None else [_transcoded(each, letters) for each in cells]
                yield [
                    pc.replace_substring(each, b",", b".") if comma else each
                    for each, comma in zip(found, commas, strict=True)
                ]

        yield Snapshot(batches)


def _transcoded(cells: pa.Array, letters: Mapping[int, str]) -> pa.Array:
    """Cells in UTF-8, byte by byte: no cell changes what another one says."""  # proof: cells
    sizes = np.array([len(letters[byte].encode()) for byte in range(256)], np.int64)
    raw = np.frombuffer(cells.buffers()[2] or b"", np.uint8)
    ends = np.frombuffer(cells.buffers()[1], np.int64)
    offsets = np.append(0, np.cumsum(sizes[raw]))[ends]
    data = raw.tobytes().decode("latin-1").translate(letters).encode()
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(cells), buffers)


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _reason(error: BaseException, otherwise: str) -> str:
    return getattr(error, "strerror", None) or otherwise

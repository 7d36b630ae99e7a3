"""CSV and Parquet files: checked by their header, read in batches, and never refused for a cell."""

from __future__ import annotations

import csv
import gzip
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import duckdb
import pyarrow as pa
import pyarrow.parquet

from tacit.sources.cells import TEXT, Raw
from tacit.sources.tables import BATCH, plain
from tacit.spec.errors import SourceError

CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
PARQUET = (".parquet", ".pq")
_LONGEST_LINE = 2**20
_RETURN = "\u0100"  # stands for a carriage return, which the csv module refuses inside a cell

csv.field_size_limit(2**31 - 1)  # for the whole process: raised once, so that no thread lowers it


def parquet_schema(path: Path) -> pa.Schema:
    try:
        return pyarrow.parquet.read_schema(path)
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a Parquet file')}.") from None
    except pa.ArrowException:
        raise SourceError(f"Cannot read {path}: not a Parquet file.") from None


def parquet_batches(path: Path, wanted: Sequence[str]) -> Iterator[list[Raw]]:
    """The wanted columns, batch by batch."""
    # Whether the file was written as text or as bytes: what lies in it is not decoded here.
    file = pyarrow.parquet.ParquetFile(path)
    for batch in file.iter_batches(BATCH, columns=list(wanted)):
        yield [plain(batch.column(name)) for name in wanted]


def delimiter_of(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower() else ","


def csv_header(path: Path) -> list[str]:
    """The column names, which are all that is looked at before a charge; none in an empty file."""
    try:
        with _opened(path) as file:
            line = file.readline(_LONGEST_LINE).removeprefix(b"\xef\xbb\xbf")
        if b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
            raise SourceError(f"Cannot read {path}: its lines do not end as those of a CSV do.")
    except (EOFError, OSError) as error:
        raise SourceError(f"Cannot read {path}: {_reason(error, 'not a gzip file')}.") from None
    text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    names = next(csv.reader([text], delimiter=delimiter_of(path)), [])
    if line and not names:
        raise SourceError(f"{path} has no header line; expected column names in its first line.")
    return names


def csv_batches(path: Path, where: Sequence[int]) -> Iterator[list[Raw]]:
    """The columns at these places, batch by batch, as bytes."""
    return _plain_csv(path, where) if csv_is_plain(path) else _any_csv(path, where)


def csv_is_plain(path: Path) -> bool:
    """Whether there is nothing in the file that two readers could read differently."""
    terminators = set()
    with _opened(path) as file:
        while chunk := file.read(2**22):
            chunk += file.readline()  # to the end of a line, so that nothing is cut in two
            if b'"' in chunk or chunk.count(b"\r") != chunk.count(b"\r\n"):
                return False
            if not _is_utf8(chunk) or max(map(len, chunk.split(b"\n"))) > _LONGEST_LINE:
                return False
            terminators.add((b"\r\n" in chunk, chunk.count(b"\n") != chunk.count(b"\r\n")))
    return len(terminators) <= 1 and (True, True) not in terminators


def _plain_csv(path: Path, where: Sequence[int]) -> Iterator[list[Raw]]:
    """By DuckDB, several times as fast: everything is text and nothing is guessed from the rows."""
    width = len(csv_header(path))
    names = [f"f{i}" for i in range(width)]
    with (
        tempfile.TemporaryDirectory(prefix="tacit-") as folder,
        duckdb.connect(
            config={"temp_directory": folder, "autoinstall_known_extensions": "false"}
        ) as engine,
    ):
        table = engine.read_csv(
            str(path),
            columns=dict.fromkeys(names, "VARCHAR"),
            auto_detect=False,
            header=True,
            delimiter=delimiter_of(path),
            hive_partitioning=False,
            null_padding=True,
            strict_mode=False,
            ignore_errors=True,
            parallel=False,
        )
        chosen = ", ".join(f"encode(f{i})" for i in where)
        for batch in table.project(chosen).to_arrow_reader(BATCH):
            yield list(batch.columns)


def _any_csv(path: Path, where: Sequence[int]) -> Iterator[list[Raw]]:
    """Any CSV at all: short rows are padded, long ones cut, none is lost."""
    width = len(csv_header(path))
    with _opened(path) as file:
        rows = _records(file, delimiter_of(path))
        next(rows, None)
        while some := list(itertools.islice(rows, BATCH)):
            # A blank line is no row, unless there is only one column to leave blank.
            kept = [
                row if len(row) >= width else row + [""] * (width - len(row))
                for row in some
                if row or width == 1
            ]
            yield [pa.array([_bytes(row[i]) for row in kept], TEXT) for i in where]


def _records(file: IO[bytes], delimiter: str) -> Iterator[list[str]]:
    """The records of a CSV, a character for each byte, but for the byte order mark.

    Carriage returns stay what they are, but for one that ends a record.
    """
    line = b""

    def lines() -> Iterator[str]:
        nonlocal line
        for number, line in enumerate(file):
            read = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
            yield read.decode("latin-1").replace("\r", _RETURN)

    for row in csv.reader(lines(), delimiter=delimiter):
        if row and line.endswith((b"\r\n", b"\r")):
            row[-1] = row[-1].removesuffix(_RETURN)
            yield [] if row == [""] and not line.strip(b"\r\n") else row
        else:
            yield row


def _bytes(cell: str) -> bytes:
    return cell.replace(_RETURN, "\r").encode("latin-1")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def _reason(error: BaseException, otherwise: str) -> str:
    return getattr(error, "strerror", None) or otherwise

"""Tables that Spark reads from Parquet files, in batches of Arrow.

The cluster scans, and groups and counts bytes. A view, and a file that is parsed as it is read (CSV
or JSON), is refused: Spark would compute, and could fail for a single cell. So are times in
milliseconds, which Spark multiplies, and files that do not agree on a column's type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import pyarrow as pa

from tacit.sources.cells import LONGEST
from tacit.sources.engines.sql import Column, Session, source, utc
from tacit.sources.source import Source
from tacit.spec.errors import SourceError
from tacit.spec.table import Table

# In a session of our own, so that neither side changes how the other reads.
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # from cells in paths
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",  # types are those of the files
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(2**16),
    "spark.sql.execution.arrow.useLargeVarTypes": "true",  # no cell is too long
    # What is grouped is small; otherwise each of a hundred empty partitions would be a job.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
}

# What a table's own options or the cluster's settings say otherwise must not hold.
_OPTIONS = {
    "datetimeRebaseMode": "CORRECTED",  # EXCEPTION fails for one old date
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}


def open_table(table: Table, wanted: Sequence[str]) -> Source:
    """A stored table of a cluster. No cell is looked at."""
    session = _session(table)
    found = source(partial(_opened, table, session), wanted, table.version)
    _check_workers(session)
    return found


def _session(table: Table) -> Any:
    """A session with settings of its own, on the caller's cluster."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError(
            'Reading Spark needs its client: pip install "tacit[spark]". Nothing was charged.'
        ) from None
    session = table.source
    if isinstance(session, str):
        session = SparkSession.builder.master(session).getOrCreate()
    if not isinstance(session, SparkSession):
        raise SourceError(
            f"Expected a Spark session, its address or an address of PostgreSQL, got "
            f"{type(session).__name__}. Nothing was charged."
        )
    own = session.newSession()
    for name, value in _SETTINGS.items():
        own.conf.set(name, value)
    return own


def _check_workers(session: Any) -> None:
    """Have the cluster send one number: its workers need Python with pyarrow."""
    try:
        number = list(_batches(session.range(1)))
    except Exception:  # noqa: BLE001
        number = []
    if not number:
        raise SourceError(
            "Spark's workers cannot send batches of Arrow: they need Python with pyarrow, by the "
            "path in PYSPARK_PYTHON. Nothing was charged."
        )


@contextmanager
def _opened(table: Table, session: Any) -> Iterator[Session]:
    """One version of the data: the files that the table consists of now."""
    frame = _frame(table, session)  # proof: one-version

    def chosen(columns: Sequence[Column]) -> Any:
        return frame.selectExpr(*(f"{c.expression} AS c{i}" for i, c in enumerate(columns)))

    def grouped(tables: Sequence[Sequence[Column]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for i, columns in enumerate(tables):  # quicker than one query with grouping sets
            counted = chosen(columns).groupBy(*(f"c{j}" for j in range(len(columns)))).count()
            yield from ((i, batch) for batch in _batches(counted))

    yield Session(
        columns={field.name: _read(field.name, field.dataType) for field in frame.schema},
        check=lambda names: _check_files(table, session, frame, names),
        scan=lambda columns: _batches(chosen(columns)),
        group=grouped,
    )


def _frame(table: Table, session: Any) -> Any:
    """The stored table, its list of files made anew; what is said of a failure may quote paths."""
    from pyspark.errors import PySparkException

    # An option that nobody else gives: what the caller has cached, of whatever version and read by
    # whatever settings, is not taken for it.
    reader, name = session.read.options(**_OPTIONS, tacit=uuid4().hex), table.name
    try:
        if "/" in name or name.endswith((".parquet", ".pq")):
            return reader.parquet(name)
        session.catalog.refreshTable(name)
        described = {
            row[0]: row[1] for row in session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
        }
        frame = reader.table(name)
    except PySparkException:
        raise SourceError(
            f"Spark cannot read {name!r}: expected a table of its catalog or a path of Parquet "
            "files. Nothing was charged."
        ) from None
    if described.get("Provider", "").lower() != "parquet" or "View Text" in described:
        raise SourceError(
            f"Expected a table that is stored as Parquet; {name!r} is a view, or in another form, "
            "which may fail for a single cell as it is read: write it as Parquet. "
            "Nothing was charged."
        )
    return frame


def _check_files(table: Table, session: Any, frame: Any, names: Sequence[str]) -> None:
    """Look into the header of each file: what is read there must be cells as they are stored."""
    jvm, hadoop = session._jvm, session._jsc.hadoopConfiguration()  # noqa: SLF001
    reader, input_file = (
        jvm.org.apache.parquet.hadoop.ParquetFileReader,
        jvm.org.apache.parquet.hadoop.util.HadoopInputFile,
    )
    types: dict[str, set[str]] = {name: set() for name in names}
    try:
        for file in frame.inputFiles():
            path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))
            opened = reader.open(input_file.fromPath(path, hadoop))
            try:
                fields = opened.getFileMetaData().getSchema()
            finally:
                opened.close()
            for name in names:
                types[name].add(str(fields.getType(name)).partition(" ")[2])
    except Exception:  # noqa: BLE001
        raise SourceError(
            f"The files of {table.name!r} cannot be read, or do not all have its columns. "
            "Nothing was charged."
        ) from None
    for name, found in types.items():
        if len(found) > 1:
            raise SourceError(
                f"The files of {table.name!r} do not agree on the type of {name!r}: write them "
                "with one. Nothing was charged."
            )
        if "MILLIS" in "".join(found):
            raise SourceError(
                f"Column {name!r} has times in milliseconds, which Spark multiplies as it reads "
                "them, and fails for a cell that is too large: write it in microseconds. "
                "Nothing was charged."
            )


def _batches(frame: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a frame, partition by partition, whatever their number."""

    def packed(batches: Any) -> Any:  # on a worker, which needs pyarrow and not Tacit
        import pyarrow

        for batch in batches:
            sink = pyarrow.BufferOutputStream()
            with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            cell = pyarrow.array([sink.getvalue().to_pybytes()], pyarrow.large_binary())
            yield pyarrow.RecordBatch.from_arrays([cell], ["batch"])

    rows = frame.mapInArrow(packed, "batch binary").toLocalIterator(prefetchPartitions=True)
    for row in rows:
        yield from pa.ipc.open_stream(row.batch)


def _read(name: str, kind: Any) -> Column | str:
    """How cells of a type are asked for: as they are, texts as their bytes."""
    cell = "`" + name.replace("`", "``") + "`"
    match kind.typeName():
        case "boolean":
            return Column(pa.bool_(), cell)
        case "byte" | "short" | "integer" | "long" | "tinyint" | "smallint" | "int" | "bigint":
            return Column(pa.int64(), cell)
        case "float" | "double":
            return Column(pa.float64(), cell, grouped=False)
        case "string" if kind.simpleString() == "string":
            return Column(pa.string(), _short(cell))  # by its bytes, as its collation is
        case "string" | "char" | "varchar":
            # proof: cells. Compared by its bytes, whatever the collation.
            return Column(pa.string(), _short(f"CAST({cell} AS BINARY)"))
        case "binary":
            return Column(pa.binary(), _short(cell))
        case "decimal":
            return Column(pa.decimal128(38, 0), cell)
        case "date":
            return Column(pa.date32(), cell)
        case "timestamp_ntz":
            return Column(pa.timestamp("us"), cell)
        case "timestamp":
            return Column(pa.timestamp("us", "UTC"), cell, utc)
    return str(kind.simpleString())


def _short(cell: str) -> str:
    """Bytes that are not too many to be read: Spark does not send a gigabyte to a driver."""
    return f"CASE WHEN octet_length({cell}) <= {LONGEST} THEN {cell} END"

"""A table that an engine holds: where the engine is, and the name of the table. Opens nothing."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from tacit.spec.checks import set_fields
from tacit.spec.errors import SourceError

DUCKDB = (".duckdb", ".ddb", ".db")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HOST = r"(?:[\w.%-]*|\[[0-9A-Fa-f:.]+\])(?::\d+)?"
# Nothing that could be a password fits, wherever it stands.
_POSTGRES = re.compile(
    r"postgres(?:ql)?://(?:[^:@/?#\s]*(?::\$\{\w+\})?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^:@/?#\s]*)?)(?:\?(?P<options>[^#\s]*))?"
)
_SPARK = re.compile(r"spark://[\w.:,-]+|yarn|local(?:\[[\d*]+\])?")
_OPTIONS = (
    *("application_name", "channel_binding", "connect_timeout", "dbname", "gssencmode", "host"),
    *("hostaddr", "keepalives", "krbsrvname", "passfile", "port", "service", "sslcert", "sslcrl"),
    *("sslkey", "sslmode", "sslrootcert", "target_session_attrs", "user"),
)


@dataclass(frozen=True, repr=False)
class Table:
    """A table of PostgreSQL, of Spark or of a DuckDB file.

    Parameters
    ----------
    source
        "postgresql://host/database", a Spark session or the address of a cluster
        ("spark://host:7077"), or the path of a DuckDB file. A password is never written here:
        PostgreSQL takes it from PGPASSWORD or ~/.pgpass, or write
        `postgresql://analyst:${VISITS_PASSWORD}@host/database`, where VISITS_PASSWORD is a variable
        of the environment.
    name
        "schema.table" or "table", as it is stored; in Spark also the path of Parquet files.
    version
        What you call this state of the data, such as "2026-11". The ledger notes it beside each
        charge; nothing else about the data is written down.

    Examples
    --------
    >>> Table("postgresql://analyst@db.hospital.example/visits", "public.visits")
    Table('postgresql://db.hospital.example/visits', 'public.visits')
    """

    source: Any
    name: str
    version: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SourceError('Expected the name of a table: tacit.Table(source, "schema.table").')
        if self.version is not None and not (isinstance(self.version, str) and self.version):
            raise SourceError('Expected version= to be a text, such as "2026-11".')
        if isinstance(self.source, os.PathLike):
            set_fields(self, source=str(self.source))
        if not isinstance(self.source, str):
            return
        found = _POSTGRES.fullmatch(self.source)
        if self.source.startswith("postgres") and "://" in self.source:
            _check_address(found)
        elif not _SPARK.fullmatch(self.source) and not self.source.endswith(DUCKDB):
            raise SourceError(
                'Expected source="postgresql://host/database", a Spark session, '
                f'"spark://host:7077" or the path of a DuckDB file ({", ".join(DUCKDB)}).'
            )

    @property
    def engine(self) -> str:
        """ "postgres", "duckdb" or "spark"."""
        if not isinstance(self.source, str) or _SPARK.fullmatch(self.source):
            return "spark"
        return "postgres" if _POSTGRES.fullmatch(self.source) else "duckdb"

    @property
    def address(self) -> str:
        """The source with what the environment says, for the engine alone: never kept or shown."""

        def value(found: re.Match[str]) -> str:
            if found[1] not in os.environ:
                raise SourceError(
                    f"The address of the data names {found[0]}, which the environment does not "
                    "have: set it. Nothing was charged."
                )
            return quote(os.environ[found[1]], safe="")

        return _VARIABLE.sub(value, self.source)

    @property
    def place(self) -> str:
        """Where the engine is, without users, passwords and options."""
        if not isinstance(self.source, str):
            return type(self.source).__name__
        found = _POSTGRES.fullmatch(self.source)
        return self.source if found is None else f"postgresql://{found['place']}"

    def beside(self, folder: Path) -> Table:
        """The table of a file whose path is relative to a folder; others as they are."""
        if self.engine != "duckdb":
            return self
        return Table(folder / Path(self.source).expanduser(), self.name, self.version)

    def __repr__(self) -> str:
        return f"Table({self.place!r}, {self.name!r})"


def _check_address(found: re.Match[str] | None) -> None:
    """Refuse a password, and what could be one. What was written is not quoted."""
    if found is None:
        raise SourceError(
            "Expected an address such as postgresql://user@host:5432/database, without a password: "
            "PostgreSQL takes it from PGPASSWORD or ~/.pgpass, or write ${NAME} in its place, a "
            "variable of the environment. Nothing was charged."
        )
    options = parse_qsl(found["options"] or "", keep_blank_values=True)
    if not {name for name, _ in options} <= set(_OPTIONS):
        raise SourceError(
            f"Expected options of the address among {', '.join(_OPTIONS)}; a password comes from "
            "PGPASSWORD or ~/.pgpass. Nothing was charged."
        )

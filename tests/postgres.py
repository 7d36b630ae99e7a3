"""Debian's PostgreSQL, started in a folder of its own, with fsync, for records and for ledgers.

Where it is missing its tests are skipped and say so; `make test-engines` installs it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import pyarrow as pa

LEDGERS = "canary-of-ledgers"  # the password of their owner
_AS_OWNER = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []


@dataclass
class Server:
    """A running PostgreSQL. Its owner comes by a socket; others by TCP, with a password."""

    programs: Path
    folder: Path
    port: int
    _made: Any = field(default_factory=count, repr=False)

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"

    def run(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Statements, each for itself; the rows of the last one."""
        from adbc_driver_postgresql import dbapi

        rows: list[Any] = []
        with dbapi.connect(self.address(database), autocommit=True) as connection:
            for statement in statements:
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    rows = cursor.fetchall() if cursor.description else []
        return rows

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    def fill(self, name: str, table: pa.Table | pa.RecordBatch, mode: str = "replace") -> None:
        from adbc_driver_postgresql import dbapi

        with (
            dbapi.connect(self.address(), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.adbc_ingest(name, table, mode=mode)

    def ledger(self) -> str:
        """The address of a ledger that is not made yet, in the database of its owner."""
        return f"postgresql://tacit@127.0.0.1:{self.port}/ledgers#visits{next(self._made)}"

    def call(self, program: str, *options: str) -> None:
        command = [*_AS_OWNER, str(self.programs / program), "-D", str(self.folder / "data")]
        with (self.folder / "output").open("ab") as output:
            subprocess.run(
                [*command, *options], check=True, cwd=self.folder, stdout=output, stderr=output
            )

    def start(self, *options: str) -> None:
        listening = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        given = " ".join([listening, *options])
        self.call("pg_ctl", "-w", "-t", "300", "-l", str(self.folder / "log"), "-o", given, "start")

    def stop(self, mode: str) -> None:
        """Stop as a crash would ("immediate"), or in order ("fast")."""
        self.call("pg_ctl", "-w", "-m", mode, "stop")


@contextmanager
def running() -> Iterator[Server]:
    for driver in ("adbc_driver_postgresql", "psycopg"):
        pytest.importorskip(driver, reason='pip install "tacit[postgres]" is missing')
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL: `make test-engines` installs Debian's, as root")
    if _AS_OWNER and shutil.which("runuser") is None:
        pytest.skip("no runuser, and PostgreSQL does not run as root")
    # A short path, since that of a socket has few letters.
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-", dir="/tmp"))
    if _AS_OWNER:
        shutil.chown(folder, "postgres")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        server = Server(found[-1].parent, folder, free.getsockname()[1])
    hosts = ("-A", "trust", "--auth-host=scram-sha-256")
    server.call("initdb", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", *hosts)
    server.start()
    server.run(f"CREATE ROLE tacit LOGIN PASSWORD '{LEDGERS}'")
    server.run("CREATE DATABASE ledgers OWNER tacit")
    try:
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server

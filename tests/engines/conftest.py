"""Real engines: Debian's PostgreSQL, started in a folder of its own, and Spark on Java 17.

Where one is missing its tests are skipped and say so; `make test-engines` installs both.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

PASSWORD = "canary/p@ss:wörd"


@dataclass
class Server:
    """A running PostgreSQL. Its owner comes by a socket; `analyst` by TCP, with a password."""

    folder: Path
    port: int

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

    def fill(self, name: str, table: pa.Table) -> None:
        from adbc_driver_postgresql import dbapi

        with (
            dbapi.connect(self.address(), autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.adbc_ingest(name, table, mode="replace")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("adbc_driver_postgresql", reason='pip install "tacit[postgres]" is missing')
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL: `make test-engines` installs Debian's, as root")
    if os.getuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("no runuser, and PostgreSQL does not run as root")
    programs = found[-1].parent
    # A short path, since that of a socket has few letters.
    folder = Path(tempfile.mkdtemp(prefix="tacit-pg-", dir="/tmp"))
    as_owner: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        as_owner = ["runuser", "-u", "postgres", "--"]
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def call(program: str, *options: str) -> None:
        command = [*as_owner, str(programs / program), "-D", str(folder / "data"), *options]
        with (folder / "output").open("ab") as output:
            subprocess.run(command, check=True, cwd=folder, stdout=output, stderr=output)

    hosts = ("-A", "trust", "--auth-host=scram-sha-256")
    call("initdb", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", *hosts)
    settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", settings, "start")
    try:
        yield Server(folder, port)
    finally:
        call("pg_ctl", "-w", "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests: to start it takes some ten seconds."""
    sql = pytest.importorskip("pyspark.sql", reason='pip install "tacit[spark]" is missing')
    java = next(iter(sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))), None)
    if java is None:
        pytest.skip("no Java 17: `make test-engines` installs Debian's, as root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        folder = tempfile.mkdtemp(prefix="tacit-spark-")
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", folder)
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

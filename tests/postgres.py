"""A real PostgreSQL for tests: a server of their own, with fsync, that ends with them."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_NO_ROOT = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []


@dataclass
class Server:
    """A running server. Its password is in PGPASSWORD; every database is new."""

    binaries: Path
    folder: Path
    port: int
    password: str = field(repr=False)
    user: str = "tacit"
    _made: Any = field(default_factory=count, repr=False)

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/postgres"

    def database(self) -> str:
        """The address of a new database."""
        name = f"db{next(self._made)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url.replace("/postgres", f"/{name}")

    def ledger(self) -> str:
        """The address of a ledger that is not made yet."""
        return f"{self.database()}#visits"

    def execute(self, statement: str, url: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement, which is committed, as the server's owner."""
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self, *options: str) -> None:
        log = self.folder / "log"
        given = " ".join([f"-p {self.port} -k {self.folder} -h 127.0.0.1", *options])
        self._control("start", "-l", str(log), "-o", given)

    def stop(self, mode: str = "immediate") -> None:
        """Stop as a crash would ("immediate"), or in order ("fast")."""
        self._control("stop", "-m", mode)

    def _control(self, *command: str) -> None:
        run = [*_NO_ROOT, str(self.binaries / "pg_ctl"), "-w", "-D", str(self.folder / "data")]
        subprocess.run([*run, *command], check=True, cwd="/", stdout=subprocess.DEVNULL)


def _binaries() -> Path | None:
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    found = shutil.which("initdb")
    return debian[-1] if debian else Path(found).parent if found else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason='needs psycopg: pip install "tacit[postgres]"')
    binaries = _binaries()
    if binaries is None:
        pytest.skip("needs PostgreSQL's server: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="tacit-postgres-"))
    secret = folder / "password"
    secret.write_text(secrets.token_hex(16))
    if _NO_ROOT:
        for place in (folder, secret):
            shutil.chown(place, "postgres")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(binaries, folder, port, secret.read_text())
    how = [
        "-U",
        server.user,
        "-A",
        "scram-sha-256",
        f"--pwfile={secret}",
        "--locale=C",
        "-E",
        "UTF8",
    ]
    made = [*_NO_ROOT, str(binaries / "initdb"), "-N", "-D", str(folder / "data"), *how]
    subprocess.run(made, check=True, cwd="/", stdout=subprocess.DEVNULL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", server.password)
        server.start()
        yield server
        server.stop()
    shutil.rmtree(folder)

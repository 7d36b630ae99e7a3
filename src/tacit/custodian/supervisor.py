"""Starts a worker for each data set and the web process, and starts again what dies.

The supervisor opens all sockets, so that nobody needs the right to: started as root it gives each
process its own user. Environment variables that open a data set go to its worker alone.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.custodian.accounts import Accounts
from tacit.custodian.custody import Custody, DataSet
from tacit.spec.errors import FileError, RemoteError, StudyError

_OPENING = 120.0  # seconds for a worker to open its data set
_SOON, _LATER = 0.1, 5.0  # seconds until what died is started again
# Of the supervisor's environment, what every process gets.
_COMMON = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHASHSEED",
)
_COMMON_PREFIXES = ("LC_", "OMP_", "OPENBLAS_", "NUMBA_", "JAX_", "XLA_", "COVERAGE_")


@dataclass
class Child:
    """A process that is kept alive."""

    name: str
    module: str
    told: str
    sockets: tuple[socket.socket, ...]
    environment: dict[str, str] = field(repr=False)
    user: str | None = None
    process: subprocess.Popen[str] | None = None
    died: int = 0
    again: float = 0.0

    def start(self) -> None:
        """Spawn it and tell it what it needs to know; its input stays open while we live."""
        handles = [each.fileno() for each in self.sockets]
        owner: dict[str, Any] = {}
        if self.user is not None:
            entry = pwd.getpwnam(self.user)
            groups = os.getgrouplist(self.user, entry.pw_gid)
            owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, *map(str, handles)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=handles,
                env=self.environment,
                umask=0o077,
                cwd="/",
                text=True,
                **owner,
            )
        except OSError as error:
            raise FileError(
                f"Cannot start {sys.executable} for {self.name}: {error.strerror}. Install Tacit "
                "where its user can read and run it."
            ) from None
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(self.told + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died already, and is started again

    def ready(self) -> None:
        """Wait until it has said so; refuse with its words if it could not."""
        assert self.process is not None
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], _OPENING)
        line = self.process.stdout.readline() if readable else ""
        said = json.loads(line) if line else {"error": "It did not start."}
        if "error" in said:
            raise RemoteError(f"{self.name}: {said['error']}")

    def last_words(self) -> None:
        """Pass on why it ended, if it said so, and close what is left of it."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        assert process.stdin is not None
        handle = process.stdout.fileno()
        os.set_blocking(handle, False)  # processes that it started may still hold the other end
        with suppress(BlockingIOError, ValueError, TypeError):  # or what a library printed
            for line in os.read(handle, 65_536).splitlines():
                if "error" in (said := json.loads(line)):
                    print(f"{self.name}: {said['error']}", file=sys.stderr, flush=True)  # noqa: T201
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Supervisor:
    """The processes of one custody."""

    def __init__(self, custody: Custody) -> None:
        self.custody = custody
        self._root = os.getuid() == 0
        self._stopping = False
        named = [custody.user, *(each.user for each in custody.datasets)]
        users = [user for user in named if user is not None]
        if users and not self._root:
            raise StudyError("Expected to be started as root, since custody.toml names users.")
        for user in users:
            try:
                pwd.getpwnam(user)
            except (KeyError, TypeError):
                raise StudyError(f"There is no user {str(user)[:80]!r} on this machine.") from None
        variables = [name for each in custody.datasets for name in each.environment]
        for name in sorted(set(variables) - set(os.environ)):
            raise StudyError(f"Expected the environment variable {name} of custody.toml to be set.")
        self._folders()
        self.listening = _listen(custody.host, custody.port)
        workers = [self._worker(each) for each in custody.datasets]
        sockets = {each.name: self._socket_path(each.name).name for each in custody.datasets}
        self.web = Child(
            "the web process",
            "tacit.custodian.web",
            custody.for_web(sockets),
            (self.listening,),
            self._environment((), self.custody.user),
            custody.user,
        )
        self.workers = {each.name: each for each in workers}

    @property
    def url(self) -> str:
        host, port = self.listening.getsockname()[:2]
        scheme = "http" if self.custody.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def _folders(self) -> None:
        """The web process's own folder, which no analyst and no worker can read."""
        folder, web = self.custody.folder, self.custody.accounts.parent
        try:
            folder.mkdir(mode=0o711 if self._root else 0o700, parents=True, exist_ok=True)
            Accounts(self.custody.accounts).create()
            os.chmod(web, 0o700)
            if self.custody.user is not None:
                for path in (web, *web.iterdir()):
                    _give(path, self.custody.user)
        except OSError as error:
            raise FileError(f"Cannot write to {folder}: {error.strerror}.") from None

    def _socket_path(self, name: str) -> Path:
        return self.custody.accounts.parent / f"{name}.socket"

    def _worker(self, dataset: DataSet) -> Child:
        path = self._socket_path(dataset.name)
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(path.parent)  # the address of a Unix socket has at most 108 bytes
            listening.bind(path.name)
        finally:
            os.fchdir(here)
            os.close(here)
            os.umask(before)
        if self.custody.user is not None:
            _give(path, self.custody.user)
        listening.listen(1024)
        return Child(
            dataset.name,
            "tacit.custodian.worker",
            dataset.for_worker(),
            (listening,),
            self._environment(dataset.environment, dataset.user),
            dataset.user,
        )

    def _environment(self, names: tuple[str, ...], user: str | None) -> dict[str, str]:
        given = {
            key: value
            for key, value in os.environ.items()
            if key in _COMMON or key.startswith(_COMMON_PREFIXES) or key in names
        }
        if user is None:
            own = ("HOME", "XDG_CACHE_HOME")
            given |= {key: os.environ[key] for key in own if key in os.environ}
        else:
            # A folder of its own for what is compiled: others may have put anything elsewhere.
            cache = self.custody.folder / f"cache-{user}"
            cache.mkdir(mode=0o700, exist_ok=True)
            shutil.chown(cache, user)
            given |= {"HOME": str(cache), "NUMBA_CACHE_DIR": str(cache / "numba")}
        return given

    def start(self) -> None:
        """Start everything; return when all data sets are open."""
        try:
            for worker in self.workers.values():
                worker.start()
            for worker in self.workers.values():
                worker.ready()
            self.web.start()
            self.web.ready()
        except BaseException:
            self.stop()
            raise

    def watch(self, pause: Callable[[], Any] = lambda: time.sleep(0.05)) -> None:
        """Start again what dies, until `end` is called or a signal says so."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: self.end())
        while not self._stopping:
            for child in (self.web, *self.workers.values()):
                self._keep(child)
            pause()
        self.stop()

    def _keep(self, child: Child) -> None:
        if child.process is not None and child.process.poll() is not None:
            child.last_words()
            child.process = None
            child.died += 1
            child.again = time.monotonic() + min(_LATER, _SOON * 2 ** min(child.died - 1, 10))
        if child.process is None and time.monotonic() >= child.again:
            child.start()
        elif child.died and time.monotonic() > child.again + 60:
            child.died = 0  # it has lived for a minute

    def end(self) -> None:
        self._stopping = True

    def stop(self) -> None:
        for child in (self.web, *self.workers.values()):
            child.stop()
        self.listening.close()


def _give(path: Path, user: str) -> None:
    """Make it a user's; of a link only the link, which its user may have put there."""
    os.chown(path, pwd.getpwnam(user).pw_uid, -1, follow_symlinks=False)


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=1024,
        )
    except OSError as error:
        raise RemoteError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    found.setblocking(False)
    return found

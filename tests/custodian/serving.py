"""A real server on a free port, for tests: `tacit serve` as a person would start it."""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import tacit
from tacit.custodian.accounts import Accounts
from tacit.custodian.custody import Custody

SMOKERS = """
[datasets.smokers]
source = "smokers.csv"
ledger = "smokers.ledger"
budget = { epsilon = {epsilon}, delta = 1e-3 }
{more}

[datasets.smokers.schema]
neighbours = "{neighbours}"
columns = [
  { name = "smoker", type = "categorical", levels = ["no", "yes"] },
  { name = "age", type = "real", low = 0, high = 100 },
]
"""
PEOPLE = 400


def write_smokers(
    folder: Path, more: str = "", neighbours: str = "replace_one", epsilon: float = 200
) -> Path:
    """A table of 400 people, a third of them smokers, and its custody.toml."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (f"{'yes' if i % 3 == 0 else 'no'},{20 + i % 60}" for i in range(PEOPLE))
    (folder / "smokers.csv").write_text("smoker,age\n" + "\n".join(rows) + "\n")
    path = folder / "custody.toml"
    text = SMOKERS.replace("{more}", more).replace("{neighbours}", neighbours)
    text = text.replace("{epsilon}", str(epsilon))
    path.write_text(f'[server]\nfolder = "state"\nport = 0\n{text}')
    return path


class Serving:
    """A server, its accounts, and its processes."""

    def __init__(self, path: Path, process: subprocess.Popen, url: str) -> None:
        self.path, self.process, self.url = path, process, url
        self.custody = Custody.load(path)
        self.accounts = Accounts(self.custody.accounts)

    def token(self, name: str = "ana", epsilon: float = 200, delta: float = 1e-3) -> str:
        """The token of a new account, which may ask every data set."""
        token = self.accounts.add(name)
        for dataset in self.custody.datasets:
            self.accounts.allow(name, dataset.name, tacit.Budget(epsilon, delta))
        return token

    def wall(self, name: str = "ana", dataset: str | None = None, **allowance):
        return tacit.connect(self.url, self.token(name, **allowance), dataset=dataset)

    def ledger(self, dataset: str = "smokers") -> tacit.Ledger:
        (found,) = (each for each in self.custody.datasets if each.name == dataset)
        return tacit.Ledger(found.ledger)

    def children(self, module: str) -> list[int]:
        """The processes of a module: "worker" or "web"."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                status = (entry / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            ours = len(status) > 1 and status[1] == str(self.process.pid) and status[0] != "Z"
            if ours and f"tacit.custodian.{module}".encode() in words:
                found.append(int(entry.name))
        return found


def started(path: Path, *options: str, port: int | None = None) -> Serving:
    """Start a server; wait until it says that it serves."""
    wanted = [] if port is None else ["--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tacit.cli", "serve", str(path), *wanted, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ),
    )
    line = first_line(process)
    found = re.search(r"https?://\S+", line)
    if found is None:
        process.kill()
        process.wait()
        process.stdout.close()
        raise RuntimeError(line)
    return Serving(path, process, found[0])


def first_line(process: subprocess.Popen, seconds: float = 120) -> str:
    """What it prints first; all that it says, if it ends."""
    until, said = time.monotonic() + seconds, ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < until and "Serving" not in said:
            if selector.select(1.0):
                line = process.stdout.readline()
                said += line
                if not line:
                    break
    return said


def ended(server: Serving) -> None:
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(30)
    server.process.stdout.close()


@contextmanager
def serving(path: Path, *options: str):
    server = started(path, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            ended(server)

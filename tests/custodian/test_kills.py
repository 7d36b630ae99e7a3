"""Clients, workers, servers and connections are killed at random: no answer is paid twice or lost.

A client that is killed is started again under the same names, as a person would.
"""

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import tacit
from tests.custodian.serving import ended, started, write_smokers
from tests.custodian.test_serving import COUNTS, mean_of, plan

STEPS = 12
CLIENT = """
import sys, json
import tacit
from tests.custodian.test_serving import COUNTS, mean_of, plan
url, token, rounds, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
wall = tacit.connect(url, token)
with open(out, "a") as file:
    for i in range(rounds):
        release = wall.release(COUNTS, tacit.Laplace("0.01"), name=f"count {i}")
        print(json.dumps(["count", i, release.integers.tolist()]), file=file, flush=True)
        lease = wall.prepay(plan(STEPS), name=f"loop {i}")
        for step in range(STEPS):
            answer = lease.release(mean_of(step)).integers.tolist()
            print(json.dumps(["loop", i, step, answer]), file=file, flush=True)
print("done")
""".replace("STEPS", str(STEPS))


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return found.getsockname()[1]


class Proxy:
    """Passes bytes on to a server, and can cut all connections at once."""

    def __init__(self, port: int) -> None:
        self._port, self._pairs = port, []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listening.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                inner.close()
                continue
            self._pairs += [inner, outer]
            for pair in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, of: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := of.recv(65536):
                to.sendall(data)
        for each in (of, to):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """End all connections, in the middle of whatever they carry."""
        pairs, self._pairs = self._pairs, []
        for each in pairs:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self) -> None:
        self._listening.close()
        self.cut()


def client(url: str, token: str, rounds: int, out: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", CLIENT, url, token, str(rounds), str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        import os

        os.kill(process, signal.SIGKILL)


def killed_at_random(folder: Path, kills: int, rounds: int, pause: float, seed: int) -> None:
    """Run two clients to their ends while processes and connections are killed; check it all."""
    rng = random.Random(seed)
    path, port = write_smokers(folder), free_port()
    server = started(path, port=port)
    proxy = Proxy(port)
    url = f"http://127.0.0.1:{proxy.port}/smokers"
    tokens = {name: server.token(name) for name in ("ana", "bo")}
    outs = {name: folder / f"{name}.jsonl" for name in tokens}
    running = {name: client(url, tokens[name], rounds, outs[name]) for name in tokens}
    done, dead = set(), 0
    until = time.monotonic() + 120 + 4 * kills
    try:
        while len(done) < len(tokens):
            assert time.monotonic() < until, "the clients do not come to an end"
            time.sleep(pause * rng.uniform(0.2, 1.8))
            what = rng.choice(["client", "worker", "web", "connection", "server"])
            if dead < kills:
                dead += 1
                match what:
                    case "client":
                        running[rng.choice(sorted(tokens))].kill()
                    case "connection":
                        proxy.cut()
                    case "server":
                        server.process.kill()
                        server.process.wait()
                        server.process.stdout.close()
                        while server.children("worker"):
                            time.sleep(0.05)
                        server = started(path, port=port)
                    case other:
                        for process in server.children(other):
                            kill(process)
            for name, process in running.items():
                if name in done or process.poll() is None:
                    continue
                said, errors = process.communicate()
                if "done" in said:
                    done.add(name)
                else:
                    assert process.returncode == -signal.SIGKILL, errors
                    running[name] = client(url, tokens[name], rounds, outs[name])
        assert dead == kills, "the clients came to an end before the last kill"
        check(server, outs, rounds)
    finally:
        for process in running.values():
            process.kill()
            process.communicate()
        proxy.close()
        ended(server)


def check(server, outs: dict[str, Path], rounds: int) -> None:
    """Each name was charged once, each answer is one answer, and nothing else was charged."""
    entries = server.ledger().entries()
    charged = [entry["name"] for entry in entries if entry["kind"] == "charge"]
    expected = {
        f"{name}/{what} {i}" for name in outs for what in ("count", "loop") for i in range(rounds)
    }
    assert sorted(charged) == sorted(expected)
    chain = server.ledger().verify()
    each = next(Decimal(e["epsilon"]) for e in entries if str(e.get("name")).startswith("ana/loop"))
    assert chain.spent.by_name["epsilon"] == len(outs) * rounds * (each + Decimal("0.01"))
    for out in outs.values():
        import json

        heard: dict[tuple, list] = {}
        for line in out.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # a client was killed while it wrote
                *key, answer = json.loads(line)
                assert heard.setdefault(tuple(key), answer) == answer
        assert len(heard) == rounds * (1 + STEPS)


def test_a_few_kills(tmp_path):
    killed_at_random(tmp_path, kills=8, rounds=6, pause=0.8, seed=1)


@pytest.mark.slow
def test_two_hundred_kills(tmp_path):
    killed_at_random(tmp_path, kills=200, rounds=60, pause=0.8, seed=2)


def test_a_worker_that_is_killed_in_a_fit_changes_nothing(tmp_path):
    """The fit goes on, and its posterior is that of the stored answers."""
    server = started(write_smokers(tmp_path))
    try:
        wall = server.wall("ana")
        lease = wall.prepay(plan(4), name="loop")
        began = [lease.release(mean_of(0)).integers.tolist()]
        (worker,) = server.children("worker")
        kill(worker)
        began += [lease.release(mean_of(at)).integers.tolist() for at in (1, 2)]
        (web,) = server.children("web")
        kill(web)
        began.append(lease.release(mean_of(3)).integers.tolist())
        again = wall.prepay(plan(4), name="loop")
        assert [again.release(mean_of(at)).integers.tolist() for at in range(4)] == began
        assert server.children("worker") != [worker]
        assert len([e for e in server.ledger().entries() if e["kind"] == "charge"]) == 1
        assert np.isfinite(wall.release(COUNTS, tacit.Laplace(1)).value).all()
    finally:
        ended(server)

"""The worker process of a data set: a desk behind a Unix socket that its supervisor has opened.

It is spawned, never forked, is told its data set on standard input, and ends when that does. Its
user, and what it may use, are set before a wall is opened.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from tacit.custodian.custody import DataSet, Limits
from tacit.custodian.desk import Desk
from tacit.custodian.messages import (
    BEGUN,
    CHECKING,
    GO,
    READING,
    decoded,
    encoded,
    error_to_facts,
    receive,
    send,
)
from tacit.spec.errors import QueryError, StoppedError, TacitError


def main() -> None:
    """Open the desk, say so on standard output, and answer for ever."""
    told = DataSet.from_supervisor(sys.stdin.readline())
    listening = socket.socket(fileno=int(sys.argv[1]))
    # Where a time limit passes, whatever code is running: the process ends, and nothing is sent.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor's to heed
    limit(told.offer.limits)
    try:
        desk = Desk(told)
    except TacitError as error:
        print(json.dumps({"error": str(error)}), flush=True)  # noqa: T201
        sys.exit(1)
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    while True:
        connection, _ = listening.accept()
        arguments = desk, connection, told.offer.limits
        threading.Thread(target=_serve, args=arguments, daemon=True).start()


def limit(limits: Limits) -> None:
    """Let the operating system enforce the limits. No core file: it would have rows in it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.memory is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory * 2**30,) * 2)
    if limits.cpu is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu,) * 2)


def _end_with_supervisor() -> None:
    sys.stdin.read()
    os._exit(0)


def _serve(desk: Desk, connection: socket.socket, limits: Limits) -> None:
    """One request of the web process, which opens a connection for each."""
    try:
        with connection:
            envelope = json.loads(receive(connection))
            body = receive(connection, limits.body * 2**20)

            def reading() -> None:
                signal.setitimer(signal.ITIMER_REAL, limits.seconds)
                send(connection, READING)
                if receive(connection) != GO:  # the data set was stopped while this waited
                    raise ConnectionError("no go")

            with desk.lock:
                send(connection, BEGUN)
                signal.setitimer(signal.ITIMER_REAL, min(limits.seconds, CHECKING))
                try:
                    header, answer = answered(desk, envelope, body, reading)
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                send(connection, json.dumps(header).encode(), answer)
            finally:
                if header.get("stop"):  # who comes next finds a new process, and no half of a state
                    os._exit(1)
    except ConnectionError:
        pass  # the answer is stored, and is given to who asks again


def answered(
    desk: Desk, envelope: dict[str, Any], body: bytearray, reading: Callable[[], None]
) -> tuple[dict[str, Any], bytes]:
    """What goes back: a header for the web process, and the body of the answer."""
    header: dict[str, Any] = {"error": None, "name": None}
    facts: Any
    try:
        asked = _decoded(body, envelope["type"])
        if isinstance(asked, dict) and isinstance(asked.get("name"), str):
            header["name"] = asked["name"][:200]
        facts = desk.answer(envelope["verb"], envelope["asker"], asked, reading)
    except TacitError as error:
        facts = error_to_facts(error)
        header["error"] = facts["error"]
        header["stop"] = isinstance(error, StoppedError)
        header |= {
            key: facts["facts"][key]
            for key in ("question", "cost", "asked")
            if key in facts["facts"]
        }
    try:
        return header, encoded(facts, envelope["accept"])
    except (TypeError, ValueError, RecursionError):
        refusal = QueryError("Expected a question whose answer can be written down.")
        header["error"] = "QueryError"
        return header, encoded(error_to_facts(refusal), envelope["accept"])


def _decoded(body: bytearray, type_: str) -> Any:
    try:
        return decoded(body, type_)
    except TacitError:
        raise
    except Exception:  # noqa: BLE001 - nothing was read, so whatever it is tells nothing
        raise QueryError("Expected a body as Tacit writes it. No budget was spent.") from None


if __name__ == "__main__":
    main()

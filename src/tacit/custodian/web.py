"""The web process: the application on uvicorn, on a socket that the supervisor has opened."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tacit.custodian.custody import Counter
from tacit.custodian.office import Office
from tacit.custodian.server import application

_HEAD_BYTES, _HEAD_SECONDS = 2**16, 30.0


class Guarded(HttpToolsProtocol):
    """HTTP with limits on what comes before a body, when nobody knows yet who asks."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._size, self._timer = 0, self.loop.call_later(_HEAD_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._timer.cancel()
        self._size, self._timer = 0, self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._timer.cancel()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._size += len(data)
        if self._size > _HEAD_BYTES and not self._timer.cancelled():
            self.transport.abort()


def main() -> None:
    """Serve until the supervisor ends."""
    counter = Counter.from_supervisor(sys.stdin.readline())
    os.chdir(counter.folder)  # the address of a Unix socket has at most 108 bytes
    listening = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor's to heed
    # What goes wrong is in no log of the web server with its arguments: they are others' questions.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    config = uvicorn.Config(
        application(Office(counter)),
        access_log=False,
        server_header=False,
        lifespan="off",
        log_level="critical",
        http=Guarded,
        ws="none",
        ssl_certfile=counter.certificate,
        ssl_keyfile=counter.key,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    print(json.dumps({"ready": True}), flush=True)  # noqa: T201
    server.run(sockets=[listening])


def _end_with_supervisor() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()

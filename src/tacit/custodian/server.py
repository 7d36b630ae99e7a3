"""The API over HTTP: a Starlette application under /api/v1, in the web process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tacit.custodian.accounts import Account
from tacit.custodian.messages import BYTES, JSON, VERBS, VERSION, encoded, error_to_facts
from tacit.custodian.office import Office
from tacit.custodian.openapi import description
from tacit.custodian.pages.routes import Pages
from tacit.spec.errors import FileError, PolicyError, QueryError, RemoteError, TacitError

_TOGETHER, _OF_ONE = 256, 16  # requests that are worked on or wait, and those of one account
_BODY_SECONDS = 60.0  # for a body to arrive
_HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'",
}
PREFIX = f"/api/{VERSION}"


def api_routes(office: Office) -> list[Route]:
    """The routes of the API."""
    api = _Api(office)
    return [
        Route(f"{PREFIX}/openapi.json", api.openapi),
        Route(f"{PREFIX}/health", api.health),
        Route(f"{PREFIX}/datasets", api.datasets),
        Route(PREFIX + "/datasets/{dataset}/{verb}", api.verb, methods=["POST"]),
    ]


def application(office: Office) -> Starlette:
    """The whole application: what does not exist, or fails, says no more than that."""
    return Starlette(
        routes=[*api_routes(office), *Pages(office).routes()],
        exception_handlers={
            404: _not_found,
            405: _not_allowed,
            FileError: _unavailable,
            Exception: _failed,
        },
    )


class _Refused(Exception):
    """A response instead of an answer."""

    def __init__(self, status: int, error: TacitError, **headers: str) -> None:
        self.status, self.error, self.headers = status, error, headers
        super().__init__()


class _Api:
    def __init__(self, office: Office) -> None:
        self._office = office
        # Threads wait for workers, which answer one question at a time.
        self._pool = ThreadPoolExecutor(_TOGETHER)
        self._waiting: Counter[str] = Counter()
        self._description = json.dumps(description()).encode()

    async def openapi(self, request: Request) -> Response:
        return _response(200, self._description, JSON)

    async def health(self, request: Request) -> Response:
        return _response(200, b'{"status": "ok"}', JSON)

    async def datasets(self, request: Request) -> Response:
        try:
            account = self._account(request)
        except _Refused as refused:
            return _refusal(refused, JSON)
        found = {"account": account.name, "datasets": self._office.visible(account)}
        return _response(200, json.dumps(found).encode(), JSON)

    async def verb(self, request: Request) -> Response:
        accept = BYTES if BYTES in request.headers.get("accept", "") else JSON
        try:
            return await self._verb(request, accept)
        except _Refused as refused:
            return _refusal(refused, accept)
        except ClientDisconnect:
            return _response(400, b"", accept)

    async def _verb(self, request: Request, accept: str) -> Response:
        account = self._account(request)
        dataset, verb = request.path_params["dataset"], request.path_params["verb"]
        if verb not in VERBS:
            raise _Refused(404, QueryError(f"There is no {verb[:40]!r} in this API."))
        if self._waiting.total() >= _TOGETHER or self._waiting[account.name] >= _OF_ONE:
            raise _busy("Too many requests at once")
        type_ = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if type_ not in (JSON, BYTES):
            raise _Refused(415, QueryError(f"Expected a body of type {JSON} or {BYTES}."))
        self._waiting[account.name] += 1
        try:
            body = await self._body(request, self._office.most(account, dataset))
            arguments = account, dataset, verb, body, type_, accept
            loop = asyncio.get_running_loop()
            reply = await loop.run_in_executor(self._pool, self._office.reply, *arguments)
        finally:
            self._waiting[account.name] -= 1
        if reply.wait:
            await asyncio.sleep(reply.wait)
        slot = {"tacit-slot": reply.slot} if reply.slot else {}
        return _response(reply.status, reply.body, accept, **slot)

    def _account(self, request: Request) -> Account:
        """Who asks, by a token; after many wrong ones an address waits."""
        account = self._office.account(request.headers.get("authorization", ""))
        if account is None:
            address = request.client.host if request.client else ""
            if not self._office.failures.allows(address):
                raise _busy("Too many wrong tokens from this address")
            words = "Expected a valid token: it is wrong, expired or revoked. Ask the custodian."
            challenge = {"www-authenticate": "Bearer"}
            raise _Refused(401, PolicyError(words), **challenge)
        if not self._office.rate.allows(account.name):
            raise _busy("Too many requests of this account")
        return account

    async def _body(self, request: Request, most: int) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        words = f"Expected a body of at most {most} bytes. Nothing was spent."
                        raise _Refused(413, QueryError(words), connection="close")
                    parts.append(part)
        except TimeoutError:
            raise _Refused(408, RemoteError("The request did not arrive in time.")) from None
        return b"".join(parts)


def _busy(what: str) -> _Refused:
    headers = {"retry-after": "1"}
    return _Refused(429, RemoteError(f"{what}: try again in a moment."), **headers)


def _refusal(refused: _Refused, accept: str) -> Response:
    body = encoded(error_to_facts(refused.error), accept)
    return _response(refused.status, body, accept, **refused.headers)


def _response(status: int, body: bytes, type_: str, **headers: str) -> Response:
    return Response(body, status, {**_HEADERS, **headers}, media_type=type_)


async def _not_found(request: Request, error: Any) -> Response:
    return _refusal(_Refused(404, QueryError("There is nothing at this address.")), JSON)


async def _not_allowed(request: Request, error: Any) -> Response:
    headers = {"allow": (getattr(error, "headers", None) or {}).get("Allow", "POST")}
    words = "This address does not take that method."
    return _refusal(_Refused(405, QueryError(words), **headers), JSON)


async def _unavailable(request: Request, error: Exception) -> Response:
    words = "The server cannot use its accounts now. Ask again later under the same name."
    return _refusal(_Refused(503, RemoteError(words)), JSON)


async def _failed(request: Request, error: Exception) -> Response:
    # For the custodian's journal, without its words: they may be an account's question.
    print(f"a fault of the server: {type(error).__name__}", file=sys.stderr, flush=True)  # noqa: T201
    words = "The server failed on this request. Ask again under the same name, which is paid once."
    return _refusal(_Refused(500, RemoteError(words)), JSON)

"""The analyst's side: a wall whose records are elsewhere, with the same interface."""

from __future__ import annotations

import http.client
import ipaddress
import os
import secrets
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlsplit

from tacit.accounting.filters import accountant
from tacit.custodian.messages import (
    BYTES,
    VERSION,
    decoded,
    encoded,
    error_from_facts,
    release_from_facts,
)
from tacit.spec.budget import Amounts, Budget, Left, Spent
from tacit.spec.certificate import Certificate, LedgerMark
from tacit.spec.errors import (
    BudgetError,
    LedgerError,
    OverBudgetError,
    QueryError,
    RemoteError,
    ReplacedError,
    TacitError,
)
from tacit.spec.mechanisms import Exact, Mechanism, mechanism_to_dict
from tacit.spec.plan import Plan
from tacit.spec.protocols import Quote
from tacit.spec.queries import Query
from tacit.spec.release import Noise, Release
from tacit.spec.schema import Schema
from tacit.spec.wire import reading

if TYPE_CHECKING:
    from tacit.custodian.rehearsal import RehearsalWall
    from tacit.wall.chain import Chain

_PATIENCE = 120.0  # seconds of trying again
_ANSWER = 900.0  # seconds until an answer is given up: a charge may be followed by a long read
_AGAIN = (429, 502, 504)


def connect(
    url: str,
    token: str | None = None,
    *,
    dataset: str | None = None,
    authority: str | os.PathLike[str] | None = None,
) -> RemoteWall:
    """A wall whose records are behind a custodian's server.

    It answers what a `Wall` answers. Each request has a name, its own or a random one, and what was
    asked under a name is paid once: a connection that breaks, or a server that is started again,
    loses no answer.

    Parameters
    ----------
    url
        Of the server and the data set: `"https://data.hospital.example/visits"`.
    token
        The account's. Default: the environment variable TACIT_TOKEN.
    dataset
        Instead of a name at the end of the address. Not needed where there is only one.
    authority
        The certificate authority's file, for a server with a certificate of its own.

    Examples
    --------
    >>> # wall = tacit.connect("https://data.hospital.example/visits", token="tacit_...")
    >>> # tacit.fit(tacit.BetaBernoulli("smoker", success="yes"), wall, tacit.Laplace(0.5))
    """
    given = token or os.environ.get("TACIT_TOKEN")
    if not given:
        raise RemoteError(
            'Expected the token that the custodian gave you: tacit.connect(url, token="tacit_..."),'
            " or the environment variable TACIT_TOKEN."
        )
    parts = urlsplit(url if isinstance(url, str) else "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RemoteError(
            f'Expected an address such as "https://data.example/visits", got {url!r}.'
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise RemoteError(
            f"Expected https:// for {parts.hostname}: over http anyone on the way reads the token."
        )
    line = Line(parts.scheme, parts.hostname, parts.port, given, authority)
    name = dataset or parts.path.strip("/")
    if not name:
        known = line.get(f"/api/{VERSION}/datasets")["datasets"]
        if len(known) != 1:
            raise RemoteError(
                f"Expected which data set, {url.rstrip('/')}/<name>; there are "
                f"{', '.join(known) or 'none for this account'}."
            )
        (name,) = known
    return RemoteWall(line, name)


class Line:
    """Requests to one server: retried where trying again cannot do harm, which is everywhere."""

    def __init__(
        self,
        scheme: str,
        host: str,
        port: int | None,
        token: str,
        authority: str | os.PathLike[str] | None = None,
    ) -> None:
        self.host, self._scheme, self._port, self._token = host, scheme, port, token
        self._context = ssl.create_default_context(cafile=authority) if scheme == "https" else None
        self._open = threading.local()  # a connection for each thread
        self._process = os.getpid()
        self._made: list[http.client.HTTPConnection] = []
        weakref.finalize(self, _close, self._made)

    def get(self, path: str) -> Any:
        return self._asked("GET", path, None)

    def post(self, path: str, facts: Mapping[str, Any]) -> Any:
        """The facts of an answer; what the server refused is raised as at home."""
        return self._asked("POST", path, encoded(facts, BYTES))

    def _asked(self, method: str, path: str, body: bytes | None) -> Any:
        deadline, pause = time.monotonic() + _PATIENCE, 0.05
        while True:
            try:
                status, type_, slot, raw = self._once(method, path, body)
            except ssl.SSLError as error:
                raise RemoteError(f"Cannot trust {self.host}: {error.reason}.") from None
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if time.monotonic() > deadline:
                    raise RemoteError(
                        f"Cannot reach {self.host}: {type(error).__name__}. What was asked under a "
                        "name is paid once: ask again under it."
                    ) from None
            else:
                if status not in _AGAIN or time.monotonic() > deadline:
                    return self._facts(status, type_, slot, raw)
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, str, str, bytes]:
        if os.getpid() != self._process:  # a connection that two processes share is nobody's
            self._open, self._process = threading.local(), os.getpid()
            self._made.clear()
        connection = getattr(self._open, "connection", None)
        if connection is None:
            connection = self._connection()
            self._open.connection = connection
            self._made.append(connection)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": BYTES}
        if body is not None:
            headers["Content-Type"] = BYTES
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        raw = response.read()
        type_ = response.getheader("content-type", "").partition(";")[0]
        return response.status, type_, response.getheader("tacit-slot", ""), raw

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self.host, self._port, timeout=_ANSWER)
        return http.client.HTTPSConnection(
            self.host, self._port, timeout=_ANSWER, context=self._context
        )

    def _facts(self, status: int, type_: str, slot: str, raw: bytes) -> Any:
        try:
            facts = decoded(raw, type_)
        except TacitError:
            raise RemoteError(
                f"Expected a Tacit server at {self.host}, got status {status} of something else."
            ) from None
        if status != 200:
            raise error_from_facts(facts)
        if slot and isinstance(facts, dict):
            facts["slot"] = slot
        return facts

    def close(self) -> None:
        connection = getattr(self._open, "connection", None)
        if connection is not None:
            connection.close()  # and opened again when it is next used

    def __repr__(self) -> str:
        return f"{self._scheme}://{self.host}{'' if self._port is None else f':{self._port}'}"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A connection has a token in it: connect again instead of copying it.")


class RemoteWall:
    """Sensitive records on a custodian's server. Made by `tacit.connect`.

    Its interface is that of `Wall`: `tacit.fit`, plans and study files do not know which of them
    they talk to. What is asked without a name gets a random one.
    """

    def __init__(self, line: Line, dataset: str) -> None:
        self._line, self.dataset = line, dataset
        described = self.describe()
        with reading("server's description", RemoteError):
            self._schema = Schema.from_dict(described["schema"])
            self.allow, self.composition = tuple(described["allow"]), described["composition"]

    def ask(self, verb: str, **facts: Any) -> Any:
        """The facts of an answer to one request of the API."""
        return self._line.post(f"/api/{VERSION}/datasets/{quote(self.dataset, '')}/{verb}", facts)

    def describe(self) -> dict[str, Any]:
        """The schema, the terms, and what is left, as the server says it now."""
        found: dict[str, Any] = self.ask("describe")
        return found

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def remaining(self) -> Left:
        """What one more release of this account may cost."""
        left = self.describe()["remaining"]
        return Left(Decimal(left["epsilon"]), Decimal(left["delta"]))

    @property
    def budget(self) -> Budget:
        """All that may ever be spent on these people, by everyone."""
        return Budget(**self.describe()["budget"])

    @property
    def n_units(self) -> int | None:
        """How many units there are, where that is public; None under add_remove."""
        units: int | None = self.ask("units")["units"]
        return units

    @property
    def ledger(self) -> RemoteLedger:
        """What its ledger says."""
        return RemoteLedger(self)

    def check_allowance(self, due: Spent) -> None:
        """Refuse what the allowance of this account cannot pay as a whole."""
        epsilon, delta = map(Decimal, self.describe()["allowance_left"])
        if due.epsilon > epsilon or due.delta > delta:
            left = Left(max(epsilon, Decimal(0)), max(delta, Decimal(0)))
            raise OverBudgetError(str(due), f"{left} of your allowance")

    def verify(self, certificate: Certificate) -> None:
        """Check the server's ledger, and that the entry of a certificate is in it.

        A ledger that was restored from an older copy does not hold what was charged since.
        """
        if certificate.ledger is None:
            raise LedgerError(
                "Expected the certificate of a private release: this names no ledger."
            )
        mark = certificate.ledger
        facts = {"ledger": mark.ledger, "entry": mark.entry, "head": mark.head}
        found = self.ask("verify", mark=facts)
        if not found["holds"]:
            raise LedgerError(str(found["why"]))

    def rehearsal(self, units: int, *, seed: int = 0) -> RehearsalWall:
        """A wall on this machine with synthetic rows, to try code before paying.

        See `tacit.custodian.rehearsal`: everything that comes out of it is stamped "rehearsal".
        """
        from tacit.custodian.rehearsal import rehearsal

        return rehearsal(self, units, seed=seed)

    def quote(self, query: Query, mechanism: Mechanism) -> Quote:
        """What a release would cost and how noisy it would be. Nothing is read or charged."""
        facts = {"query": _facts(query), "mechanism": _mechanism(mechanism)}
        found = self.ask("quote", **facts)
        return Quote(Budget(**found["cost"]), tuple(Noise(**law) for law in found["noise"]))

    def release(self, query: Query, mechanism: Mechanism, *, name: str | None = None) -> Release:
        """Answer a query with noise, after charging for it; see `Wall.release`."""
        facts = {"query": _facts(query), "mechanism": _mechanism(mechanism)}
        found = self.ask("release", name=_key(name), **facts)
        return _received(found, self._schema, query)

    def prepay(self, plan: Plan, *, name: str | None = None) -> RemoteLease:
        """Charge for all steps of a plan at once and return the lease that answers them."""
        if not isinstance(plan, Plan):
            raise BudgetError(
                f"Expected tacit.queries.Plan(tacit.queries.Steps(...), delta=...), got {plan!r}."
            )
        key = _key(name)
        found = self.ask("prepay", name=key, plan=plan.to_dict())
        return RemoteLease(self, key, plan, Certificate.from_dict(found["certificate"]))

    def __repr__(self) -> str:
        columns = self._schema.listed
        return (
            f"RemoteWall({self._line!r}/{self.dataset}; columns: {columns}; "
            f"protects {self._schema.protects})"
        )

    def _repr_html_(self) -> str:
        facts = {"server": f"{self._line!r}/{self.dataset}", "left": self.remaining}
        return self._schema.to_html("RemoteWall", facts)


class RemoteLedger:
    """What a server's ledger says to one account: all that was spent, and its own questions."""

    def __init__(self, wall: RemoteWall) -> None:
        self._wall = wall

    def read(self) -> Chain:
        """The state of the ledger, with the names that this account has used."""
        from tacit.wall.chain import Chain, Claim

        found = self._wall.ask("ledger")
        with reading("server's ledger", RemoteError):
            budget = Budget(**found["budget"])
            claims = {
                name: Claim(each["question"], LedgerMark(found["ledger"], each["entry"], ""))
                for name, each in found["claims"].items()
            }
            return Chain(
                seq=found["entry"],
                head=found["head"],
                ledger=found["ledger"],
                pins=found["pins"],
                schema=found["schema"],
                changes={int(seq): tuple(what) for seq, what in found["changes"].items()},
                budget=budget,
                adds_up=accountant(found["pins"], budget, found["filter"]),
                spent=Amounts({name: Decimal(x) for name, x in found["spent"].items()}),
                alone=Spent(*(Decimal(found["alone"][key]) for key in ("epsilon", "delta"))),
                claims=claims,
            )

    def entries(self) -> list[dict[str, Any]]:
        """All entries; of other accounts only what they cost."""
        found: list[dict[str, Any]] = self._wall.ask("charges")["entries"]
        for entry in found:
            if entry.get("name") is not None:
                entry["name"] = entry["name"].partition("/")[2]
        return found


class RemoteLease:
    """Steps that have been charged for, on a custodian's server. Made by `RemoteWall.prepay`."""

    def __init__(self, wall: RemoteWall, name: str, plan: Plan, certificate: Certificate) -> None:
        self.plan, self.certificate = plan, certificate
        self._wall, self._name, self._used = wall, name, 0
        self._lock = threading.Lock()

    @property
    def steps_left(self) -> int:
        return self.plan.count - self._used

    def release(self, query: Query) -> Release:
        """The next step: its stored answer, or a new one."""
        with self._lock:
            if not self.steps_left:
                raise BudgetError(
                    f"All {self.plan.count} steps of this lease are used. Nothing was read; "
                    "prepay another plan to go on."
                )
            facts = {"name": self._name, "step": self._used, "query": _facts(query)}
            try:
                found = self._wall.ask("step", **facts)
            except ReplacedError as replaced:
                self._used = replaced.step
                raise
            release = _received(found, self._wall.schema, query)
            self._used += 1
            return release

    def keep_state(self, facts: Any, *, since: int) -> None:
        """Store what all answers so far have led to in place of those from step `since` on."""
        with self._lock:
            self._wall.ask("state", name=self._name, step=self._used, since=since, facts=facts)

    def __repr__(self) -> str:
        return f"RemoteLease({self.steps_left} of {self.plan.count} steps left)"


def _facts(query: Any) -> dict[str, Any]:
    if not hasattr(query, "to_dict"):
        raise QueryError(f"Expected a query such as tacit.queries.Counts(...), got {query!r}.")
    found: dict[str, Any] = query.to_dict()
    return found


def _mechanism(mechanism: Any) -> dict[str, Any]:
    if isinstance(mechanism, Exact):
        raise BudgetError("Exact() is not private: only tacit.Public accepts it.")
    if not isinstance(mechanism, Mechanism):
        raise BudgetError(f"Expected a mechanism such as tacit.Laplace(1), got {mechanism!r}.")
    return mechanism_to_dict(mechanism)


def _key(name: str | None) -> str:
    """The name of a request: a random one where nobody will ask again."""
    return f"once {secrets.token_hex(12)}" if name is None else name


def _received(facts: Any, schema: Schema, query: Query) -> Release:
    with reading("release", RemoteError):
        release = release_from_facts(facts, schema, query)
        if "slot" not in facts:
            return release
        note = f"left the server at the end of the public slot {facts['slot']}"
        return replace(release, certificate=release.certificate.assuming((note,)))


def _close(connections: list[http.client.HTTPConnection]) -> None:
    for each in connections:
        each.close()


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

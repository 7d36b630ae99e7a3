"""The pages: signing in, what an analyst sees, and what a custodian decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from tacit.custodian.accounts import Account
from tacit.custodian.messages import STATUS
from tacit.custodian.office import Office
from tacit.custodian.pages import calculator, views
from tacit.custodian.pages.sessions import Session, Sessions
from tacit.spec.budget import Budget, plain
from tacit.spec.errors import FileError, PolicyError, QueryError, TacitError
from tacit.spec.release import Release
from tacit.spec.schema import Schema

_HERE = Path(__file__).parent
_COOKIE = "tacit-session"
_MOST_FORM = 2**16  # bytes
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class Visit:
    """A request of somebody who is signed in."""

    account: Account
    session: Session
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]

    @property
    def dataset(self) -> str:
        return self.path["dataset"]


@dataclass(frozen=True)
class Page:
    """A template and what stands in it."""

    template: str
    facts: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True)
class Elsewhere:
    """A redirection within the site, after what was asked for was done."""

    path: str


@dataclass(frozen=True)
class File:
    """A download."""

    name: str
    body: bytes


Shown = Page | Elsewhere | File


class Pages:
    """All pages of a server."""

    def __init__(self, office: Office) -> None:
        self._office, self._sessions = office, Sessions()

    def routes(self) -> list[Route]:
        data = "/data/{dataset}"
        return [
            Route("/style.css", self._style),
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            self._get("/", self._catalogue),
            self._get(data, self._dataset),
            self._get(f"{data}/release", self._release),
            self._get(f"{data}/release.json", self._download),
            self._get(f"{data}/plan", self._calculator),
            self._post(f"{data}/plan", self._calculated),
            self._post(f"{data}/verify", self._verify),
            self._get("/custody", self._custody, custodian=True),
            self._post("/custody/add", self._add, custodian=True),
            self._post("/custody/renew", self._renew, custodian=True),
            self._post("/custody/revoke", self._revoke, custodian=True),
            self._post("/custody/allow", self._allow, custodian=True),
            self._post("/custody/decide", self._decide, custodian=True),
            self._post("/custody/resume", self._resume, custodian=True),
        ]

    # Who visits

    def _get(self, path: str, show: Callable[[Visit], Shown], *, custodian: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            return await self._answered(request, show, {}, custodian)

        return Route(path, endpoint, methods=["GET"])

    def _post(self, path: str, show: Callable[[Visit], Shown], *, custodian: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            form = await _form(request)
            if form is None:
                return _page(Page("message", {"said": "The form cannot be read."}, 400))
            return await self._answered(request, show, form, custodian)

        return Route(path, endpoint, methods=["POST"])

    async def _answered(
        self,
        request: Request,
        show: Callable[[Visit], Shown],
        form: Mapping[str, str],
        custodian: bool,
    ) -> Response:
        session = self._sessions.of(request.cookies.get(_COOKIE, ""))
        account = None if session is None else self._office.accounts.account_of(session.token)
        if session is None or account is None:
            return _to("/sign-in")
        if not self._office.rate.allows(account.name):
            said = "Too many requests of this account: try again in a moment."
            return _page(Page("message", {"said": said}, 429), account, session)
        if request.method == "POST" and not (
            _of_this_site(request) and session.sent(form.get("form", ""))
        ):
            said = "This form is not of this page, or of an earlier session. Nothing was done."
            return _page(Page("message", {"said": said}, 403), account, session)
        query = dict(request.query_params)
        visit = Visit(account, session, request.path_params, query, form)
        try:
            if custodian and account.role != "custodian":
                raise PolicyError("This page is for the custodian alone.")
            shown = await run_in_threadpool(show, visit)
        except FileError:  # of the accounts: with their path
            raise
        except TacitError as error:
            status = STATUS.get(type(error).__name__, 400)
            shown = Page("message", {"said": str(error)}, status)
        return _page(shown, account, session)

    async def _style(self, request: Request) -> Response:
        headers = {**_HEADERS, "cache-control": "max-age=3600"}
        return Response((_HERE / "pages.css").read_bytes(), 200, headers, media_type="text/css")

    async def _sign_in(self, request: Request) -> Response:
        """By a token. No other site can sign a browser in, as somebody else."""
        if request.method != "POST":
            return _page(Page("sign_in", {"said": ""}))
        form, address = await _form(request), request.client.host if request.client else ""
        if form is None or not _of_this_site(request):
            return _page(Page("sign_in", {"said": "This form is not of this page."}, 403))
        token = form.get("token", "").strip()
        if await run_in_threadpool(self._office.accounts.account_of, token) is None:
            if not self._office.failures.allows(address):
                said = "Too many wrong tokens from this address: try again in a moment."
                return _page(Page("sign_in", {"said": said}, 429))
            said = "This token is wrong, expired or revoked. Ask the custodian."
            return _page(Page("sign_in", {"said": said}, 403))
        self._sessions.end(request.cookies.get(_COOKIE, ""))
        response = _to("/")
        response.set_cookie(
            _COOKIE,
            self._sessions.begin(token),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _sign_out(self, request: Request) -> Response:
        """Harmless if another site sends it, which finds no cookie of ours anyway."""
        self._sessions.end(request.cookies.get(_COOKIE, ""))
        response = _to("/sign-in")
        response.delete_cookie(_COOKIE, httponly=True, samesite="strict")
        return response

    # What an analyst sees

    def _catalogue(self, visit: Visit) -> Page:
        return Page("catalogue", {"datasets": self._described(visit)})

    def _described(self, visit: Visit) -> list[dict[str, Any]]:
        found = []
        for name in self._office.visible(visit.account):
            try:
                facts = self._office.ask(visit.account, name, "describe")
                entries = self._office.ask(visit.account, name, "charges")["entries"]
                said = {"meter": views.meter(entries), "schema": Schema.from_dict(facts["schema"])}
            except TacitError as error:
                facts, said = {"name": name, "about": ""}, {"fault": str(error)}
            stopped = self._office.accounts.stopped(name)
            found.append({"fault": "", "meter": None, **facts, **said, "stopped": stopped})
        return found

    def _dataset(self, visit: Visit, **more: Any) -> Page:
        facts = self._office.ask(visit.account, visit.dataset, "describe")
        entries = self._office.ask(visit.account, visit.dataset, "charges")["entries"]
        schema = Schema.from_dict(facts["schema"])
        shown = {
            **facts,
            "schema": schema,
            "columns": views.columns(schema),
            "meter": views.meter(entries),
            "chart": views.chart(entries),
            "rows": [self._own(visit.account, row) for row in views.rows(entries)],
            "stopped": self._office.accounts.stopped(visit.dataset),
            "verified": None,
            **more,
        }
        return Page("dataset", shown)

    def _own(self, account: Account, row: dict[str, Any]) -> dict[str, Any]:
        """An entry with its name as the account knows it: custodians see whose it is."""
        if row["name"] and account.role != "custodian":
            row["name"] = row["name"].removeprefix(f"{account.name}/")
        return row

    def _release(self, visit: Visit) -> Page:
        release, name = self._stored(visit)
        shown = {"dataset": visit.dataset, "name": name, "answer": views.answer(release)}
        return Page("release", shown)

    def _download(self, visit: Visit) -> File:
        release, name = self._stored(visit)
        safe = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
        what = release.certificate if "certificate" in visit.query else release
        kind = "certificate" if "certificate" in visit.query else "release"
        return File(f"{safe or 'release'}.{kind}.json", what.to_json().encode())

    def _stored(self, visit: Visit) -> tuple[Release, str]:
        name = visit.query.get("name", "")
        found = self._office.ask(visit.account, visit.dataset, "stored", name=name)["release"]
        if found is None:
            raise QueryError(f"There is no release under the name {name!r}.")
        return Release.from_dict(found), name

    def _calculator(self, visit: Visit, **more: Any) -> Page:
        facts = self._office.ask(visit.account, visit.dataset, "describe")
        schema = Schema.from_dict(facts["schema"])
        given = {"column": "", "noise": "laplace", "epsilon": "0.1", "delta": "1e-6", "units": ""}
        shown = {
            "name": visit.dataset,
            "schema": schema,
            "offered": calculator.offered(schema),
            "largest_epsilon": facts["largest_epsilon"],
            "remaining": facts["remaining"],
            "given": {**given, **visit.form},
            "expected": None,
            "said": "",
            **more,
        }
        return Page("plan", shown)

    def _calculated(self, visit: Visit) -> Page:
        facts = self._office.ask(visit.account, visit.dataset, "describe")
        try:
            found = calculator.expected(Schema.from_dict(facts["schema"]), visit.form)
        except TacitError as error:
            return self._calculator(visit, said=str(error))
        return self._calculator(visit, expected=found)

    def _verify(self, visit: Visit) -> Page:
        found = self._office.ask(visit.account, visit.dataset, "verify", mark=None)
        return self._dataset(visit, verified=found)

    # What a custodian decides

    def _custody(self, visit: Visit, **more: Any) -> Page:
        accounts = self._office.accounts
        shown = {
            "accounts": accounts.listed(),
            "requests": accounts.requests(),
            "datasets": [
                {"name": name, "policy": offer.policy, "stopped": accounts.stopped(name)}
                for name, offer in self._office.offers.items()
            ],
            "token": "",
            "of": "",
            **more,
        }
        return Page("custody", shown)

    def _add(self, visit: Visit) -> Page:
        name, role = visit.form.get("name", "").strip(), visit.form.get("role", "")
        token = self._office.accounts.add(name, role, _days(visit))  # type: ignore[arg-type]
        return self._custody(visit, token=token, of=name)

    def _renew(self, visit: Visit) -> Page:
        name = visit.form.get("name", "")
        token = self._office.accounts.renew(name, _days(visit))
        return self._custody(visit, token=token, of=name)

    def _revoke(self, visit: Visit) -> Elsewhere:
        self._office.accounts.revoke(visit.form.get("name", ""))
        return Elsewhere("/custody")

    def _allow(self, visit: Visit) -> Elsewhere:
        dataset = visit.form.get("dataset", "")
        if dataset not in self._office.offers:
            raise QueryError("Expected one of the data sets that are listed.")
        budget = Budget(visit.form.get("epsilon", ""), visit.form.get("delta", "") or "0")
        self._office.accounts.allow(visit.form.get("name", ""), dataset, budget)
        return Elsewhere("/custody")

    def _decide(self, visit: Visit) -> Elsewhere:
        """Approve, on the record of the ledger, or take the question off the list."""
        accounts = self._office.accounts
        wanted = tuple(visit.form.get(key, "") for key in ("question", "account", "dataset"))
        found = [r for r in accounts.requests() if (r.question, r.account, r.dataset) == wanted]
        if len(found) != 1:
            raise QueryError("This question was decided on meanwhile.")
        (one,) = found
        if visit.form.get("decision") == "approve":
            reason = visit.form.get("reason", "").strip()
            if not (reason and reason.isprintable()):
                raise QueryError("Expected a reason, which stays in the ledger.")
            facts = {"question": one.question, "cost": one.cost.texts, "reason": reason}
            self._office.ask(visit.account, one.dataset, "approve", **facts)
        accounts.decided(one)
        return Elsewhere("/custody")

    def _resume(self, visit: Visit) -> Elsewhere:
        self._office.accounts.resume(visit.form.get("dataset", ""))
        return Elsewhere("/custody")


def _days(visit: Visit) -> int:
    try:
        return int(visit.form.get("days", "90"))
    except ValueError:
        raise QueryError("Expected a number of days.") from None


def _of_this_site(request: Request) -> bool:
    """Whether a form was sent from here, as far as the browser says; all browsers of today do."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _form(request: Request) -> dict[str, str] | None:
    """The fields of a form, each once; None for what is no form, or too long."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > _MOST_FORM:
                return None
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=50)
    except (ValueError, ClientDisconnect):
        return None
    return dict(fields)


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,  # of everything, whatever a template is called
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["plain"] = lambda number: plain(Decimal(number))
    return templates


def _page(shown: Shown, account: Account | None = None, session: Session | None = None) -> Response:
    match shown:
        case Elsewhere(path):
            return _to(path)
        case File(name, body):
            headers = {**_HEADERS, "content-disposition": f'attachment; filename="{name}"'}
            return Response(body, 200, headers, media_type="application/json")
    template = _templates().get_template(f"{shown.template}.html.jinja")
    form = "" if session is None else session.form
    text = template.render(account=account, form=form, link=_link, **shown.facts)
    return Response(text, shown.status, _HEADERS, media_type="text/html")


def _link(name: str) -> str:
    return quote(name, safe="")


def _to(path: str) -> Response:
    return Response(b"", 303, {**_HEADERS, "location": path})

"""custody.toml: which data sets a server holds, on which terms, and where it listens.

The file is read by the supervisor alone. A worker is told of its own data set, and the web process
of what is public about all of them.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from tacit.accounting.filters import CompositionName
from tacit.spec.budget import Budget, epsilon_of
from tacit.spec.checks import number, one_of, whole_number
from tacit.spec.csv_file import CSV
from tacit.spec.errors import StudyError
from tacit.spec.schema import Schema
from tacit.spec.table import Table
from tacit.stores.store import located
from tacit.study.tables import HOW_TO_READ, check_table, schema_of, source_of

TIERS = ("statistics", "steps", "draws")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_DECIMAL = "$decimal"
_PUBLIC = {"schema", "budget", "policy", "limits", "about"}
_PRIVATE = {"source", "ledger", "environment", "user", *HOW_TO_READ}


def check_name(name: Any, what: str) -> str:
    """A name of an account or a data set: part of addresses and of names in a ledger."""
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise StudyError(
            f"Expected the name of {what} in small letters, digits, '.', '_' and '-', at most 40 "
            f"of them, got {str(name)[:80]!r}."
        )
    return name


@dataclass(frozen=True)
class Policy:
    """What may be asked of a data set, beside its budget.

    `largest_epsilon` is that of one release, or of one lease as a whole; the custodian may approve
    a question that costs more. `analysts` are the accounts that may ask, if not all that have an
    allowance. Answers leave at the end of a slot of `answer_every` seconds; at once if it is 0.
    """

    allow: tuple[str, ...] = TIERS
    largest_epsilon: Decimal | None = None
    analysts: tuple[str, ...] | None = None
    answer_every: float = 0.0

    @classmethod
    def of(cls, facts: Mapping[str, Any], where: str) -> Policy:
        check_table(facts, where, set(), {each.name for each in fields(cls)})
        allow, most, analysts = (facts.get(key) for key in ("allow", "largest_epsilon", "analysts"))
        for tier in _texts(allow or TIERS, f"allow in {where}"):
            one_of(tier, f"allow in {where}", TIERS, StudyError)
        every = facts.get("answer_every", 0)
        return cls(
            tuple(allow or TIERS),
            None if most is None else epsilon_of(most),
            None if analysts is None else tuple(_texts(analysts, f"analysts in {where}")),
            number(every, f"answer_every in {where}", 0, 3600, error=StudyError),
        )


@dataclass(frozen=True)
class Limits:
    """What a question may use: refused before the charge, or a fault that stops the data set.

    `work` are the numbers that a program computes for one row, and `numbers` those that an answer
    has: both follow from the question alone. `seconds` (of one question), `memory` (gigabytes of
    address space) and `cpu` (seconds of the worker's whole life) are enforced by the operating
    system. `body` is megabytes of a request.
    """

    seconds: int = 600
    memory: int | None = None
    cpu: int | None = None
    work: int = 1_000_000
    numbers: int = 10_000_000
    body: int = 64

    @classmethod
    def of(cls, facts: Mapping[str, Any], where: str) -> Limits:
        check_table(facts, where, set(), {each.name for each in fields(cls)})
        for key, value in facts.items():
            whole_number(value, f"{key} in {where}", most=10**9, error=StudyError)
        return cls(**facts)


@dataclass(frozen=True)
class Offer:
    """The public facts of a data set."""

    name: str
    schema: Schema
    budget: Budget
    composition: CompositionName
    policy: Policy
    limits: Limits
    about: str = ""

    @classmethod
    def of(cls, name: str, facts: Mapping[str, Any]) -> Offer:
        where = f"[datasets.{check_name(name, 'a data set')}"
        check_table(facts, f"{where}]", {"schema", "budget"}, _PUBLIC | _PRIVATE)
        budget = facts["budget"]
        check_table(budget, f"{where}.budget]", {"epsilon"}, {"delta", "composition"})
        composition = budget.get("composition", "basic")
        one_of(composition, f"composition in {where}.budget]", ("basic", "rdp", "gdp"), StudyError)
        return cls(
            name,
            schema_of(facts["schema"]),
            Budget(budget["epsilon"], budget.get("delta", 0)),
            composition,
            Policy.of(facts.get("policy", {}), f"{where}.policy]"),
            Limits.of(facts.get("limits", {}), f"{where}.limits]"),
            str(facts.get("about", "")),
        )


@dataclass(frozen=True)
class DataSet:
    """A data set as its worker knows it. `environment` names variables that it alone is given."""

    offer: Offer
    source: Path | CSV | Table = field(repr=False)
    ledger: str = field(repr=False)
    environment: tuple[str, ...] = ()
    user: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    where: Path = field(default=Path(), repr=False)

    @property
    def name(self) -> str:
        return self.offer.name

    @classmethod
    def of(cls, name: str, facts: Mapping[str, Any], where: Path) -> DataSet:
        offer = Offer.of(name, facts)
        place = f"[datasets.{name}]"
        check_table(facts, place, {"source", "ledger", "schema", "budget"}, _PUBLIC | _PRIVATE)
        ledger = located(str(facts["ledger"]), where)
        environment = tuple(_texts(facts.get("environment", ()), f"environment in {place}"))
        source = source_of(where, facts)
        return cls(offer, source, ledger, environment, facts.get("user"), facts, where)

    def for_worker(self) -> str:
        """All that the worker of this data set needs to know, as a line of JSON."""
        return _to_json({"name": self.name, "where": str(self.where), "facts": self.facts})

    @classmethod
    def from_supervisor(cls, text: str) -> DataSet:
        told = _from_json(text)
        return cls.of(told["name"], told["facts"], Path(told["where"]))

    @property
    def for_web(self) -> dict[str, Any]:
        """Public facts: neither where the records are nor what opens them."""
        return {key: value for key, value in self.facts.items() if key in _PUBLIC}


@dataclass(frozen=True)
class Custody:
    """What custody.toml says, checked; nothing has been opened but the file itself."""

    datasets: tuple[DataSet, ...]
    folder: Path
    host: str = "127.0.0.1"
    port: int = 8790
    certificate: Path | None = None
    key: Path | None = None
    user: str | None = None
    requests_per_minute: int = 6000

    @classmethod
    def load(cls, path: str | Path) -> Custody:
        """Read a custody.toml; its paths are relative to it."""
        path = Path(path)
        try:
            facts = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
        except OSError as error:
            raise StudyError(f"Cannot read {path}: {error.strerror}.") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise StudyError(f"{path} is not a TOML file: {error}.") from None
        return cls.of(facts, path.absolute().parent)

    @classmethod
    def of(cls, facts: Mapping[str, Any], where: Path) -> Custody:
        check_table(facts, "custody.toml", {"datasets"}, {"server"})
        server = facts.get("server", {})
        known = {"host", "port", "folder", "certificate", "key", "user", "requests_per_minute"}
        check_table(server, "[server]", set(), known)
        if not isinstance(facts["datasets"], Mapping) or not facts["datasets"]:
            raise StudyError("Expected a table [datasets.<name>] for each data set.")
        if ("certificate" in server) != ("key" in server):
            raise StudyError("Expected certificate and key in [server], both or neither.")
        sets = tuple(DataSet.of(name, each, where) for name, each in facts["datasets"].items())
        ledgers = {os.path.realpath(each.ledger) for each in sets}
        if len(ledgers) < len(sets):
            raise StudyError(
                "Expected each data set to have a ledger of its own: one ledger is one population."
            )
        port, most = server.get("port", 8790), server.get("requests_per_minute", 6000)
        return cls(
            sets,
            _path(where, server.get("folder", "custody")),
            str(server.get("host", "127.0.0.1")),
            whole_number(port, "port in [server]", least=0, most=65535, error=StudyError),
            _path(where, server["certificate"]) if "certificate" in server else None,
            _path(where, server["key"]) if "key" in server else None,
            server.get("user"),
            whole_number(most, "requests_per_minute", most=10**9, error=StudyError),
        )

    @property
    def accounts(self) -> Path:
        """The accounts, and whatever else the web process keeps."""
        return self.folder / "web" / "accounts.sqlite"

    def for_web(self, sockets: Mapping[str, str]) -> str:
        """All that the web process needs to know, as a line of JSON."""
        told = {
            "folder": str(self.folder / "web"),
            "certificate": self.certificate and str(self.certificate),
            "key": self.key and str(self.key),
            "requests_per_minute": self.requests_per_minute,
            "sockets": dict(sockets),
            "datasets": {each.name: each.for_web for each in self.datasets},
        }
        return _to_json(told)


@dataclass(frozen=True)
class Counter:
    """What the web process knows of the custody."""

    folder: Path
    offers: Mapping[str, Offer]
    sockets: Mapping[str, str]
    certificate: str | None
    key: str | None
    requests_per_minute: int

    @classmethod
    def from_supervisor(cls, text: str) -> Counter:
        told = _from_json(text)
        offers = {name: Offer.of(name, facts) for name, facts in told.pop("datasets").items()}
        return cls(folder=Path(told.pop("folder")), offers=offers, **told)


def _path(where: Path, given: Any) -> Path:
    return where / Path(str(given)).expanduser()


def _texts(given: Any, what: str) -> tuple[str, ...]:
    if isinstance(given, str) or not all(isinstance(each, str) for each in given):
        raise StudyError(f"Expected {what} to be a list of texts.")
    return tuple(given)


def _to_json(facts: Any) -> str:
    return json.dumps(facts, default=lambda value: {_DECIMAL: str(value)})


def _from_json(text: str) -> Any:
    def decimals(facts: dict[str, Any]) -> Any:
        return Decimal(facts[_DECIMAL]) if set(facts) == {_DECIMAL} else facts

    return json.loads(text, object_hook=decimals)

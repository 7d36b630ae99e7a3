"""What runs in the worker of a data set: the only place of a server that holds a wall.

Formal guarantee: whatever requests come in, what goes out are answers of the wall under its ledger,
each stored before it is sent, and facts that follow from public ones and the ledger.

A request's name, with the account before it, is its name in the ledger: asking again is answered
again, never paid again. A fault after a charge is withheld, and nothing more is answered until the
custodian has looked: when and how a question fails may depend on the data.
"""

from __future__ import annotations

import re
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.accounting import plan_epsilon
from tacit.custodian.custody import DataSet
from tacit.custodian.messages import VERBS, check_fields, release_to_facts
from tacit.spec.budget import Budget, Left, Spent, round_up
from tacit.spec.certificate import LedgerMark
from tacit.spec.errors import (
    BudgetError,
    LedgerError,
    NameTakenError,
    OverBudgetError,
    PolicyError,
    QueryError,
    ReplacedError,
    SourceError,
    StoppedError,
    TacitError,
)
from tacit.spec.mechanisms import Exact, mechanism_from_dict
from tacit.spec.plan import Plan
from tacit.spec.programs import Program
from tacit.spec.queries import Query, query_from_dict
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum
from tacit.spec.wire import described, digest, from_json, plain, reading, to_json
from tacit.wall import Ledger, Wall
from tacit.wall.answers import Answers
from tacit.wall.steps.kept import KeptLease
from tacit.wall.steps.plans import check_plan

_OPEN = ("entry", "hash", "kind", "time", "epsilon", "delta")  # of an entry about others
_DAY = re.compile(r"(first released [0-9-]{10})T[^;]*")
_LEASES = 32  # that are kept open
_MOST_KINDS = 10_000  # of steps in a plan, which is an entry of the ledger
_MOST_SHOWN = 4000  # letters of a question that waits for approval
_FAULT = (
    "The answer is withheld: the machine failed after the charge. The data set is stopped until "
    "its custodian has looked; asking again under the same name will then be free."
)
_SOURCE = "The custodian's source cannot be read now. No budget was spent."
_LEDGER = (
    "The custodian's ledger cannot be used now: try again later, under the same name, which is "
    "paid once."
)


@dataclass(frozen=True)
class Asker:
    """Who asks, and what they may spend in all; None may ask nothing."""

    account: str
    role: str
    allowance: Budget | None

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Asker:
        allowance = facts["allowance"]
        return cls(facts["account"], facts["role"], allowance and Budget(**allowance))

    def name(self, given: str) -> str:
        """A name of this account, in the ledger: accounts have no slash in them."""
        return f"{self.account}/{given}"


@dataclass
class Charged:
    """What the ledger says about accounts, read entry by entry."""

    ledger: Ledger

    def __post_init__(self) -> None:
        self._seen = 0
        self.spent: dict[str, Spent] = defaultdict(Spent)
        self.plans: dict[str, Mapping[str, Any]] = {}

    def advance(self) -> None:
        """Take in what was charged since the last call."""
        for entry in self.ledger.entries(self._seen):
            self._seen = entry["entry"]
            name = entry.get("name")
            if entry["kind"] == "charge" and name is not None:
                cost = Budget(entry["epsilon"], entry["delta"])
                self.spent[name.partition("/")[0]] += cost
                if "plan" in entry["event"]:
                    self.plans[name] = entry["event"]["plan"]


class Desk:
    """Answers requests, one at a time."""

    def __init__(self, dataset: DataSet) -> None:
        self.offer = dataset.offer
        policy = self.offer.policy
        self._wall = Wall(
            dataset.source,
            self.offer.schema,
            budget=self.offer.budget,
            ledger=dataset.ledger,
            allow=policy.allow,
            composition=self.offer.composition,
        )
        self._answers = Answers.of(policy.allow)
        self._ledger = Ledger(dataset.ledger)
        self._charged = Charged(self._ledger)
        self._charged.advance()
        self._leases: OrderedDict[str, KeptLease] = OrderedDict()
        self._latest: tuple[Any, BoundedSum] | None = None
        self.lock = threading.Lock()
        self.stopped = False
        self._announce: Callable[[], None] = lambda: None
        self._has_read = False

    def answer(
        self,
        verb: str,
        asked_by: Mapping[str, Any],
        facts: Any,
        reading: Callable[[], None] = lambda: None,
    ) -> Any:
        """The answer's facts; every refusal and every fault is a TacitError.

        `reading` is called before anything that may charge or read: what fails until then follows
        from the question alone.
        """
        name = None
        self._announce, self._has_read = reading, False
        try:
            if verb not in VERBS:
                raise QueryError(f"Unknown verb {verb[:40]!r}.")
            asker = Asker.of(asked_by)
            if VERBS[verb].custodian and asker.role != "custodian":
                raise PolicyError("This is for the custodian alone. Nothing was read or spent.")
            check_fields(verb, facts)
            if self.stopped and verb != "describe":
                raise StoppedError(_FAULT)
            name = asker.name(facts["name"]) if "name" in facts else None
            return getattr(self, verb)(asker, **facts)
        except (NameTakenError, ReplacedError) as error:
            raise _at_home(error, asker) from None
        except (SourceError, LedgerError) as error:
            raise self._fault(error, verb, name) from None
        except TacitError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a library raises, it stays here
            raise self._fault(error, verb, name) from None

    def _reads(self) -> None:
        self._announce()
        self._has_read = True

    def _fault(self, error: Exception, verb: str, name: str | None) -> TacitError:
        """What to say of a failure: nothing of what was read, and nothing more if it was read."""
        # For the custodian's journal. Only Tacit's own words: others may quote a cell.
        words = str(error) if isinstance(error, TacitError) else "no further words"
        print(f"{verb}: {type(error).__name__}: {words}", file=sys.stderr, flush=True)  # noqa: T201
        if isinstance(error, LedgerError):
            return LedgerError(_LEDGER)
        try:
            paid = self._has_read and name in self._ledger.read().claims
        except LedgerError:
            paid = True
        if paid:
            self.stopped = True
            return StoppedError(_FAULT)
        if isinstance(error, SourceError):
            return SourceError(_SOURCE)
        return QueryError("This request cannot be answered. No budget was spent.")

    # What costs nothing

    def describe(self, asker: Asker) -> dict[str, Any]:
        chain = self._ledger.read()
        return {
            "name": self.offer.name,
            "about": self.offer.about,
            "schema": self.offer.schema.to_dict(),
            "allow": list(self.offer.policy.allow),
            "composition": self.offer.composition,
            "largest_epsilon": plain(self.offer.policy.largest_epsilon),
            "answer_every": self.offer.policy.answer_every,
            "ledger": {"id": chain.ledger, "entry": chain.seq, "head": chain.head},
            "budget": chain.limit.texts,
            "left": plain(chain.left),
            "allowance": None if asker.allowance is None else asker.allowance.texts,
            "allowance_left": [str(amount) for amount in self._allowance_left(asker)],
            "remaining": plain(self._remaining(asker, chain.left)),
            "stopped": self.stopped,
        }

    def _remaining(self, asker: Asker, left: Left) -> Left:
        """What one more release may cost this account."""
        own = self._allowance_left(asker)
        return Left(*(max(Decimal(0), min(pair)) for pair in zip(_pair(left), own, strict=True)))

    def _allowance_left(self, asker: Asker) -> tuple[Decimal, Decimal]:
        if asker.allowance is None:
            return Decimal(0), Decimal(0)
        self._charged.advance()
        spent = self._charged.spent[asker.account]
        return asker.allowance.epsilon - spent.epsilon, asker.allowance.delta - spent.delta

    def units(self, asker: Asker) -> dict[str, Any]:
        self._reads()
        return {"units": self._wall.n_units}

    def quote(self, asker: Asker, query: Any, mechanism: Any) -> dict[str, Any]:
        quote = self._wall.quote(self._checked(query), mechanism_from_dict(mechanism))
        assert quote.cost is not None
        return {"cost": quote.cost.texts, "noise": [plain(law) for law in quote.noise]}

    def price(self, asker: Asker, plan: Any) -> dict[str, Any]:
        return {"cost": self._cost(self._checked_plan(plan)).texts}

    def ledger(self, asker: Asker) -> dict[str, Any]:
        """What a study's price depends on. Names of other accounts are theirs."""
        chain, mine = self._ledger.read(), asker.name("")
        return {
            "ledger": chain.ledger,
            "entry": chain.seq,
            "head": chain.head,
            "pins": chain.pins,
            "filter": chain.adds_up.facts,
            "budget": chain.limit.texts,
            "spent": chain.spent.texts,
            "alone": plain(chain.alone),
            "schema": chain.schema,
            "changes": {str(seq): list(what) for seq, what in chain.changes.items()},
            "claims": {
                name.removeprefix(mine): {"question": claim.question, "entry": claim.mark.entry}
                for name, claim in chain.claims.items()
                if name.startswith(mine)
            },
        }

    def verify(self, asker: Asker, mark: Any) -> dict[str, Any]:
        """Check the ledger, and that a certificate's entry is in it."""
        with reading("ledger mark", QueryError):
            against = None if mark is None else LedgerMark(**mark)
        try:
            chain = self._ledger.verify(against)
        except LedgerError as error:
            return {
                "holds": False,
                "why": str(error).replace(str(self._ledger.store), "The ledger"),
            }
        return {"holds": True, "entries": chain.seq, "head": chain.head}

    def charges(self, asker: Asker) -> dict[str, Any]:
        """The entries of the ledger: of other accounts without what they asked, and as what."""
        mine, all_ = asker.name(""), asker.role == "custodian"
        open_ = {*_OPEN, *self._ledger.read().spent.by_name}

        def told(entry: dict[str, Any]) -> dict[str, Any]:
            own = str(entry.get("name", "")).startswith(mine)
            if all_ or own or entry["kind"] in ("created", "raised", "schema"):
                return entry
            # No nonce and no digest: with these, a guess at what was asked or answered is checked.
            hidden: dict[str, Any] = {"name": None, "question": "", "event": {}}
            rest = {key: value for key, value in entry.items() if key in open_}
            return rest | (hidden if entry["kind"] == "charge" else {})

        entries = [told(entry) for entry in self._ledger.entries()]
        if self.offer.policy.answer_every and not all_:
            # What was charged had waited for the answer before it. The hash would tell the second.
            for entry in entries:
                entry["time"] = f"{entry['time'][:10]}T00:00:00+00:00"
                entry.pop("nonce", None)
        return {"entries": entries}

    def stored(self, asker: Asker, name: str) -> dict[str, Any]:
        """What was answered under a name; a custodian names the account too."""
        custodian = asker.role == "custodian" and "/" in name
        found = self._ledger.answer(name if custodian else asker.name(name))
        return {"release": None if found is None else from_json(found.body)}

    def approve(self, asker: Asker, question: str, cost: Any, reason: str) -> dict[str, Any]:
        """Let a question cost more than the policy allows; never more than the budget."""
        with reading("approval", QueryError):
            self._ledger.approve(digest_of(question), Budget(**cost), asker.account, str(reason))
        return {}

    # What is charged

    def release(self, asker: Asker, name: str, query: Any, mechanism: Any) -> dict[str, Any]:
        asked, noise = self._checked(query), mechanism_from_dict(mechanism)
        cost = self._wall.quote(asked, noise).cost
        assert cost is not None
        self._allow(asker, name, cost, [asked.to_dict(), mechanism])
        self._reads()
        return self._told(self._wall.release(asked, noise, name=asker.name(name)))

    def prepay(self, asker: Asker, name: str, plan: Any) -> dict[str, Any]:
        asked = self._checked_plan(plan)
        self._allow(asker, name, self._cost(asked), asked.to_dict())
        self._reads()
        lease = self._opened(asker.name(name), asked)
        return {"certificate": lease.certificate.to_dict()}

    def step(self, asker: Asker, name: str, step: Any, query: Any) -> dict[str, Any]:
        asked = self._again(query)
        self._reads()
        lease = self._lease(asker, name)
        lease.seek(step)
        return self._told(lease.release(asked))

    def _told(self, release: Release) -> dict[str, Any]:
        """A release; of an answer given again only the day, where answers leave in slots."""
        facts = release_to_facts(release)
        if self.offer.policy.answer_every:
            told = facts["header"]["certificate"]
            told["assumptions"] = [_DAY.sub(r"\1", each) for each in told["assumptions"]]
        return facts

    def state(self, asker: Asker, name: str, step: Any, since: Any, facts: Any) -> dict[str, Any]:
        to_json(facts)  # what cannot be written down is refused before anything is read
        self._reads()
        lease = self._lease(asker, name)
        lease.seek(step)
        lease.keep_state(facts, since=since)
        return {}

    def _lease(self, asker: Asker, name: str) -> KeptLease:
        full = asker.name(name)
        if full in self._leases:
            self._leases.move_to_end(full)
            return self._leases[full]
        self._charged.advance()
        if full not in self._charged.plans:
            raise QueryError(f"No steps were paid for under the name {name!r}. Nothing was read.")
        return self._opened(full, Plan.from_dict(self._charged.plans[full]))

    def _opened(self, full: str, plan: Plan) -> KeptLease:
        lease = self._wall.prepay(plan, name=full)
        assert isinstance(lease, KeptLease)
        self._leases[full] = lease
        if len(self._leases) > _LEASES:
            self._leases.popitem(last=False)
        return lease

    def _checked_plan(self, facts: Any) -> Plan:
        """A plan that this data set answers, within what one question may use."""
        plan = Plan.from_dict(facts)
        check_plan(plan, self.offer.schema, self._answers)
        if any(isinstance(steps.mechanism, Exact) for steps in plan.steps):
            raise BudgetError("Exact() adds no noise: only tacit.Public accepts it.")
        if len(plan.steps) > _MOST_KINDS:
            raise QueryError(
                f"Expected a plan of at most {_MOST_KINDS} kinds of steps, got {len(plan.steps)}. "
                "Nothing was read or spent."
            )
        numbers = max(steps.numbers for steps in plan.steps)
        if numbers > self.offer.limits.numbers:
            raise QueryError(
                f"Expected at most {self.offer.limits.numbers} numbers in a step, got {numbers}. "
                "Nothing was read or spent."
            )
        return plan

    def _cost(self, plan: Plan) -> Budget:
        spent, _ = plan_epsilon(plan, self.offer.schema.neighbours)
        cost = Budget(round_up(max(spent, 1e-9)), plan.delta)
        # Remembered by the charge: a filter's price takes as long, and nothing is read for it.
        self._ledger.read().adds_up.cost(cost, {"plan": plan.to_dict()})
        return cost

    # What is refused before the charge

    def _allow(self, asker: Asker, name: str, cost: Budget, question: Any) -> None:
        """Refuse what the policy or the allowance does not cover, unless it is paid for."""
        chain = self._ledger.read()
        if asker.name(name) in chain.claims:
            return  # answered again, or refused for another question, by the wall
        if asker.allowance is None:
            raise PolicyError(
                f"The account {asker.account!r} has no allowance for {self.offer.name!r}: ask its "
                "custodian. Nothing was read or spent."
            )
        most = self.offer.policy.largest_epsilon
        asked = digest([asker.name(name), question, cost.texts])  # a name is charged once
        if most is not None and cost.epsilon > most and asked not in chain.approved:
            raise _beyond(cost, most, asked, question)
        epsilon, delta = self._allowance_left(asker)
        if cost.epsilon > epsilon or cost.delta > delta:
            left = Left(max(epsilon, Decimal(0)), max(delta, Decimal(0)))
            raise OverBudgetError(str(cost), f"{left} of the allowance of {asker.account}")

    def _again(self, facts: Any) -> Query:
        """The query of a step: mostly the one before at another state."""
        if isinstance(facts, dict) and self._latest is not None:
            form, latest = self._latest
            state = facts.get("state")
            arrays = isinstance(state, list) and all(isinstance(x, np.ndarray) for x in state)
            if isinstance(state, list) and arrays and {**facts, "state": None} == form:
                return latest.at(tuple(state))
        query = self._checked(facts)
        if isinstance(query, BoundedSum):
            self._latest = {**facts, "state": None}, query
        return query

    def _checked(self, facts: Any) -> Query:
        """A query that this data set answers, within what one question may use."""
        query = query_from_dict(facts)
        limits = self.offer.limits
        for program in _programs(query):
            # Its time then follows from the program alone, not from a row.
            if program.loops:
                raise QueryError(
                    "Expected a program without loops whose length depends on the data: write them "
                    "with a fixed number of rounds, as in jax.lax.fori_loop or scan. Nothing was "
                    "read or spent."
                )
            if program.work > limits.work:
                raise QueryError(
                    f"Expected a program that computes at most {limits.work} numbers for a row, "
                    f"got {program.work}. Nothing was read or spent."
                )
        answer = self._answers.resolve(query, self.offer.schema)
        numbers = sum(block.size for block in answer.blocks)
        if numbers > limits.numbers:
            raise QueryError(
                f"Expected a question for at most {limits.numbers} numbers, got {numbers}. "
                "Nothing was read or spent."
            )
        return query


def _beyond(cost: Budget, most: Decimal, question: str, facts: Any) -> PolicyError:
    error = PolicyError(
        f"Expected at most epsilon {most} for one question, got {cost.epsilon}: the custodian can "
        f"see it now as question {question[:12]} and may approve it at this price; then ask again "
        "under the same name. Nothing was read or spent."
    )
    # What the custodian decides on, beside the price.
    text = to_json(described(facts))[:_MOST_SHOWN]
    vars(error).update(question=question, cost=cost.texts, asked=text)
    return error


def _programs(value: Any) -> Iterator[Program]:
    """All programs in a query."""
    if isinstance(value, Program):
        yield value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _programs(getattr(value, each.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from _programs(part)


def digest_of(question: Any) -> str:
    """A digest as someone wrote it."""
    if not (isinstance(question, str) and re.fullmatch("[0-9a-f]{64}", question)):
        raise QueryError("Expected the 64 letters of a question's digest.")
    return question


def _pair(left: Left) -> tuple[Decimal, Decimal]:
    return left.epsilon, left.delta


def _at_home(error: TacitError, asker: Asker) -> TacitError:
    """The error with the name as the account knows it."""
    error.args = (str(error).replace(f"'{asker.account}/", "'"),)
    return error

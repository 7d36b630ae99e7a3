"""Answers under a name: they are stored with the ledger, and asking again is free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from tacit.spec.certificate import Certificate
from tacit.spec.errors import LedgerError
from tacit.spec.plan import Plan
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.spec.wire import digest, from_json, to_json
from tacit.wall.ledger import Stored
from tacit.wall.shield import without_locals
from tacit.wall.steps.lease import Lease


class KeptLease:
    """A lease whose answers are stored together once the last has been given.

    Until then nothing is stored, and some answers are out: its charge cannot be taken over. A loop
    that was interrupted has lost its lease and pays again, as does one that runs at the same time.
    Of several that paid, the first to end stores its answers; each goes on with its own.
    """

    def __init__(self, lease: Lease, keep: Callable[[str], object]) -> None:
        self._lease = lease
        self._keep = keep
        self._answers: list[dict[str, Any]] = []

    @property
    def plan(self) -> Plan:
        return self._lease.plan

    @property
    def certificate(self) -> Certificate:
        return self._lease.certificate

    @property
    def steps_left(self) -> int:
        return self._lease.steps_left

    @without_locals
    def release(self, query: Query) -> Release:
        answer = self._lease.release(query)
        facts = {name: value for name, value in answer.to_dict().items() if name != "query"}
        self._answers.append({"question": digest(query.to_dict()), "answer": facts})
        if not self._lease.steps_left:
            try:
                self._keep(to_json(self._answers))
            except LedgerError as error:
                raise LedgerError(
                    f"{error} The data were read and the budget is spent: the answers given so far "
                    "hold, and the same plan under this name is charged again."
                ) from None
        return answer

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Lease cannot be copied or pickled: its steps would be taken twice.")


class ReplayedLease:
    """Answers that were given before. It reads no data: another question is refused."""

    def __init__(self, plan: Plan, stored: Stored, name: str) -> None:
        self.plan = plan
        self._name, self._time = name, stored.time
        self._answers = from_json(stored.body)
        self._used = 0

    @property
    def certificate(self) -> Certificate:
        found = Certificate.from_dict(self._answers[0]["answer"]["certificate"])
        return found.assuming((_note(self._time),))

    @property
    def steps_left(self) -> int:
        return len(self._answers) - self._used

    def release(self, query: Query) -> Release:
        if not self.steps_left:
            raise LedgerError(f"All steps under the name {self._name!r} have been replayed.")
        given, facts = self._answers[self._used], query.to_dict()
        # proof: replay. What is handed out is what was handed out before, or nothing.
        if given["question"] != digest(facts):
            raise LedgerError(
                f"The name {self._name!r} was used for a different question: choose another. "
                "No data were read and no budget was spent."
            )
        self._used += 1
        return _marked(Release.from_dict({**given["answer"], "query": facts}), self._time)


def replayed(stored: Stored) -> Release:
    """A release that was given before, with a certificate that says so."""
    return _marked(Release.from_json(stored.body), stored.time)


def _marked(release: Release, time: str) -> Release:
    return replace(release, certificate=release.certificate.assuming((_note(time),)))


def _note(time: str) -> str:
    return (
        f"answered again from the ledger: first released {time}; "
        "data that changed since are not in it"
    )

"""Leases under a name: their answers are stored with the ledger, and asking again is free."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

from tacit.spec.certificate import Certificate
from tacit.spec.errors import LedgerError
from tacit.spec.plan import Plan
from tacit.spec.queries import Query
from tacit.spec.release import Release
from tacit.wall._lease import Lease


class KeptLease:
    """A lease whose answers are stored together once the last has been given.

    Until then nothing is: a loop that was interrupted has lost its lease, and pays again.
    """

    def __init__(self, lease: Lease, keep: Callable[[str], None]) -> None:
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

    def release(self, query: Query) -> Release:
        answer = self._lease.release(query)
        self._answers.append(answer.to_dict())
        if not self._lease.steps_left:
            self._keep(json.dumps(self._answers))
        return answer

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Lease cannot be copied or pickled: its steps would be taken twice.")


class ReplayedLease:
    """Answers that were given before. It reads no data: another question is refused."""

    def __init__(self, plan: Plan, stored: str, name: str) -> None:
        self._plan = plan
        self._name = name
        self._answers = [Release.from_dict(facts) for facts in json.loads(stored)]
        self._used = 0

    @property
    def plan(self) -> Plan:
        return self._plan

    @property
    def certificate(self) -> Certificate:
        return self._answers[0].certificate

    @property
    def steps_left(self) -> int:
        return len(self._answers) - self._used

    def release(self, query: Query) -> Release:
        if not self.steps_left:
            raise LedgerError(f"All steps under the name {self._name!r} have been replayed.")
        answer = self._answers[self._used]
        # proof: replay. What is handed out is what was handed out before, or nothing.
        if answer.query.to_dict() != query.to_dict():
            raise LedgerError(
                f"The name {self._name!r} was used for a different question: choose another. "
                "No data were read and no budget was spent."
            )
        self._used += 1
        return answer

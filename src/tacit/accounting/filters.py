"""How the releases of a ledger add up: exact sums, or a fully adaptive filter.

A ledger is created with one of three compositions. Each says which amounts a release adds, computed
from what the ledger records of it, and how much of each the budget allows. A release is allowed
while every sum stays within its limit, however it was chosen. PROOFS-FILTERS.md says why.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Literal, Protocol

from tacit.accounting.dominating import (
    divergence,
    divergence_of_parts,
    mu_squared_of_parts,
    pure_mu,
    ranged_mu,
)
from tacit.accounting.gaussian import bisect, gaussian_mu
from tacit.accounting.pairs import Pure, Ranged
from tacit.accounting.plans import parts_of
from tacit.spec.budget import Amounts, Budget, Left, decimal, round_down, round_up
from tacit.spec.checks import number
from tacit.spec.errors import BudgetError, LedgerError
from tacit.spec.plan import Plan
from tacit.spec.schema import Neighbours

BASIC = {"composition": "basic"}  # the pin of ledgers that do not say
CompositionName = Literal["basic", "rdp", "gdp"]
_RESERVED = Decimal("0.1")  # of delta, for what is not divergence or mu: extra deltas
_GRID = 2.0**-10  # of epsilon, twice that for what grids of sampled or Gaussian noise lose
_LEAK = 2.0**-17  # of delta, for the tail of one lease
_LARGEST_EPSILON = 500.0  # beyond it the far tails of the discrete noise would matter
_ROUNDING = 1e-9  # relative; far more than the arithmetic here can lose
_LEAST = Decimal("1e-9")  # the smallest epsilon of a release
_TINIEST = 1e-100  # the smallest cost; less would leave the decimals that are read back
_ALIKE = Decimal("1.000001")  # what other versions of numerical libraries may differ in


class Accountant(Protocol):
    """What a ledger adds up. `facts` are fixed at its creation and written down there."""

    @property
    def facts(self) -> dict[str, Any]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def cost(self, alone: Budget, event: Mapping[str, Any]) -> Amounts:
        """What a release adds, given what it would cost alone and what is recorded of it."""
        ...

    def limits(self, budget: Budget) -> Amounts: ...

    def left(self, spent: Amounts, budget: Budget) -> Left: ...


def accountant(
    pins: Mapping[str, Any], budget: Budget, facts: Mapping[str, Any] | None = None
) -> Accountant:
    """The accountant of a new ledger, or of one whose first entry has these facts."""
    neighbours = pins.get("neighbours", "")
    match pins["composition"]:
        case "basic":
            return Basic()
        case "rdp" | "gdp" if not (budget.delta > 0 and budget.epsilon <= _LARGEST_EPSILON):
            raise BudgetError(
                f"Expected a delta > 0 and an epsilon of at most {_LARGEST_EPSILON:g} for "
                f'composition="rdp" or "gdp", for example Budget(1, 1e-6), got {budget}.'
            )
        case "rdp":
            order = _best_order(budget) if facts is None else float(facts["order"])
            return RenyiFilter(neighbours, number(order, "order", 1.01, 1e9, error=BudgetError))
        case "gdp":
            leak = round_down(float(budget.delta) * _LEAK)
            return GaussianFilter(neighbours, leak if facts is None else _leak_of(facts["leak"]))
        case other:
            raise BudgetError(f'Expected composition={other!r} to be "basic", "rdp" or "gdp".')


@dataclass(frozen=True)
class Basic:
    """Sums of epsilon and of delta, in exact decimals."""

    names = ("epsilon", "delta")

    @property
    def facts(self) -> dict[str, Any]:
        return {}

    def cost(self, alone: Budget, event: Mapping[str, Any]) -> Amounts:
        return Amounts({"epsilon": alone.epsilon, "delta": alone.delta})

    def limits(self, budget: Budget) -> Amounts:
        return self.cost(budget, {})

    def left(self, spent: Amounts, budget: Budget) -> Left:
        return Left(**(self.limits(budget) - spent).by_name)


@dataclass(frozen=True)
class RenyiFilter:
    """Sums of Renyi divergences at one order, and of the deltas that they leave out.

    Formal guarantee: all releases together are (epsilon, delta)-private, however adaptively they
    and their costs were chosen (Feldman and Zrnic 2021). The order is that of the ledger's first
    budget, for ever: which order would be best depends on the answers.
    """  # proof: filter-renyi

    neighbours: Neighbours
    order: float
    names = ("divergence", "extra_delta")

    @property
    def facts(self) -> dict[str, Any]:
        return {"order": self.order}

    def cost(self, alone: Budget, event: Mapping[str, Any]) -> Amounts:
        match event:
            case {"plan": plan}:
                parts, losses = parts_of(Plan.from_dict(plan))
                return self._amounts(
                    divergence_of_parts(parts, self.neighbours, self.order, *losses)
                )
            case {"dominated_by": {"gaussian": mu}}:  # discrete Gaussian noise has no more
                return self._amounts(self.order * mu**2 / 2)
            case {"dominated_by": {"bounded_range": epsilon, "draws": draws}}:
                return self._amounts(draws * divergence(Ranged(epsilon), self.order))
            case _:  # proof: filter-extra-delta
                return self._amounts(
                    divergence(Pure(float(alone.epsilon)), self.order), alone.delta
                )

    def _amounts(self, divergence: float, extra: Decimal = Decimal(0)) -> Amounts:
        return Amounts({"divergence": _up(divergence), "extra_delta": extra})

    def limits(self, budget: Budget) -> Amounts:
        divergence = _largest_divergence(self.order, budget)
        return Amounts({"divergence": round_down(divergence, 9), "extra_delta": _reserve(budget)})

    def left(self, spent: Amounts, budget: Budget) -> Left:
        return _left(self, spent, budget)


@dataclass(frozen=True)
class GaussianFilter:
    """Sums of mu^2, of the deltas that they leave out, and of what grids lose.

    Formal guarantee: all releases together are (epsilon, delta)-private, however adaptively they
    and their costs were chosen: they tell data sets apart no better than one Gaussian release with
    mu^2 the sum. `leak` is the delta that a lease of sampled steps may leave out of its mu.
    """  # proof: filter-gaussian

    neighbours: Neighbours
    leak: Decimal
    names = ("mu_squared", "extra_delta", "grid_loss")

    @property
    def facts(self) -> dict[str, Any]:
        return {"leak": str(self.leak)}

    def cost(self, alone: Budget, event: Mapping[str, Any]) -> Amounts:
        match event:
            case {"plan": plan}:
                parts, losses = parts_of(Plan.from_dict(plan))
                mu_squared, leak = mu_squared_of_parts(parts, self.neighbours, float(self.leak))
                return self._amounts(mu_squared, self.leak if leak else Decimal(0), *losses)
            case {"dominated_by": {"gaussian": mu, "grid_loss": loss}}:
                return self._amounts(mu**2, Decimal(0), loss)
            case {"dominated_by": {"bounded_range": epsilon, "draws": draws}}:
                return self._amounts(draws * ranged_mu(epsilon) ** 2)
            case _:  # proof: filter-extra-delta
                return self._amounts(pure_mu(float(alone.epsilon)) ** 2, alone.delta)

    def _amounts(self, mu_squared: float, extra: Decimal = Decimal(0), *losses: float) -> Amounts:
        loss = _up(math.fsum(losses)) if losses else Decimal(0)
        return Amounts({"mu_squared": _up(mu_squared), "extra_delta": extra, "grid_loss": loss})

    def limits(self, budget: Budget) -> Amounts:
        loss = float(budget.epsilon) * _GRID
        return Amounts(
            {
                "mu_squared": round_down(_largest_mu(budget) ** 2 * (1 - _ROUNDING), 9),
                "extra_delta": _reserve(budget),
                "grid_loss": round_down(loss, 9),
            }
        )

    def left(self, spent: Amounts, budget: Budget) -> Left:
        return _left(self, spent, budget)


def charged(adds_up: Accountant, entry: Mapping[str, Any]) -> Amounts:
    """What an entry charged; there are no refunds."""
    amounts = {name: decimal(entry[name], name) for name in adds_up.names}
    if min(amounts.values()) < 0:
        raise BudgetError(f"Expected amounts >= 0, got {amounts}.")
    return Amounts(amounts)


def check_charge(adds_up: Accountant, seq: int, entry: Mapping[str, Any]) -> None:
    """Refuse an entry that charged less than what is recorded of its release costs."""
    if entry["kind"] == "charge":
        cost = adds_up.cost(Budget(entry["epsilon"], entry["delta"]), entry["event"]).by_name
        paid = charged(adds_up, entry).by_name
        if any(cost[name] > paid[name] * _ALIKE for name in adds_up.names):
            raise LedgerError(f"Entry {seq} of the ledger charged less than its release costs.")


def history(
    entries: Iterable[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], Amounts, Amounts]]:
    """Entries that created, raised or charged; what was spent after each, and what may be."""
    adds_up, spent, limits = None, Amounts(), Amounts()
    for entry in entries:
        if entry["kind"] in ("created", "raised"):
            budget = Budget(entry["epsilon"], entry["delta"])
            if adds_up is None:
                adds_up = accountant({**BASIC, **entry["pins"]}, budget, entry.get("filter"))
                spent = Amounts.none(adds_up.names)
            limits = adds_up.limits(budget)
        elif entry["kind"] == "charge" and adds_up is not None:
            spent += charged(adds_up, entry)
        else:
            continue
        yield entry, spent, limits


def _up(value: float) -> Decimal:
    """A cost rounded up, to a decimal that a ledger reads back: no less than 1e-100, or 0."""
    return round_up(max(value * (1 + _ROUNDING), _TINIEST) if value else 0.0, 9)


def _leak_of(text: Any) -> Decimal:
    """The leak of a ledger, which may be less than any delta that a person may name."""
    leak = decimal(text, "leak")
    if not 0 < leak < 1:
        raise BudgetError(f"Expected 0 < leak={leak} < 1.")
    return leak


def _reserve(budget: Budget) -> Decimal:
    """The part of delta that extra deltas may take, fixed before any release."""
    # proof: filter-extra-delta. Moving delta there and back as answers come in is not covered.
    return Context(prec=100).multiply(budget.delta, _RESERVED)


def _main_delta(budget: Budget, loss: float = 0.0) -> float:
    """The part of delta that is for the divergence, or for mu."""
    return float(budget.delta) * math.exp(-loss) * (1 - _ROUNDING) - float(_reserve(budget))


def _left(ledger: Accountant, spent: Amounts, budget: Budget) -> Left:
    """The largest epsilon of one more Laplace release, and the delta that others may name."""
    left = ledger.limits(budget) - spent

    def fits(x: float) -> bool:
        return ledger.cost(Budget(max(round_down(1 / x), _LEAST)), {}).within(left)

    largest = float(budget.epsilon)
    nothing = not fits(float(1 / _LEAST))
    epsilon = (
        Decimal(0) if nothing else round_down(1 / bisect(fits, 1 / largest, 2 / largest, 1e-6))
    )
    return Left(epsilon, max(left.by_name["extra_delta"], Decimal(0)))


# One order


def _largest_divergence(order: float, budget: Budget) -> float:
    """The Renyi divergence at an order that is (epsilon, delta)-private.

    Canonne, Kamath and Steinke (2020), Proposition 12, solved for the divergence.
    """  # proof: filter-renyi
    spread = (math.log(_main_delta(budget)) + math.log(order)) / (order - 1)
    return (float(budget.epsilon) - math.log1p(-1 / order) + spread) * (1 - _ROUNDING)


def _best_order(budget: Budget) -> float:
    """The order at which Gaussian noise, whose divergence is in proportion to it, fares best.

    Whole from 3 on: sampling without replacement has no bound at others.
    """
    orders = [1.1, 1.25, 1.5, 1.75, 2.0, 2.5, *map(float, range(3, 100))]
    orders += [float(round(100 * 1.01**k)) for k in range(1400)]
    return max(orders, key=lambda order: _largest_divergence(order, budget) / order)


@lru_cache(maxsize=256)
def _largest_mu(budget: Budget) -> float:
    loss = float(budget.epsilon) * _GRID
    left = float(budget.epsilon) - 2 * loss  # proof: filter-grid
    return gaussian_mu(left, _main_delta(budget, loss))

"""What has changed between two schemas of the same people, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from tacit.spec.columns import Column
from tacit.spec.errors import LedgerError
from tacit.spec.schema import Schema
from tacit.spec.wire import reading

_MOST = 5  # values to name one by one


def schema_changes(recorded: Mapping[str, Any] | None, schema: Schema) -> tuple[str, ...]:
    """What a schema changes of the one that a ledger recorded; refuses one of another table.

    Examples
    --------
    >>> from tacit import Categorical
    >>> before = Schema(Categorical("smoker", ["no", "yes"]), neighbours="replace_one")
    >>> after = Schema(Categorical("smoker", ["no", "yes", "ex"]), neighbours="replace_one")
    >>> schema_changes(before.to_dict(), after)
    ("'smoker': level 'ex' added",)
    """
    if recorded is None:
        return tuple(f"column {column.name!r} added" for column in schema.columns)
    with reading("ledger", LedgerError):
        old = Schema.from_dict(recorded)
    before = {column.name: column for column in old.columns}
    after = {column.name: column for column in schema.columns}
    if not before.keys() & after.keys():
        raise LedgerError(
            f"The ledger knows the columns {_listed(before)}, and this schema has none of them but "
            f"{_listed(after)}: is it the ledger of another table? Of the same people all columns "
            "may stand in one schema. No data were read and no budget was spent."
        )
    found = [f"column {name!r} added" for name in after if name not in before]
    found += [f"column {name!r} left out" for name in before if name not in after]
    for name, column in after.items():
        if name in before:
            found += [f"{name!r}: {change}" for change in _changes(before[name], column)]
    kept = [
        [name for name in names if name in before and name in after] for names in (before, after)
    ]
    if kept[0] != kept[1]:
        found.append("columns in another order")
    if old.max_units != schema.max_units:
        found.append(f"max_units was {old.max_units}, now {schema.max_units}")
    return tuple(found)


def changed_since(changes: Mapping[int, tuple[str, ...]], entry: int, new: tuple[str, ...]) -> str:
    """A sentence on what has changed after an entry of a ledger, and now; empty if nothing has."""
    since = [words for at, words in changes.items() if at > entry]
    words = [each for some in (*since, new) for each in some]
    return f" The schema has changed since: {'; '.join(words)}." if words else ""


def assumed_of_changes(entries: Sequence[int]) -> list[str]:
    """What a certificate assumes where entries of its ledger have changed the schema."""
    if not entries:
        return []
    shown = f"{len(entries)} entries" if len(entries) > _MOST else ", ".join(map(str, entries))
    return [
        f"the schema was changed on the record (in the ledger: {shown}), by what is public and not "
        "by what somebody saw in the data"
    ]


def _changes(old: Column, new: Column) -> list[str]:
    if type(old) is not type(new):
        return [f"was {type(old).__name__}, now {type(new).__name__}"]
    found = []
    for field in fields(new):
        was, now = getattr(old, field.name), getattr(new, field.name)
        if repr(was) == repr(now):  # True is not 1
            continue
        if isinstance(was, tuple):
            what = {"levels": "level", "codes": "code", "vocabulary": "word"}[field.name]
            found += _members(what, was, now)
        else:
            found.append(f"{field.name} was {was!r}, now {now!r}")
    return found


def _members(what: str, was: tuple[Any, ...], now: tuple[Any, ...]) -> list[str]:
    before, after = ({repr(value): value for value in values} for values in (was, now))
    added = [name for name in after if name not in before]
    gone = [name for name in before if name not in after]
    kept = [
        [name for name in names if name in before and name in after] for names in (before, after)
    ]
    found = [
        f"{what} {_listed(names, quoted=False)} {done}"
        for names, done in ((added, "added"), (gone, "left out"))
        if names
    ]
    return found + [f"{what}s in another order"] * (kept[0] != kept[1])


def _listed(names: Iterable[str], *, quoted: bool = True) -> str:
    shown = [repr(name) if quoted else name for name in names]
    more = [f"{len(shown) - _MOST} more"] * (len(shown) > _MOST)
    return ", ".join([*shown[:_MOST], *more])

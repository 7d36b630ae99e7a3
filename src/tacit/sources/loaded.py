"""What the steps of leases read: one version of the source, each set of columns once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tacit.sources.data import AnySnapshot, AnySource, Data, load
from tacit.sources.documents import Documents
from tacit.sources.fingerprints import fingerprint
from tacit.sources.rows import Rows
from tacit.sources.workers import Shards, Workers
from tacit.spec.schema import Schema


@dataclass
class Loaded:
    """What the steps of a lease read, each once."""

    source: AnySource = field(repr=False)
    schema: Schema
    workers: Workers | None = field(default=None, repr=False)
    _read: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    _spread: dict[tuple[str, ...], Shards] = field(default_factory=dict, repr=False)
    _known: dict[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._opened = ExitStack()
        weakref.finalize(self, self._opened.close)

    @cached_property
    def snapshot(self) -> AnySnapshot:
        """One version of the source, open until the last lease that reads it has ended."""
        opened: AbstractContextManager[AnySnapshot] = self.source.snapshot()
        return self._opened.enter_context(opened)

    def rows(self, columns: tuple[str, ...]) -> Data:
        return self.once(columns, lambda: load(self.snapshot, self.schema, columns))

    def spread(self, columns: tuple[str, ...]) -> Data | Shards:
        """What sums run over: rows that are here, or with workers, who get them again if lost."""
        rows = self.rows(columns)
        if self.workers is None:
            return rows
        held: Shards | None = self._spread.get(columns)
        if held is None or held.lost:
            held = self._spread[columns] = self.workers.hold(rows)
        return held

    def fingerprints(self) -> dict[str, str]:
        """What was read so far, by its name, in numbers that know it again."""
        for key, found in self._read.items():
            derived = isinstance(key, tuple) and not isinstance(found, Rows | Documents)
            if not derived and repr(key) not in self._known:
                self._known[repr(key)] = fingerprint(found)
        return self._known

    def once(self, key: Hashable, read: Callable[[], Any]) -> Any:
        if key not in self._read:
            self._read[key] = read()
        return self._read[key]


class Readings:
    """What the leases of one wall have read, which they share while any of them is alive."""

    def __init__(self, source: AnySource, schema: Schema, workers: int | str | None) -> None:
        self.source, self.schema = source, schema
        self.workers = None if workers is None else Workers(workers)
        self._latest: Callable[[], Loaded | None] = lambda: None

    def loaded(self) -> Loaded:
        found = self._latest()
        if found is None:
            found = Loaded(self.source, self.schema, self.workers)
            self._latest = weakref.ref(found)
        return found

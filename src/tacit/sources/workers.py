"""Processes that hold shards of the records: on a Ray cluster of the custodian's own.

They stand inside the wall. The wall decides who takes part in a step and draws the noise; a worker
applies what it is told to the units that it holds, and gives back their sum in integers. Ray never
runs it again, and an exception of its own stays with it.

The units of a table go to the workers in ranges of equal length, a unit with all of its rows. What
a unit adds must not depend on which worker it is with: all have one type of processor, the wall's
code and its libraries, or they are refused.
"""  # proof: workers

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, reduce
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from tacit.sources.data import Data
from tacit.sources.storage import Spool, blocks
from tacit.spec.errors import SourceError

LOST = (
    "A worker was lost, or failed, during this step, whose budget is spent: run again under the "
    "same name, which goes on from this step and charges nothing more."
)
_LIBRARIES = ("numpy", "numba", "llvmlite", "jax", "jaxlib", "ray")
_TUNING = ("NUMBA_", "XLA_", "JAX_", "KMP_", "OMP_", "MKL_", "OPENBLAS_")
_WAITING = 120.0  # seconds for a process to start


class Worker:
    """A process with a shard of each table that was given out."""

    def __init__(self) -> None:
        self._spools: dict[int, list[Spool]] = {}
        self._shards: dict[int, Data] = {}

    def facts(self) -> tuple[str, str, bool]:
        """The code, the machine, and whether strangers are kept out."""
        return code(), machine(), os.environ.get("RAY_AUTH_MODE") == "token"

    def append(self, table: int, array: int, block: np.ndarray) -> None:
        """Keep some rows of one array of a shard; beyond what memory is for, in a file."""
        spools = self._spools.setdefault(table, [])
        if array == len(spools):
            spools.append(Spool(block.dtype, 0 if block.ndim == 1 else block.shape[1]))
        spools[array].append(block)

    def close(self, table: int, kind: Callable[..., Data]) -> None:
        self._shards[table] = kind(*(spool.array() for spool in self._spools.pop(table)))

    def apply(self, table: int, function: Any, units: np.ndarray | None, given: Any) -> Any:
        """What a function of the wall makes of some units of a shard, or of all; None if it fails.

        An exception may quote a cell, and Ray would print it: it stays here.
        """
        try:
            shard = self._shards[table]
            some = np.arange(shard.units) if units is None else np.array(units)
            with np.errstate(all="ignore"):
                return function(shard, some, given)
        except Exception:  # noqa: BLE001
            return None

    def forget(self, table: int) -> None:
        self._shards.pop(table, None)


class Workers:
    """Workers that are alike, each with a range of a table's units.

    `where` is a number of processes on this machine, or the address of a cluster ("ray://host:port",
    "host:port"), which has a worker on each of its nodes.
    """

    def __init__(self, where: int | str) -> None:
        self._where, self._tables = where, count()
        self.ray = _connected(where)
        self.actors: list[Any] = self._started()

    def _started(self) -> list[Any]:
        """Start the processes. Nothing is read or charged by then."""
        ray = self.ray
        try:
            places = _places(ray, self._where)
            options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
            made = ray.remote(**options)(Worker)
            actors = [made.options(scheduling_strategy=place).remote() for place in places]
            facts = ray.get([one.facts.remote() for one in actors], timeout=_WAITING)
        except Exception:  # noqa: BLE001 - of Ray, whose words may hold addresses
            facts = []
        if not facts:
            raise SourceError(
                "No worker could be started: check that the cluster runs ('ray status') and that "
                "tacit can be imported on each of its nodes. Nothing was charged."
            )
        if not all(secret for _, _, secret in facts):
            raise SourceError(_OPEN)
        if {sources for sources, _, _ in facts} != {code()}:
            raise SourceError(
                "The workers have other versions of tacit, numpy, numba, jax or ray than this "
                "process: install the same ones. Nothing was charged."
            )
        if len({machine for _, machine, _ in facts}) > 1:  # proof: workers
            raise SourceError(
                "Expected nodes with one type of processor, as many cores and the same NUMBA_, "
                "XLA_ and JAX_ variables: a sum must not depend on where a record lies. "
                "Nothing was charged."
            )
        return actors

    def hold(self, data: Data) -> Shards:
        """Give the units of a table out; workers that were lost are replaced first."""
        table, ends = next(self._tables), np.zeros(1, np.int64)
        try:
            self.actors = self.actors or self._started()
            ends = np.linspace(0, data.units, len(self.actors) + 1).astype(np.int64)
            for actor, first, stop in zip(self.actors, ends, ends[1:]):
                shard = data.part(int(first), int(stop))
                for i, array in enumerate(shard.arrays):
                    for block in blocks(array) if len(array) else [array]:
                        self.ray.get(actor.append.remote(table, i, block))
                self.ray.get(actor.close.remote(table, type(data)))
        except Exception:  # noqa: BLE001 - a step that is asked of them says so
            self.lose()
        return Shards(self, table, ends)

    def lose(self) -> None:
        """End all processes after one was lost: a sum of some of them is no sum."""
        for actor in self.actors:
            self.ray.kill(actor)
        self.actors = []

    def __reduce__(self) -> Any:
        raise TypeError("Workers cannot be copied or pickled.")


class Shards:
    """A table whose units are with workers. It has no rows of its own."""

    def __init__(self, workers: Workers, table: int, ends: np.ndarray) -> None:
        self._workers, self._table, self._ends = workers, table, ends
        self._actors = workers.actors
        self.units = int(ends[-1])

    @property
    def lost(self) -> bool:
        return not self._actors or self._workers.actors is not self._actors

    def start(self, function: Any, units: np.ndarray, given: Any) -> Callable[[], Any]:
        """Start a sum over some units, in order; return a function that waits for it.

        It returns None where a worker was lost: nothing is known of the step then.
        """
        ray, asked = self._workers.ray, []
        at = np.searchsorted(units, self._ends)
        try:
            shared = ray.put(given)
            for i, actor in enumerate([] if self.lost else self._actors):
                mine = units[at[i] : at[i + 1]] - self._ends[i]
                everyone = mine.size == self._ends[i + 1] - self._ends[i]
                some = None if everyone else mine
                asked.append(actor.apply.remote(self._table, function, some, shared))
        except Exception:  # noqa: BLE001
            asked = []

        def total() -> Any:
            try:
                return reduce(np.add, map(_there, ray.get(asked)), 0)
            except Exception:  # noqa: BLE001 - of Ray, or of a worker
                self._workers.lose()
                return None

        return total

    def __del__(self) -> None:
        with suppress(Exception):  # the cluster may be gone
            for actor in [] if self.lost else self._actors:
                actor.forget.remote(self._table)


def _there(found: Any) -> Any:
    if found is None:
        raise ValueError
    return found


@cache
def code() -> str:
    """A digest of what computes: Tacit's own code and the versions of its libraries."""
    root, found = Path(__file__).parents[1], hashlib.sha256(platform.python_version().encode())
    for path in sorted(root.rglob("*.py")):
        found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    for name in _LIBRARIES:
        try:
            found.update(f"{name} {metadata.version(name)}".encode())
        except metadata.PackageNotFoundError:
            continue
    return found.hexdigest()


def machine() -> str:
    """What the bits of a compiled sum could depend on."""
    from llvmlite import binding

    features = sorted(name for name, there in binding.get_host_cpu_features().items() if there)
    tuned = sorted(item for item in os.environ.items() if item[0].startswith(_TUNING))
    facts = (platform.machine(), binding.get_host_cpu_name(), features, os.cpu_count(), tuned)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


_OPEN = (
    "Expected a cluster that asks for a token, or whoever reaches it could read the records: set "
    "RAY_AUTH_MODE=token before Python and 'ray start' begin, here and on each node. "
    "Nothing was charged."
)


def _connected(where: int | str) -> Any:
    """Ray, connected to this place; once in a process."""
    here = not isinstance(where, str)
    counted = isinstance(where, int) and not isinstance(where, bool) and where > 0
    if not counted and not (isinstance(where, str) and where):
        raise SourceError(
            f'Expected workers= as a number of processes or as "ray://host:port", got {where!r}.'
        )
    if here and "ray" not in sys.modules:  # which looks for it once
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise SourceError(_OPEN)
    try:
        import ray
    except ImportError:
        raise SourceError("workers= needs Ray: pip install 'tacit[cluster]'.") from None
    place = "here" if here else str(where)
    if not ray.is_initialized():
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # of JAX, to all
                options = _local(ray) if here else {"address": place}
                ray.init(log_to_driver=False, logging_level="ERROR", **options)
        except Exception:  # noqa: BLE001 - its words may hold an address or a token
            raise SourceError(
                "Ray could not be reached, or did not start: check the address of workers= and "
                "RAY_AUTH_TOKEN. Nothing was charged."
            ) from None
        _connected_to[:] = [place]
    if _connected_to != [place]:
        raise SourceError(
            "This process is connected to another cluster of Ray: call ray.shutdown() first."
        )
    return ray


_connected_to: list[str] = []


def _local(ray: Any) -> dict[str, Any]:
    """Options of a cluster on this machine, for this process alone.

    Ray opens its own folder and sockets to everyone: they lie within one that is closed.
    """
    home = tempfile.mkdtemp(prefix="tacit-")

    def end() -> None:
        ray.shutdown()
        shutil.rmtree(home, ignore_errors=True)

    atexit.register(end)
    return {"num_cpus": 1, "include_dashboard": False, "_temp_dir": str(Path(home) / "ray")}


def _places(ray: Any, where: int | str) -> list[Any]:
    """Where the processes go: several here, or one on each node that computes."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    names = [node["NodeID"] for node in nodes] if isinstance(where, str) else [nodes[0]["NodeID"]]
    return [On(node_id=name, soft=False) for name in sorted(names)] * (
        1 if isinstance(where, str) else where
    )

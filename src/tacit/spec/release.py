"""The only thing that comes out of the wall: numbers, and the law of the noise in them."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from tacit.spec.certificate import Certificate
from tacit.spec.columns import Label
from tacit.spec.errors import FileError, QueryError
from tacit.spec.html import facts_html, table_html
from tacit.spec.missing import Missing, missing
from tacit.spec.queries import Counts, Query, query_from_dict
from tacit.spec.schema import Schema
from tacit.spec.wire import digest, from_json, plain, reading, to_json

if TYPE_CHECKING:
    import pandas as pd

Family = Literal[
    "discrete_laplace", "discrete_gaussian", "laplace", "gaussian", "draw", "objective", "none"
]
_FORMAT = "tacit-release/1"
_SMOOTH = 1e4  # steps of the grid in one sigma
_SHOWN = 8  # rows
_MISSING = "(missing)"


@dataclass(frozen=True)
class Noise:
    """The law of the noise: `grid` times an integer, drawn with parameter `scale` / `grid`.

    `scale` is Laplace's b (density falls by e every b) or the Gaussian's sigma. A "draw" adds
    nothing: it is itself random, at the temperature `scale`, and rounded to the grid. Of an
    "objective" that was minimised, it is the gradient that has Gaussian noise of this `scale`.
    """

    family: Family
    scale: float
    grid: float

    @property
    def norm(self) -> Literal["L1", "L2"]:
        """The norm in which the noise hides what one unit moves."""
        return "L1" if self.family in ("discrete_laplace", "laplace") else "L2"

    @property
    def variance(self) -> float | None:
        """Variance of the noise on one number; None for a draw."""
        match self.family:
            case "discrete_gaussian" | "gaussian":
                return self.scale**2
            case "laplace":
                return 2 * self.scale**2
            case "discrete_laplace":
                b = self.scale / self.grid
                return float(self.grid**2 / (2 * np.sinh(min(0.5 / b, 300.0)) ** 2))
            case "none":
                return 0.0
            case "draw" | "objective":
                return None

    def half_width(self, level: float = 0.9) -> float | None:
        """Return the smallest width h with P(|noise| <= h) >= level; None for a draw.

        Examples
        --------
        >>> Noise("discrete_laplace", 8.0, 1.0).half_width(0.9)
        18.0
        """
        if not 0 < level < 1:
            raise QueryError(f"Expected 0 < level={level} < 1.")
        match self.family:
            case "laplace":
                return -self.scale * math.log1p(-level)
            case "gaussian":
                return self.scale * NormalDist().inv_cdf((1 + level) / 2)
            case "discrete_laplace":
                # P(|k| > m) = 2 a^(m+1) / (1 + a) with a = exp(-1/b)
                decay = self.grid / self.scale
                steps = (math.log(2) - math.log1p(math.exp(-decay)) - math.log1p(-level)) / decay
                return self.grid * max(0, math.ceil(steps - 1 - 1e-9))
            case "discrete_gaussian":
                return self.grid * _gaussian_steps(self.scale / self.grid, level)
            case "none":
                return 0.0
            case "draw" | "objective":
                return None


def _gaussian_steps(sigma: float, level: float) -> int:
    """The smallest m with P(|k| <= m) >= level, k discrete Gaussian on whole numbers."""
    near = math.ceil(sigma * NormalDist().inv_cdf((1 + level) / 2))
    if sigma > _SMOOTH:  # the continuous law to within 1 part in 10^7
        return near
    weight = np.exp(-0.5 * (np.arange(near + math.ceil(40 * sigma) + 2) / sigma) ** 2)
    weight[1:] *= 2
    share = np.cumsum(weight) / weight.sum()
    return int(np.argmax(share >= level))


class Axis(NamedTuple):
    """A named dimension; the label None is the cell of missing values."""

    name: str
    labels: tuple[Label, ...] | range


@dataclass(frozen=True)
class Block:
    """One table of a release. `omitted` is the label left out because all cells sum to n."""

    name: str
    axes: tuple[Axis, ...]
    omitted: tuple[Label, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.labels) for axis in self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)  # in whole numbers that cannot overflow


class Table(NamedTuple):
    """One block of a release, ready for inference."""

    block: Block
    value: np.ndarray
    noise: Noise


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy answers to one query, with everything needed to use them and nothing else.

    `integers` are the released numbers as multiples of their block's grid, block after block, and
    `noise` is the law of each block.
    `n` is the number of units where that is public (replace_one) and None where it is not.
    `analysis` is the custodian's suggestion of a model; it has no bearing on privacy.
    """

    integers: np.ndarray
    blocks: tuple[Block, ...]
    noise: tuple[Noise, ...]
    n: int | None
    schema: Schema
    query: Query
    certificate: Certificate
    analysis: Mapping[str, Any] | None = None

    @property
    def value(self) -> np.ndarray:
        """All released numbers, block after block."""
        if len(self.blocks) == 1:
            return self.integers * self.noise[0].grid
        sizes = [block.size for block in self.blocks]
        return self.integers * np.repeat([law.grid for law in self.noise], sizes)

    def table(self, name: str) -> Table:
        """One block with its values, shaped (by..., column), and the law of their noise."""
        start = 0
        for block, law in zip(self.blocks, self.noise, strict=True):
            if block.name == name:
                values = self.value[start : start + block.size]
                return Table(block, values.reshape(block.shape), law)
            start += block.size
        known = ", ".join(block.name for block in self.blocks)
        raise QueryError(f"This release has no table {name!r}; it has {known}.")

    def missing(self) -> tuple[Missing, ...]:
        """About how many rows had no value, by the released numbers themselves; nothing is spent.

        For each table of counts, or for all moments together, the share of rows with a 90%
        interval; in words where it was not measured, and for columns with a default.
        """
        return missing(self)

    def to_frame(self, table: str | None = None, level: float = 0.9) -> pd.DataFrame:
        """Return one row for each released number: its labels, `estimate`, and noise interval.

        The interval (`low`, `high`) holds the number that would have been released without noise,
        with at least the probability `level`, whatever the data are; counts begin at 0. It says
        nothing of how far the rows differ from a population: for that fit a model. Of draws it is
        empty, for nothing was added to them. Sums and products of `Moments` are of columns scaled
        to [-1, 1].

        Parameters
        ----------
        table
            One table of the release, with a column for each of its axes. Default: all, with the
            column `table` and the columns of all axes.
        level
            The least probability of the interval.

        Examples
        --------
        >>> import tacit
        >>> schema = Schema(tacit.Categorical("ill", ["no", "yes"]), neighbours="add_remove")
        >>> counts = {"no": 812, "yes": 193, None: 3}
        >>> query = tacit.queries.Counts("ill")
        >>> made = tacit.release_from_table(
        ...     counts, schema=schema, query=query, noise="geometric", scale=2.0
        ... )
        >>> made.to_frame("ill")
                 ill  estimate    low   high
        0         no     812.0  807.0  817.0
        1        yes     193.0  188.0  198.0
        2  (missing)       3.0    0.0    8.0
        """
        import pandas as pd

        blocks = [block.name for block in self.blocks] if table is None else [table]
        rows = [row for name in blocks for row in self._rows(name, level)]
        axes = dict.fromkeys(
            axis.name for block in self.blocks if block.name in blocks for axis in block.axes
        )
        first = ("table",) if table is None else ()
        return pd.DataFrame(rows, columns=[*first, *axes, "estimate", "low", "high"])

    def _rows(self, name: str, level: float) -> list[dict[str, Any]]:
        """The numbers of one table, the cell that was left out among them."""
        block, value, law = self.table(name)
        half = law.half_width(level)
        labels: list[list[Label]] = [
            [_MISSING if v is None else v for v in axis.labels] for axis in block.axes
        ]
        numbers = value.ravel().tolist()
        if block.omitted and self.n is not None:  # two cells that sum to n
            labels, numbers = [[*block.omitted, *labels[0]]], [self.n - numbers[0], *numbers]
        least = 0.0 if isinstance(self.query, Counts) else -math.inf
        rows = []
        for where, estimate in zip(product(*labels), numbers, strict=True):
            row = dict(zip((axis.name for axis in block.axes), where, strict=True))
            ends = (None, None) if half is None else (estimate - half, estimate + half)
            low, high = (None if end is None else max(least, end) for end in ends)
            rows.append({"table": name, **row, "estimate": estimate, "low": low, "high": high})
        return rows

    def __repr__(self) -> str:
        tables = ", ".join(block.name for block in self.blocks[:4])
        more = ", ..." * (len(self.blocks) > 4)
        return (
            f"Release({type(self.query).__name__}, {len(self.integers)} numbers in {tables}{more}; "
            f"{self.noise[0].family} of scale {self.noise[0].scale:.4g}; {self.certificate!r})"
        )

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        shown = frame.head(_SHOWN)
        facts = {
            "query": type(self.query).__name__,
            "numbers": len(self.integers),
            "units": "not public" if self.n is None else self.n,
            "noise": f"{self.noise[0].family}, scale {self.noise[0].scale:.4g}",
        }
        cells = [[f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in shown.values]
        rest = f"<p>and {len(frame) - _SHOWN} rows more</p>" if len(frame) > _SHOWN else ""
        table = table_html(map(str, frame.columns), cells) + rest
        return facts_html("Release", facts, table, self.certificate._repr_html_())

    def suggesting(self, analysis: Mapping[str, Any]) -> Release:
        return replace(self, analysis=dict(analysis))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and digest(self.to_dict()) == digest(other.to_dict())

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        return {"format": _FORMAT, "integers": [int(i) for i in self.integers], **self.header()}

    def header(self, *without: str) -> dict[str, Any]:
        """Everything but the numbers, and what else can be done without."""
        names = ("noise", "n", "blocks", "query", "schema", "certificate", "analysis")
        return {name: plain(getattr(self, name)) for name in names if name not in without}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Release:
        with reading("release"):
            if facts["format"] != _FORMAT:
                raise FileError(f"Expected format {_FORMAT}, got {facts['format']!r}.")
            schema = Schema.from_dict(facts["schema"])
            query = query_from_dict(facts["query"])
            return cls.from_header(facts, schema, facts["integers"], query)

    @classmethod
    def from_header(
        cls, facts: Mapping[str, Any], schema: Schema, integers: Any, query: Query
    ) -> Release:
        """A release from its `header`, its numbers, and the schema and query that one has."""
        with reading("release"):
            blocks = tuple(_block(b) for b in facts["blocks"])
            integers = _whole(integers)
            sized = integers.shape == (sum(block.size for block in blocks),)
            if not sized or len(facts["noise"]) != len(blocks):
                raise FileError("This release does not hold as many numbers as it says.")
            return cls(
                integers=integers,
                blocks=blocks,
                noise=tuple(_law(law) for law in facts["noise"]),
                n=facts["n"],
                schema=schema,
                query=query,
                certificate=Certificate.from_dict(facts["certificate"]),
                analysis=None if facts["analysis"] is None else {**facts["analysis"]},
            )

    def to_json(self) -> str:
        return to_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Release:
        try:
            facts = from_json(text)
        except FileError:
            raise FileError("This is not a Tacit release.") from None
        return cls.from_dict(facts)

    def save(self, path: str | Path) -> None:
        """Write JSON, or a compressed npz where the name ends in `.npz`. No pickle."""
        path = Path(path)
        if path.suffix == ".npz":
            header = to_json({"format": _FORMAT, **self.header()})
            encoded = np.frombuffer(header.encode(), "u1")
            np.savez_compressed(path, integers=self.integers, header=encoded)
        else:
            path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read what `save` wrote."""
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise FileError(f"Cannot read {path}: {error.strerror}.") from None
        try:
            if not raw.startswith(b"PK"):
                return cls.from_json(raw.decode("utf-8", errors="replace"))
            with np.load(io.BytesIO(raw), allow_pickle=False) as file:
                facts = from_json(file["header"].tobytes())
                return cls.from_dict({**facts, "integers": file["integers"].tolist()})
        except (zipfile.BadZipFile, KeyError, FileError, UnicodeDecodeError) as error:
            why = error if isinstance(error, FileError) else "This is not a Tacit release."
            raise FileError(
                f"Cannot read {path}: {why} Expected what tacit release or Release.save wrote, or "
                "a release.json among the results of tacit run."
            ) from None


@lru_cache(maxsize=4)
def read_header(text: str) -> tuple[dict[str, Any], Schema]:
    """A header in JSON and the schema in it: long, and the same for most steps of a lease."""
    header = from_json(text)
    return header, Schema.from_dict(header["schema"])


def _block(facts: Mapping[str, Any]) -> Block:
    axes = tuple(Axis(name, tuple(labels)) for name, labels in facts["axes"])
    block = Block(facts["name"], axes, tuple(facts["omitted"]))
    labels = [label for axis in axes for label in axis.labels] + list(block.omitted)
    names = [block.name, *(axis.name for axis in axes)]
    if not all(isinstance(name, str) for name in names) or not all(
        label is None or isinstance(label, str | int | float) for label in labels
    ):
        raise FileError("Expected names and labels as texts or numbers in a release.")
    return block


def _whole(integers: Any) -> np.ndarray:
    """Integers from a file, which others may have written: none rounded or cut off."""
    found = np.array(integers)
    if found.size and found.dtype.kind != "i":
        raise FileError("Expected the integers of a release as whole numbers that fit 64 bits.")
    return found.astype(np.int64)


def _law(facts: Mapping[str, Any]) -> Noise:
    law = Noise(**facts)
    if law.family not in get_args(Family):
        raise FileError(f"Unknown noise {law.family!r}; there are {', '.join(get_args(Family))}.")
    positive = 0 < law.scale < np.inf or (law.family == "none" and law.scale == 0)
    if not positive or not 0 < law.grid < np.inf:
        raise FileError(f"Expected scale={law.scale} > 0 and grid={law.grid} > 0 in a release.")
    return law

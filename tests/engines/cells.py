"""Tables of cells that engines read, print, compare or group differently, and what is asked."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import tacit
from tacit.queries import Counts, Moments
from tacit.sources.cells import WORD

TYPES = pa.schema(
    {
        "flag": pa.bool_(),
        "small": pa.int16(),
        "whole": pa.int64(),
        "score": pa.float64(),
        "narrow": pa.float32(),
        "word": pa.string(),
        "said": pa.string(),
        "paid": pa.decimal128(20, 4),
        "day": pa.date32(),
        "seen": pa.timestamp("us"),
        "who": pa.string(),
        "number": pa.int64(),
    }
)
CELLS: dict[str, list[Any]] = {
    "flag": [True, False],
    "small": [0, 1, 7, -1, 32767, -32768],
    "whole": [0, 1, 5, 9, 10, -1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)],
    "score": [
        *(0.0, -0.0, 0.1, 0.5, 1.0, 1.0000000000000002, 5e-324, 1e-200, 1e308),
        *(math.nan, -math.nan, math.inf, -math.inf, 0.1 + 0.2),
    ],
    "narrow": [0.0, -0.0, 0.5, 1.0, float(np.float32(0.1)), math.nan, math.inf],
    # Collations may merge or order these; blanks are trimmed by the wall alone.
    "word": [
        *("a", "A", "ä", "a\u0308", "b", " a", "a ", "a\t", "a\u00a0", "", " ", "ß", "ss", "nan"),
        *("1", "1.0", "1 ", "True", "true", "NULL", "a'b", 'a"b', "\\N", "a\\", "\U0001f642"),
        *("a".rjust(WORD), "a".rjust(WORD + 1)),
    ],
    # What a cast reads, or fails for, depends on the engine.
    "said": [
        *("0", "1", "7", " 7", "7 ", "+7", "07", "7.0", "7e0", "1_0", "1,5", "0x7", "", "unknown"),
        *("nan", "inf", "Infinity", "1e400", "-1e400", "1e-400", "9" * 400, "7.", ".5", "７"),
    ],
    "paid": [Decimal(x) for x in ("0", "1", "1.5", "-1.5", "9999999999999999.9999", "0.0001")],
    "day": [
        *(dt.date(2004, 12, 31), dt.date(2005, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        *(dt.date(1500, 2, 28), dt.date(1582, 10, 10), dt.date(1900, 1, 1)),
    ],
    "seen": [
        dt.datetime(2004, 12, 31, 23, 59, 59, 999999),
        dt.datetime(2005, 1, 1),
        dt.datetime(2005, 3, 27, 2, 30),  # an hour that some zones skip
        dt.datetime(1, 1, 1),
        dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
        dt.datetime(1582, 10, 10, 1),
    ],
    "who": [
        *("p", "p ", " p", "P", "q", "7", "7.0", "07", "", " ", "r", "ä", "a\u0308"),
        "q".rjust(WORD + 1),
    ],
    "number": [1, 2, 3, 2**53, 2**53 + 1, -1],
}  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from([None, *some]) for name, some in CELLS.items()}),
    max_size=24,
)
COLUMNS = (
    tacit.Integer("flag", 0, 1),
    tacit.Integer("small", 0, 9),
    tacit.Integer("whole", -1, 10, default=3),
    tacit.Real("score", 0, 1),
    tacit.Real("narrow", -1, 1, default=0),
    tacit.Categorical("word", ["a", "A", "\u00e4", "1", "True", "a\\"]),
    tacit.Real("said", 0, 20),
    tacit.Real("paid", -2, 2),
    tacit.Time("day", "2004", "2005", every="year"),
    tacit.Time("seen", "2004-12-31", "2005-12-31", every="day"),
)
QUERIES = (
    Counts(["flag", "word", ("small", "whole"), ("word", "day"), "seen"]),
    Moments(("score", "said")),
    Moments(("whole", "paid", "narrow"), degree=1),
)


def schemas() -> list[tacit.Schema]:
    return [
        tacit.Schema(*COLUMNS, neighbours="add_remove"),
        *(
            tacit.Schema(*COLUMNS, unit=unit, max_rows_per_unit=2, neighbours="replace_one")
            for unit in ("who", "number")
        ),
    ]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=TYPES)


def statistics(data: Any) -> list[tuple[list[int], int | None]]:
    """Every statistic before noise, and the number of units where it is public."""
    found = []
    for schema in schemas():
        public = tacit.Public(data, schema)
        for query in QUERIES:
            release = public.release(query, tacit.Exact())
            found.append((release.integers.tolist(), release.n))
    return found


def expected(rows: list[dict[str, Any]]) -> list[tuple[list[int], int | None]]:
    """The same of Python objects, each read alone."""
    return statistics({name: [row[name] for row in rows] for name in TYPES.names})


EVERY = [  # each cell in a row of its own, among ordinary ones and once more
    {name: some[0] for name, some in CELLS.items()} | {name: cell}
    for name, some in CELLS.items()
    for cell in [*some, *some, None]
]

"""Counts and moments of any table are those of a slow reference, which reads a cell at a time.

The reference knows the meaning of one cell (`text_of`, and `decoded` of a column of that cell), and
does the rest in Python's own numbers: owners, tickets, which rows are kept, tables and sums. So a
unit's rows add what they would add alone, in every source, batch, type and file.
"""

import math
import random
import struct
from decimal import Decimal
from itertools import combinations_with_replacement, product

import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tacit
from tacit.accounting.moments import SUM_BITS
from tacit.sources import delimited, files, storage, tables
from tacit.sources.cells import text_of
from tacit.sources.columns import decoded, values
from tacit.sources.data import open_data
from tacit.sources.rows import bounded, load_rows
from tacit.spec.moments import scale_of

_BITS = 2**64 - 1


def mixed(word):
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _BITS
    return word ^ (word >> 31)


def signed(word):
    return word - 2**64 if word >= 2**63 else word


def bits(value):
    if isinstance(value, float):
        return struct.unpack("<q", struct.pack("<d", value))[0]
    return value


def kept_rows(owner, rows, most):
    """At most so many rows of one unit, by the tickets that `units.py` describes."""
    ordered = sorted((tuple(map(bits, row)), i) for i, row in enumerate(rows))
    salt = len(owner)
    for byte in owner:
        salt = ((salt ^ byte) * 0x100000001B3) & _BITS
    salt, tickets, twin = mixed(salt), [], 0
    for place, (row, i) in enumerate(ordered):
        twin = twin + 1 if place and row == ordered[place - 1][0] else 0
        ticket = salt
        for word in row:
            ticket = (mixed(ticket ^ (word & _BITS)) + 0x9E3779B97F4A7C15) & _BITS
        tickets.append((signed(mixed(ticket ^ twin)), place, i))
    chosen = sorted(tickets)[:most] if len(rows) > most else tickets
    return [rows[i] for _, _, i in chosen]


def reference(cells, schema, query):
    """The exact statistic and the number of units, from columns of Python values."""
    values = {c.name: [decoded(c, [x])[0].item() for x in cells[c.name]] for c in schema.columns}
    rows = list(zip(*values.values(), strict=True))
    units = {}
    for i, row in enumerate(rows):
        owner = b"%d" % i if schema.unit is None else text_of(cells[schema.unit][i])
        if owner:
            units.setdefault(owner, []).append(row)
    most = schema.max_rows_per_unit
    kept = [row for owner, some in units.items() for row in kept_rows(owner, some, most)]
    names = list(values)
    if isinstance(query, tacit.queries.Counts):
        counts = []
        for table in query.tables:
            codes = [[row[names.index(name)] for name in table] for row in kept]
            counts += tally(codes, table, schema)
        return counts, len(units)
    chosen = [schema[name] for name in query.columns]
    sums = [0] * len(query.names)
    for row in kept:
        at = [number(c, row[names.index(c.name)]) for c in chosen]
        if None not in at:
            scales = [scale_of(c, query.centred) for c in chosen]
            whole = [rounded(x, s, 2.0 ** SUM_BITS[query.degree]) for x, s in zip(at, scales)]
            pairs = combinations_with_replacement(whole, 2) if query.degree == 2 else ()
            moments = [1, *whole, *(a * b for a, b in pairs)]
            sums = [a + b for a, b in zip(sums, moments, strict=True)]
    return sums[query.rows_are_public(schema) :], len(units)


def tally(codes, names, schema):
    columns = [schema[name] for name in names]
    ranges = [[*range(len(c.labels)), *([-1] * (c.default is None))] for c in columns]
    found = [sum(code == list(cell) for code in codes) for cell in product(*ranges)]
    alone = len(found) == 2 and len(names) == 1 and columns[0].default is not None
    public = schema.neighbours == "replace_one" and schema.max_rows_per_unit == 1
    return found[1:] if alone and public else found


def number(column, value):
    if isinstance(column, tacit.Real):
        return None if math.isnan(value) else value
    return None if value == -1 else float(value + getattr(column, "low", 0))


def rounded(x, scale, most):
    return int(min(max(math.floor((x - scale[0]) / scale[1] * most + 0.5), -most), most))


# Tables

TEXTS = ["a", " b", "1", "1.0", "ä", "", None, "0", "-1", "3", "true", "nan", "1e400", "0.5", "\0"]
WHOLE = [None, 0, 1, 2, 3, -1, 2**40, 2**53 + 1, -(2**63), 2**63 - 1]
DOUBLES = [None, 0.0, -0.0, 1.0, 0.5, math.nan, math.inf, -math.inf, 5e-324, 1e308, -1.0, 3.0]
NAN_WITH_A_PAYLOAD = np.array([0x7FF8DEADBEEF0001], np.uint64).view(float)


def cells_of(rng, size):
    """A random column of a random declared type."""

    def some(values):
        return [rng.choice(values) for _ in range(size)]

    match rng.randrange(9):
        case 0:
            return pa.array(some(TEXTS), rng.choice([pa.string(), pa.large_string()]))
        case 1:
            texts = [t if t is None else t.encode() for t in TEXTS]
            return pa.array(some([*texts, b"\xff"]), pa.binary())
        case 2:
            return pa.array(some(WHOLE), pa.int64())
        case 3:
            small = [None, 0, 1, 2, 3, 255]
            return pa.array(some(small), rng.choice([pa.uint8(), pa.uint64(), pa.int16()]))
        case 4:
            return pa.array(np.append(np.array(some(DOUBLES), float), NAN_WITH_A_PAYLOAD)[1:])
        case 5:
            return pa.array(some([None, True, False]), pa.bool_())
        case 6:
            decimals = [None, Decimal("1.00"), Decimal("0.50"), Decimal(-1), Decimal(3)]
            return pa.array(some(decimals), pa.decimal128(9, 2))
        case 7:
            return dictionary(rng, size, pa.array(rng.choices(TEXTS, k=rng.choice([1, 5, 140]))))
        case _:
            return dictionary(rng, size, pa.array(rng.choices(WHOLE, k=5), pa.int64()))


def dictionary(rng, size, values):
    """With texts that repeat themselves, with nulls among texts and indices."""
    index = [None if rng.random() < 0.2 else rng.randrange(len(values)) for _ in range(size)]
    types = [pa.int16(), pa.uint8(), pa.uint64()]
    return pa.DictionaryArray.from_arrays(pa.array(index, rng.choice(types)), values)


def owners_of(rng, size):
    ids = [rng.randrange(rng.choice([3, 40])) for _ in range(size)]
    ids = [None if rng.random() < 0.1 else i for i in ids]
    texts = [i if i is None else "" if i == 0 else f" {i}" if i % 2 else f"p{i}" for i in ids]
    match rng.randrange(5):
        case 0:
            least = [i if i != 0 else -(2**63) for i in ids]
            return pa.array(least, pa.int64())
        case 1:
            return pa.array(ids, rng.choice([pa.uint64(), pa.int8(), pa.decimal128(9, 2)]))
        case 2:
            return pa.array(texts)
        case 3:
            blanks = pa.array([None, *(f"q{i // 2}" + " " * (i % 2) for i in range(50))])
            return dictionary(rng, size, blanks)
        case _:
            return pa.nulls(size) if rng.random() < 0.2 else pa.array([t and t[:1] for t in texts])


COLUMNS = [
    tacit.Categorical("x", ["a", "b", "1", "ä"]),
    tacit.Categorical("y", ["0", "a"], default="a"),
    tacit.Categorical("z", [False, True]),
    tacit.Categorical("w", [3, -1, 2**40]),
    tacit.Integer("i", -1, 3),
    tacit.Integer("j", 0, 5, default=2),
    tacit.Real("r", -1, 1e100),
    tacit.Real("s", 0, 1e-300),
    tacit.Real("t", -2, 3, default=-0.0),
]


def sources(rng, table, folder):
    """The table as it is, and in files and an engine, with their cells as Python values."""
    cells = {name: table[name].to_pylist() for name in table.column_names}
    at = sorted(rng.randrange(table.num_rows + 1) for _ in range(3))
    parts = [table[a:b] for a, b in zip([0, *at], [*at, table.num_rows], strict=True)]
    yield "arrow", pa.concat_tables(parts), cells
    yield "lists", cells, cells
    plain = table.cast(
        pa.schema([(f.name, getattr(f.type, "value_type", f.type)) for f in table.schema])
    )
    frame = pl.from_arrow(plain)
    yield "polars", frame, {name: frame[name].to_list() for name in frame.columns}
    # Parquet holds no null among the texts of a dictionary.
    nulls = {f.name for f in plain.schema if pa.types.is_null(f.type)}
    encoded = {
        name: plain[name] if name in nulls else plain[name].dictionary_encode()
        for name in plain.column_names
    }
    pq.write_table(
        rng.choice([plain, pa.table(encoded)]),
        folder / "a.parquet",
        row_group_size=rng.choice([7, 10**6]),
        dictionary_pagesize_limit=rng.choice([10, 10**6]),
        write_batch_size=rng.choice([1, 1024]),
    )
    yield "parquet", folder / "a.parquet", cells
    texts = {name: [text_of(x) or b"" for x in some] for name, some in cells.items()}
    lines = [b",".join(b'"%s"' % x for x in row) for row in zip(*texts.values(), strict=True)]
    header = ",".join(texts).encode()
    (folder / "a.csv").write_bytes(b"\n".join([header, *lines]) + b"\n")
    if len(texts) > 1:  # else a blank line would be a row
        yield "csv", folder / "a.csv", texts
    if not nulls:  # DuckDB has no such columns
        yield "duckdb", ibis.duckdb.connect().create_table("t", plain), cells


def queries(rng, columns):
    counted = [c.name for c in columns if not isinstance(c, tacit.Real)]
    together = [tuple(counted[:2])] if len(counted) > 1 else []
    if counted:
        yield tacit.queries.Counts([*together, *counted])
    measured = [c.name for c in columns if c.name in "yzijrst"]
    if measured:
        yield tacit.queries.Moments(measured, rng.choice([1, 2]), centred=rng.random() < 0.5)


def compare(seed, folder, monkeypatch):
    rng = random.Random(seed)
    columns = rng.sample(COLUMNS, rng.randrange(1, 4))
    relation = {"neighbours": rng.choice(["replace_one", "add_remove"])}
    most = rng.choice([1, 2, 5])
    unit = {"unit": "who", "max_rows_per_unit": most} if rng.random() < 0.8 else {}
    schema = tacit.Schema(*columns, **unit, **relation)
    size = rng.choice([0, 1, 20, 150])
    limits = (tables, "BATCH"), (files, "_ROWS"), (delimited, "_CHUNK"), (storage, "IN_MEMORY")
    for module, name in limits:
        monkeypatch.setattr(module, name, max(rng.choice([1, 16, 300, 2**28]), size // 8))
    made = {c.name: cells_of(rng, size) for c in columns}
    table = pa.table(made | ({"who": owners_of(rng, size)} if unit else {}))
    for source, data, cells in sources(rng, table, folder):
        public = tacit.Public(data, schema)
        for query in queries(rng, columns):
            release = public.release(query, tacit.Exact())
            expected, n = reference(cells, schema, query)
            assert release.integers.tolist() == expected, (seed, source, query)
            if schema.neighbours == "replace_one":
                assert release.n == public.n_units == n, (seed, source)


@pytest.mark.parametrize("seed", range(40))
def test_a_statistic_is_that_of_the_reference(seed, tmp_path, monkeypatch):
    compare(seed, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 400))
def test_a_statistic_is_that_of_the_reference_often(seed, tmp_path, monkeypatch):
    compare(seed, tmp_path, monkeypatch)


# How many bits a number takes


@pytest.mark.parametrize(
    ("column", "cells", "bits"),
    [
        (tacit.Real("x", -5, 5), pa.array([0.1, 2.0, 9.0, None], pa.float32()), 32),
        (tacit.Real("x", -5, 5), pa.array([0.1, 2.0, 9.0, None], pa.float64()), 64),
        (tacit.Real("x", -5, 5, default=0.5), pa.array([0.1, 2.0, 9.0], pa.float32()), 32),
        (tacit.Real("x", -5, 5, default=0.1), pa.array([0.1, 2.0, 9.0], pa.float32()), 64),
        (tacit.Real("x", -5, 5), ["0.1", "2", "nine", None], 64),
        (tacit.Integer("x", -(2**24), 2**24), [2**24, -(2**24), 3, None], 32),
        (tacit.Integer("x", 0, 2**24 + 1), [2**24 + 1, 2**24, 3, None], 64),
        (tacit.Categorical("x", ["a", "b"]), ["a", "b", "c"], 32),
    ],
)
@pytest.mark.parametrize("unit", [None, "who"])
def test_numbers_of_32_bits_are_for_what_they_hold_exactly(column, cells, bits, unit):
    """By the types of schema and column, and never by what a cell is."""
    rows = None if unit is None else 1
    described = tacit.Schema(column, unit=unit, max_rows_per_unit=rows, neighbours="replace_one")
    data = {"x": cells, "who": [f"p{i}" for i in range(len(cells))]}
    with open_data(data, described).snapshot() as snapshot:
        held = load_rows(snapshot, described, ("x",))
        (found,) = [b.columns["x"] for b in bounded(snapshot, described, ("x",))]
    assert held.values.dtype.itemsize * 8 == bits
    exact = values(column, found)
    np.testing.assert_array_equal(held.values[:, 0].astype(float), exact)
    assert held.cast(np.dtype(np.float64)).dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        held.values[0] = 0

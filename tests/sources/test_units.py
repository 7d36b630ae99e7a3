"""Which rows of a unit are kept: at most k, by its own rows alone, however they are stored."""

import numpy as np
import pyarrow as pa
import pytest

import tacit
from tacit.sources import storage
from tacit.sources.cells import TEXT
from tacit.sources.storage import ByUnit, Spool, forget
from tacit.sources.tables import folded
from tacit.sources.units import hashes, owner, units_of


def rows(n, people, seed=0):
    rng = np.random.default_rng(seed)
    who = rng.integers(-people // 2, people // 2, n)
    return who, [rng.integers(0, 3, n), rng.choice([0.0, 0.5, np.nan], n)]


def kept_of(who, contents, most):
    """Each unit's kept rows, in their order."""
    ids = pa.array([str(x) for x in who.tolist()]).cast(TEXT) if who.dtype.kind == "O" else who
    kept, first = units_of([pa.array(ids)], contents, most)
    found = {}
    for row in kept:
        found.setdefault(who[row], []).append(tuple(c[row].tobytes() for c in contents))
    assert first.sum() == len(found)
    assert [who[row] for row in kept[first == 1]] == list(found)
    return found


@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_unit_keeps_its_own_rows_whatever_the_order_and_the_others(most):
    who, contents = rows(3000, 200)
    found = kept_of(who, contents, most)
    counts = {x: int((who == x).sum()) for x in set(who.tolist())}
    assert {x: len(some) for x, some in found.items()} == {
        x: min(n, most) for x, n in counts.items()
    }
    order = np.random.default_rng(1).permutation(3000)
    assert kept_of(who[order], [c[order] for c in contents], most) == found
    alone = who == who[0]
    assert kept_of(who[alone], [c[alone] for c in contents], most)[who[0]] == found[who[0]]


def test_an_id_is_the_same_as_a_number_and_as_text():
    who, contents = rows(500, 20)
    as_text = kept_of(who.astype(object), contents, 4)
    assert as_text == kept_of(who, contents, 4)
    ids = pa.array([-(2**63), -7, 0, 2**63 - 1, None])
    texts = pa.array([b"-9223372036854775808", b"-7", b"0", b"9223372036854775807", b""], TEXT)
    np.testing.assert_array_equal(hashes(ids), hashes(texts))
    assert owner(ids).type == pa.int64()
    assert owner(pa.array([1], pa.uint64())).type == TEXT


def test_owners_are_of_one_type_whether_a_batch_is_folded_or_not():
    """Rows of both batches are put side by side: one type for a column, whatever its cells."""
    for ids in (pa.array([3, 5]), pa.array(["3", "5"]), pa.array([b"3", b"5"], pa.binary(1))):
        few = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 8), ids)
        many = pa.DictionaryArray.from_arrays(pa.array([0, 1]), ids)
        found = [owner(folded(batch)) for batch in (few, many)]
        assert found[0].type == found[1].type
        assert found[0].cast(pa.large_string()).to_pylist() == ["3", "5"] * 8


def test_rows_are_chosen_evenly():
    """Of ten different rows of 20,000 people two are kept: each value alike. False alarm 1e-6."""
    people = np.repeat(np.arange(20_000), 10)
    value = np.tile(np.arange(10), 20_000)
    kept, _ = units_of([pa.array(people)], [value], 2)
    share = np.bincount(value[kept]) / 20_000
    assert np.abs(share - 0.2).max() < 5.4 * np.sqrt(0.2 * 0.8 / 20_000)


def test_equal_rows_are_chosen_as_often_as_they_stand():
    """Nine rows of a and one of b, of which one is kept: b for a tenth of people. 1e-6."""
    people = np.repeat(np.arange(20_000), 10)
    value = np.tile([1] + [0] * 9, 20_000)
    kept, _ = units_of([pa.array(people)], [value], 1)
    assert abs(value[kept].mean() - 0.1) < 5 * np.sqrt(0.1 * 0.9 / 20_000)


def test_many_rows_of_one_unit_are_sorted_in_time():
    """A heap has no bad order: 200,000 equal or ordered rows of one person."""
    for value in (np.zeros(200_000, np.int64), np.arange(200_000)):
        kept, first = units_of([pa.array(np.zeros(200_000, np.int64))], [value], 3)
        assert len(kept) == 3
        assert first.tolist() == [1, 0, 0]


SCHEMA = tacit.Schema(
    tacit.Integer("x", 0, 9),
    tacit.Real("y", 0, 1),
    unit="who",
    max_rows_per_unit=2,
    neighbours="replace_one",
)


def answers(data):
    public = tacit.Public(data, SCHEMA)
    queries = tacit.queries.Counts("x"), tacit.queries.Moments(("x", "y"))
    found = [public.release(query, tacit.Exact()) for query in queries]
    return [(release.integers.tolist(), release.n) for release in found], public.n_units


@pytest.mark.parametrize("named", [False, True])
def test_rows_put_aside_in_files_are_those_kept_in_memory(monkeypatch, named):
    rng = np.random.default_rng(5)
    who = rng.integers(0, 900, 5000)
    ids = [None if i % 50 == 0 else f"person {i}" for i in who.tolist()] if named else who
    data = {"who": ids, "x": rng.integers(0, 10, 5000), "y": rng.random(5000)}
    expected = answers(data)
    monkeypatch.setattr(storage, "IN_MEMORY", 5000)
    assert answers(data) == expected


def test_a_spool_reads_back_what_was_appended(monkeypatch):
    blocks = [np.arange(12.0).reshape(4, 3) + i for i in range(20)]
    for limit in (2**28, 100):
        monkeypatch.setattr(storage, "IN_MEMORY", limit)
        spool = Spool(np.float64, 3)
        for block in blocks:
            spool.append(block)
        found = spool.array()
        np.testing.assert_array_equal(found, np.concatenate(blocks))
        forget(found, 0, len(found))
        np.testing.assert_array_equal(found, np.concatenate(blocks))
    assert Spool(np.int32).array().shape == (0,)
    assert Spool(np.int32, 2).array().shape == (0, 2)


def test_rows_of_a_file_are_looked_at_in_pieces(monkeypatch):
    """Whose memory is given back: little of a file is resident however often it is read."""
    monkeypatch.setattr(storage, "IN_MEMORY", 2**20)
    monkeypatch.setattr(storage, "PIECE", 2**22)
    spool, size = Spool(np.float64, 8), 2**20  # 64 MB
    for i in range(16):
        spool.append(np.full((size // 16, 8), float(i)))
    found = spool.array()
    assert storage.pieces(found, size) == 17
    assert storage.pieces(found, 3) == 1  # of few rows a few pages
    assert storage.pieces(np.zeros((size, 8)), size) == 1
    before, most, total = _mapped_mb(), 0.0, 0.0
    for block in storage.blocks(found[5:]):
        total += block[:, 0].sum()
        most = max(most, _mapped_mb() - before)
    assert total == found[5:, 0].sum()
    forget(found, 0, size)
    assert 3 < most < 10
    assert _mapped_mb() - before < 1
    half = storage.cast(found, np.float32).array()
    assert half.dtype == np.float32
    np.testing.assert_array_equal(half[:: size // 64], found[:: size // 64])


def _mapped_mb():
    """How much of files is resident."""
    with open("/proc/self/status") as facts:
        return int(next(line for line in facts if line.startswith("RssFile")).split()[1]) / 1024


def test_all_rows_of_a_unit_are_in_one_part(monkeypatch):
    monkeypatch.setattr(storage, "IN_MEMORY", 2000)
    put = ByUnit()
    for i in range(10):
        put.append(pa.array([f"{j % 37}" for j in range(100)]).cast(TEXT), [np.arange(100) + i])
    seen = [set(pa.chunked_array(owners).to_pylist()) for owners, _ in put.parts() if owners]
    assert len(seen) > 10
    assert sum(map(len, seen)) == len(set().union(*seen)) == 37


@pytest.mark.parametrize("kind", [pa.int64(), TEXT])
def test_rows_of_nobody_are_put_aside_too(monkeypatch, kind):
    monkeypatch.setattr(storage, "IN_MEMORY", 100)
    put = ByUnit()
    some = pa.array([None] * 99 + [7], pa.int64()).cast(pa.string()).cast(kind)
    for owners in (pa.nulls(100, kind), some, pa.nulls(100, kind)):
        put.append(owners, [np.arange(100)])
    parts = [units_of(owners, contents, 1)[0].size for owners, contents in put.parts()]
    assert sum(parts) == 1

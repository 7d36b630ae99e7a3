"""Texts behind the wall: words by one public rule, and the same counts whatever the source."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

import tacit
from tacit.sources import storage
from tacit.sources import texts as _texts
from tacit.sources.data import load, open_data
from tacit.spec.texts import word_counts

VOCABULARY = ["war", "peace", "Love", "étoile", "1914", "so_called"]
TEXTS = ["War and PEACE, war!", "love étoile-Étoile 1914", None, "", "nothing so_called lovely"]


def schema(unit=None, rows=None, neighbours="replace_one", most=100):
    words = tacit.Tokens("letter", VOCABULARY, max_length=most)
    return tacit.Schema(words, unit=unit, max_rows_per_unit=rows, neighbours=neighbours)


def read(data, described, owners=None):
    with open_data(data, described, owners).snapshot() as snapshot:
        return load(snapshot, described, ("letter",))


def dense(documents):
    table = np.zeros((len(documents.offsets) - 1, len(VOCABULARY)))
    for i in range(len(table)):
        here = slice(documents.offsets[i], documents.offsets[i + 1])
        table[i, documents.words[here]] = documents.weights[here]
    return table


COUNTS = np.array(
    [[2, 1, 0, 0, 0, 0], [0, 0, 1, 2, 1, 0], [0] * 6, [0] * 6, [0, 0, 0, 0, 0, 1]], float
)


def test_words_are_runs_of_letters_in_lower_case():
    place, word, counts = word_counts(pa.array(TEXTS), VOCABULARY)
    found = np.zeros((5, 6))
    found[place, word] = counts
    np.testing.assert_array_equal(found, COUNTS)


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow", "parquet", "csv"])
def test_every_source_has_the_same_counts(kind, tmp_path):
    frame = pd.DataFrame({"id": range(5), "letter": TEXTS})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = {
        "dict": {"letter": TEXTS},
        "pandas": frame,
        "polars": pl.DataFrame({"letter": TEXTS}),
        "arrow": pa.table({"letter": TEXTS}),
        "parquet": tmp_path / "a.parquet",
        "csv": tmp_path / "a.csv",
    }[kind]
    documents = read(data, schema())
    np.testing.assert_array_equal(dense(documents), COUNTS)
    assert tacit.Public(data, schema()).n_units == 5


def test_texts_and_a_matrix_of_their_counts_are_the_same_data():
    owners = ["a", "b", "a", "c", None]
    described = schema("author", 2)
    texts = read({"letter": TEXTS, "author": owners}, described)
    matrix = read(csr_matrix(COUNTS), described, owners)
    assert texts.units == matrix.units == 3
    sums = [
        sorted(dense(d)[d.starts[i] : d.starts[i + 1]].sum(axis=0).tolist() for i in range(3))
        for d in (texts, matrix)
    ]
    assert sums[0] == sums[1]


def test_no_unit_has_more_texts_than_the_schema_allows():
    table = {"letter": ["war"] * 50 + ["peace"], "author": ["busy"] * 50 + ["calm"]}
    documents = read(table, schema("author", 3))
    assert documents.units == 2
    assert sorted(np.diff(documents.starts)) == [1, 3]


def test_a_long_text_is_weighted_down():
    documents = read({"letter": ["war " * 10**6 + "peace"]}, schema(most=50))
    assert documents.weights.sum() <= 50
    assert documents.weights[0] > 49


def test_what_is_kept_cannot_be_written_to(monkeypatch):
    documents = read({"letter": TEXTS}, schema())
    for array in documents.arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    monkeypatch.setattr(storage, "IN_MEMORY", 8)
    again = read({"letter": TEXTS}, schema())
    for array, same in zip(again.arrays, documents.arrays, strict=True):
        np.testing.assert_array_equal(array, same)
    with pytest.raises(ValueError, match="read-only"):
        again.words[...] = 0
    assert not again.words.flags.owndata  # a file that the system pages in


def test_no_texts_at_all():
    documents = read({"letter": []}, schema())
    assert documents.units == 0
    assert read({"letter": [None]}, schema()).words.size == 0


def test_what_cannot_be_read_is_refused_at_once():
    words = tacit.Tokens("letter", ["New York"], max_length=9)
    odd = tacit.Schema(words, neighbours="replace_one")
    with pytest.raises(tacit.errors.SchemaError, match="single words"):
        open_data({"letter": ["x"]}, odd)
    with pytest.raises(tacit.errors.SourceError, match="'letter'"):
        open_data({"text": ["x"]}, schema())


# How many units there are


def test_the_number_of_units_is_told_where_it_is_public():
    table = {"x": [1.0, 2, 3, 4], "who": ["a", "b", "a", None]}
    for neighbours, expected in (("replace_one", 2), ("add_remove", None)):
        described = tacit.Schema(
            tacit.Real("x", 0, 9), unit="who", max_rows_per_unit=1, neighbours=neighbours
        )
        assert tacit.Public(table, described).n_units == expected
        wall = tacit.Wall(table, described, budget=tacit.Budget(1), ledger=":memory:")
        assert wall.n_units == expected
        assert wall.remaining.epsilon == 1


def test_a_source_that_is_gone_says_so_and_nothing_else(tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"letter": TEXTS}).to_parquet(path)
    wall = tacit.Wall(path, schema(), budget=tacit.Budget(1), ledger=":memory:")
    path.unlink()
    with pytest.raises(tacit.errors.SourceError, match="Nothing was charged") as caught:
        wall.n_units  # noqa: B018
    assert caught.value.__context__ is None
    assert "a.parquet" not in str(caught.value)


def test_a_text_is_read_up_to_a_public_length(monkeypatch):
    long = "war " * 2000 + "peace"
    documents = read({"letter": [long, "peace"]}, schema(most=10))
    table = dense(documents)
    assert table[0, 1] == 0  # what comes after 100 letters for each of 10 words
    assert table[1, 1] == 1


def test_texts_are_counted_the_same_in_small_slices(monkeypatch):
    texts = [f"war {'peace ' * (i % 7)} {'x' * (i % 50)}" for i in range(500)] + [None, ""]
    whole = dense(read({"letter": texts}, schema()))
    monkeypatch.setattr(_texts, "_COUNTED", 64)
    monkeypatch.setattr(_texts, "_MOVED", 9)
    np.testing.assert_array_equal(dense(read({"letter": texts}, schema())), whole)


def test_memory_follows_from_public_numbers():
    """A document of many words takes no more of it than one of few."""

    def asked(chosen, vocabulary):
        places = np.full(vocabulary, -1)
        places[:chosen] = np.arange(chosen)
        words = tacit.Tokens("words", [f"w{i}" for i in range(vocabulary)], max_length=10**6)
        described = tacit.Schema(words, neighbours="replace_one")
        query = tacit.queries.BoundedSum(
            tacit.queries.Kernel("topics.cooccurrence"), "words", size=(chosen, chosen), clip=9.0,
            geometry="nonnegative", state=(places,),
        )  # fmt: skip
        public = tacit.Public(csr_matrix(np.ones((1, vocabulary))), described)
        return public.release(query, tacit.Exact()).value.reshape(chosen, chosen)

    chosen = 1000
    assert asked(3, 5).sum() == pytest.approx(3**0.5)  # and is compiled
    tracemalloc.start()
    found = asked(chosen, 200_000)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4e8  # 1.6 GB, were there a row for each word
    pairs = chosen * (chosen - 1) / 2
    np.testing.assert_allclose(found, np.triu(np.full_like(found, pairs**-0.5), 1), rtol=1e-4)

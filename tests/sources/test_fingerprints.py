"""What knows data again: equal for the same units in any order, and different for any other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import tacit
from tacit.sources import fingerprints
from tacit.sources.data import load, open_data
from tacit.sources.fingerprints import fingerprint

NUMBERS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0, 0.1, 2.0]))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, st.sampled_from("abcd")), min_size=1, max_size=9)


def of_rows(rows, unit):
    more = {"unit": "who", "max_rows_per_unit": 9} if unit else {}
    schema = tacit.Schema(
        tacit.Real("x", 0, 1), tacit.Real("y", 0, 1), neighbours="replace_one", **more
    )
    data = dict(zip(("x", "y", "who"), map(list, zip(*rows))))
    with open_data(data, schema).snapshot() as snapshot:
        found = load(snapshot, schema, ("x", "y"))
    kept = np.split(found.values + 0.0, found.starts[1:-1])
    return fingerprint(found), sorted(np.nan_to_num(part, nan=9.0).tolist() for part in kept)


@settings(deadline=None)
@given(ROWS, ROWS, st.booleans(), st.randoms())
def test_data_are_known_again(rows, others, unit, rng):
    shuffled = rng.sample(rows, len(rows))
    assert of_rows(rows, unit) == of_rows(shuffled, unit)
    (one, seen), (other, also) = of_rows(rows, unit), of_rows(others, unit)
    assert (one == other) == (seen == also)


def test_pieces_of_units_and_empty_tables_are_no_matter(monkeypatch):
    rows = [(0.5, 0.25 * (i % 4), "abcd"[i % 4]) for i in range(8)]
    whole = of_rows(rows, True)
    monkeypatch.setattr(fingerprints, "_UNITS", 1)
    assert of_rows(rows, True) == whole
    schema = tacit.Schema(tacit.Real("x", 0, 1), neighbours="add_remove")
    with open_data({"x": []}, schema).snapshot() as snapshot:
        assert fingerprint(load(snapshot, schema, ("x",))) == "0" * 32


@pytest.mark.parametrize("changed", ["word", "count", "writer"])
def test_documents_are_known_again(changed):
    schema = tacit.Schema(
        tacit.Tokens("words", ["a", "b", "c"], 9),
        unit="who",
        max_rows_per_unit=2,
        neighbours="replace_one",
    )

    def of(counts, writers):
        matrix = csr_matrix(np.array(counts))
        with open_data(matrix, schema, writers).snapshot() as documents:
            return fingerprint(load(documents, schema, ("words",)))

    counts, writers = [[1, 0, 2], [0, 1, 0], [3, 0, 0]], [1, 2, 1]
    same = of(counts, writers)
    assert same == of([counts[1], counts[0], counts[2]], [2, 1, 1])
    other = {"word": [[1, 2, 0], *counts[1:]], "count": [[1, 0, 1], *counts[1:]]}
    assert same != of(other.get(changed, counts), [1, 2, 2] if changed == "writer" else writers)

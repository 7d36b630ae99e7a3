"""The reader of CSV files agrees with Python's on every sequence of bytes, however it is cut."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.sources import delimited

_RETURN = "\u0100"  # the csv module would end a line at a carriage return


def python_reads(raw, width, where):
    line = b""

    def lines():
        nonlocal line
        for line in io.BytesIO(raw.removeprefix(b"\xef\xbb\xbf")):
            yield line.decode("latin-1").replace("\r", _RETURN)

    found = []
    for row in csv.reader(lines()):
        if row and line.endswith((b"\r\n", b"\r")):
            row[-1] = row[-1].removesuffix(_RETURN)
        blank = not row or (row == [""] and not line.strip(b"\r\n"))
        if width == 1 or not blank:
            cells = (row + [""] * width)[:width]
            found.append([cells[i].replace(_RETURN, "\r").encode("latin-1") for i in where])
    return found[1:]


def ours(raw, width, where, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_CHUNK", chunk)
        batches = list(delimited.records(io.BytesIO(raw), ",", width, where))
    return [list(row) for batch in batches for row in zip(*(c.to_pylist() for c in batch))]


@settings(max_examples=600, deadline=None)
@given(
    st.lists(st.sampled_from(list(b'a,"\n\r\n,b\x00\xff1')), max_size=60).map(bytes),
    st.sampled_from([(1, [0]), (2, [0]), (2, [1, 0]), (3, [2, 0]), (3, [0, 1, 1])]),
    st.sampled_from([3, 4, 7, 100, 2**22]),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_any_bytes_are_read_as_python_reads_them(body, columns, chunk, ending, mark):
    width, where = columns
    raw = mark + b",".join(b"h%d" % i for i in range(width)) + ending + body
    if raw.endswith(b"\r") and raw.count(b'"'):
        raw += b"\n"  # a mark that never closes keeps what follows, the carriage return too
    assert ours(raw, width, where, chunk) == python_reads(raw, width, where)


def test_a_mark_that_never_closes_keeps_what_follows():
    assert ours(b'h\na\n"b\r\nc\r', 1, [0], 3) == [[b"a"], [b"b\r\nc\r"]]


def test_a_file_without_rows_has_none():
    for raw in (b"", b"h", b"h\n", b"h,i\n\n\r\n"):
        assert ours(raw, 2, [0, 1], 100) == []

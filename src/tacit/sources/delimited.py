"""Records of a CSV or TSV as bytes: one reader for every file, whatever its cells hold.

The rules are those of Python's `csv` module with its defaults, on bytes. A field that begins with a
quotation mark ends at the next single one; two in a row stand for one. A record ends at a line feed
outside quotation marks, and a carriage return before that belongs to the line ending. Short records
are padded with empty cells, long ones are cut, and a blank line is a record only where the table
has a single column. Every sequence of bytes is read, and nothing depends on other records.
"""  # proof: cells

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from tacit.compile_cache import cached

_CHUNK = 2**22  # bytes to parse at once; longer where a record is longer
_BOM = b"\xef\xbb\xbf"


def records(
    file: IO[bytes], delimiter: str, width: int, where: Sequence[int]
) -> Iterator[list[pa.Array]]:
    """The cells in the columns `where` of a table of `width` columns, after its header."""
    columns = sorted(set(where))
    output_of_field = np.full(width, -1)
    output_of_field[columns] = np.arange(len(columns))
    left, header, begin = b"", True, _BOM
    while True:
        read = file.read(max(_CHUNK, len(left)))  # doubled: an endless record is scanned twice
        final = not read
        block, begin = (left + read).removeprefix(begin), b""
        raw = np.frombuffer(block, np.uint8)
        most = int(np.count_nonzero(raw == ord("\n"))) + 1
        data = np.empty((len(columns), len(block)), np.uint8)
        offsets = np.zeros((len(columns), most + 1), np.int64)
        rows, used = _parse(
            raw, ord(delimiter), output_of_field, width == 1, header, final, data, offsets
        )
        left, header = block[used:], header and used == 0
        if rows:
            found = {c: _column(data[i], offsets[i, : rows + 1]) for i, c in enumerate(columns)}
            yield [found[column] for column in where]
        if final:
            return


def _column(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    ends = np.ascontiguousarray(offsets)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data[: ends[-1]].tobytes())]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


@cached(nogil=True)
def _parse(raw, delimiter, output_of_field, blank_counts, header, final, data, offsets):
    """Fill cells of the complete records; how many there are, and the bytes that they take.

    With `header` the first record is passed over. With `final` what is left is a record too.
    """
    width, outputs = output_of_field.size, data.shape[0]
    filled = np.zeros(outputs, np.int64)
    rows, used, at = 0, 0, 0
    while at < raw.size:
        start, field, state = at, 0, 0  # 0: begins a field, 1: in one, 2: quoted, 3: after a mark
        ended = False
        before = filled.copy()
        while at < raw.size and not ended:
            byte = raw[at]
            at += 1
            output = output_of_field[field] if field < width else -1
            keep = False
            if state == 2:
                if byte == 34:
                    state = 3
                else:
                    keep = True
            elif state == 3 and byte == 34:
                keep, state = True, 2
            elif byte == 10:
                ended = True
                if at - start >= 2 and raw[at - 2] == 13 and output >= 0:
                    filled[output] -= 1  # the carriage return of the line ending
            elif byte == delimiter:
                field, state = field + 1, 0
            elif byte == 34 and state == 0:
                state = 2
            else:
                keep, state = True, 1
            if keep and output >= 0:
                data[output, filled[output]] = byte
                filled[output] += 1
        if not ended and not final:
            break  # cut in the middle: it is read again with what follows
        size = at - start - ended
        if not ended and size and raw[at - 1] == 13 and state != 2:
            size -= 1
            output = output_of_field[field] if field < width else -1
            if output >= 0:
                filled[output] -= 1
        blank = size == 0 or (size == 1 and ended and raw[start] == 13)
        if header or (blank and not blank_counts):
            filled[:] = before
            header = False
        else:
            rows += 1
            for output in range(outputs):
                offsets[output, rows] = filled[output]
        used = at
    return rows, used

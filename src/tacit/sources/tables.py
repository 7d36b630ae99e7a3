"""Tables in memory: their columns as they are, by declared type or cell by cell.

Where a column's type is declared (NumPy, Arrow, pandas' own types) it is read as that type; where
it holds objects, each object is read alone. Nothing is inferred from the cells of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from tacit.sources.cells import TEXT, Raw, arrow_of_times, each, is_textual
from tacit.spec.errors import SourceError

BATCH = 2**14
_MASKED = ("BooleanDtype", "ArrowDtype", "DatetimeTZDtype", "Float32Dtype", "Float64Dtype")
_WHOLE = tuple(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64))


def columns_of(data: Any) -> tuple[list[str], Callable[[str], Any]]:
    """The names of a table's columns, and how to get one of them."""
    package = _package(data)
    if package == "polars" and hasattr(data, "collect"):
        raise SourceError("Expected a polars DataFrame; call .collect() on the LazyFrame.")
    if isinstance(data, pa.Table):
        return list(data.column_names), data.column
    if package == "polars" and hasattr(data, "get_column"):
        return list(data.columns), data.get_column
    if package == "pandas" and hasattr(data, "columns"):
        names = [str(name) for name in data.columns]
        return names, lambda name: data.iloc[:, names.index(name)]
    if isinstance(data, Mapping):
        return list(data), data.__getitem__
    raise SourceError(
        "Expected a CSV or Parquet path, a pandas, polars or pyarrow table, a dict of arrays "
        f"or a tacit.Table of an engine, got {type(data).__name__}."
    )


def check_shape(name: str, values: Any) -> None:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise SourceError(f"Expected a list or array for column {name!r}.")
    if getattr(values, "ndim", 1) != 1:
        raise SourceError(f"Expected column {name!r} to have one dimension.")


def declared_type(values: Any) -> pa.DataType | None:
    """What a column's type says before a cell is seen; None where cells are read one by one."""
    dtype: Any = getattr(values, "dtype", None)
    if _package(values) == "pandas" and hasattr(dtype, "categories"):
        return declared_type(dtype.categories)
    if isinstance(dtype, np.dtype) and dtype.kind not in "OUST":
        if dtype.kind in "cmV" or dtype.itemsize > 8:
            return pa.list_(pa.null())  # no single values: refused like any nested type
        return pa.timestamp("us") if dtype.kind == "M" else pa.from_numpy_dtype(_native(dtype))
    known = _typed(values[:0] if hasattr(values, "dtype") else values)
    return None if known is None else known.type


def batches(columns: Sequence[Any]) -> Iterator[list[Raw]]:
    """The columns batch by batch."""
    raw = [_raw(values) for values in columns]
    yield from map(list, zip(*(_pieces(values) for values in raw), strict=True))


def plain(values: pa.Array) -> pa.Array:
    """An Arrow array without extensions and dictionaries, of a type that `cells` knows."""
    while isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if isinstance(values, pa.DictionaryArray):
        return plain(values.dictionary).take(values.indices)
    if is_textual(values.type):
        return values.cast(TEXT)  # with 64-bit offsets: no length of a cell is too large to take
    return values.cast(pa.float64()) if pa.types.is_float16(values.type) else values


def folded(values: pa.Array) -> Raw:
    """The cells, each different text once where they are few: a dictionary and indices.

    Texts alone: whether a batch is folded depends on its cells, and must not decide its type.
    """
    texts = isinstance(values, pa.DictionaryArray) and is_textual(values.dictionary.type)
    if texts and 4 * len(values.dictionary) <= len(values):
        return pa.DictionaryArray.from_arrays(values.indices, plain(values.dictionary))
    return plain(values)


def _raw(values: Any) -> Any:
    """A whole column as chunks of Arrow, as a NumPy array, or as objects to be read one by one."""
    known = _typed(values)
    if known is not None:
        return known if isinstance(known, pa.ChunkedArray) else pa.chunked_array([known])
    dtype: Any = getattr(values, "dtype", None)
    if _package(values) == "pandas" and hasattr(dtype, "categories"):
        codes = np.asarray(getattr(values, "cat", values).codes)
        return _Categories(list(each(dtype.categories)), codes)
    if _package(values) == "polars":
        return values.to_list()  # objects: their Arrow form would be addresses
    if _package(values) == "pandas":
        native = isinstance(getattr(dtype, "subtype", dtype), np.dtype)  # sparse ones too
        values = np.asarray(values) if native else list(each(getattr(values, "array", values)))
    return values.tolist() if isinstance(values, np.ma.MaskedArray) else values


class _Categories:
    """pandas' categories: what each code stands for, one object at a time."""

    def __init__(self, objects: list[object], codes: np.ndarray) -> None:
        self.objects, self.codes = [*objects, None], codes

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, where: slice) -> list[object]:
        return [self.objects[code] for code in self.codes[where]]


def _pieces(values: Any) -> Iterator[Raw]:
    if isinstance(values, pa.ChunkedArray):
        for first in range(0, len(values), BATCH):
            # Decoded first: chunks may have different dictionaries, whose union need not fit the
            # type of their indices.
            parts = [plain(chunk) for chunk in values.slice(first, BATCH).chunks]
            yield pa.chunked_array(parts).combine_chunks()
        return
    if not isinstance(values, (np.ndarray, list, tuple, _Categories)):
        cells = each(values) if hasattr(values, "__getitem__") else iter(values)
        while some := list(islice(cells, BATCH)):
            yield some
        return
    for first in range(0, len(values), BATCH):
        piece = values[first : first + BATCH]
        yield _array(piece) if isinstance(piece, np.ndarray) else piece


def _array(values: np.ndarray) -> Raw:
    """A NumPy array by its dtype; texts and objects one by one."""
    if values.dtype.kind == "M":
        return arrow_of_times(values)
    if values.dtype.kind in "biuf":
        return plain(pa.array(values.astype(_native(values.dtype)), from_pandas=False))
    if values.dtype.kind in "US":
        try:
            return values.tolist()
        except (SystemError, ValueError):  # a code point that is none: its cell alone is missing
            pass
    return list(each(values))


def _typed(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """The Arrow form that a column has by its type alone, never by inference from cells."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    dtype = getattr(values, "dtype", None)
    if _package(values) == "polars":
        return None if str(dtype) == "Object" else values.to_arrow()
    if _package(values) == "pandas" and type(dtype).__name__ in _MASKED + _WHOLE:
        return pa.array(values)
    return None


def _native(dtype: np.dtype) -> np.dtype:
    return dtype.newbyteorder("=")


def _package(values: object) -> str:
    return type(values).__module__.split(".")[0]

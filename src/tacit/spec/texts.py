"""How a text is read as words of a vocabulary: one public rule, the same on both sides of a wall.

A word is a run of letters, digits and underscores, in lower case. What is not in the vocabulary is
left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tacit.spec.errors import SchemaError

_BETWEEN = r"[^\pL\pN_]+"


def check_words(vocabulary: Sequence[str]) -> None:
    """Refuse words that no text can contain."""
    for word in vocabulary:
        if not all(letter.isalnum() or letter == "_" for letter in word):
            raise SchemaError(
                f"Expected a vocabulary of single words to read texts with: {word!r} is none. "
                "Count such words yourself, and give a sparse matrix."
            )


def word_counts(
    texts: pa.Array, vocabulary: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the text index, the word index and the count of each word that occurs, in order."""
    lists = pc.split_pattern_regex(pc.utf8_lower(pc.fill_null(texts, "")), _BETWEEN)
    flat = pc.list_flatten(lists)
    known = pa.array([word.lower() for word in vocabulary], flat.type)
    code = pc.index_in(flat, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    text = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    found = code >= 0
    key, counts = np.unique(text[found] * len(vocabulary) + code[found], return_counts=True)
    return key // len(vocabulary), key % len(vocabulary), counts

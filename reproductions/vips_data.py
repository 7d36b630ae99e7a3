"""Documents to learn topics from and others to predict: Wikipedia where it is, and simulated."""

from __future__ import annotations

import runpy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, vstack

import tacit

FEWEST, UNSEEN = 20, 2000  # words in a document to learn from; documents to predict


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents by words, and how many topics to look for."""

    name: str
    title: str
    words: tuple[str, ...]
    train: csr_matrix
    test: csr_matrix
    topics: int

    @property
    def size(self) -> int:
        return self.train.shape[0]

    @cached_property
    def schema(self) -> tacit.Schema:
        column = tacit.Tokens("words", list(self.words), max_length=10**6)
        return tacit.Schema(column, neighbours="replace_one")


def wikipedia(folder: Path, documents: int | None = None) -> list[Corpus]:
    """All documents of the file's own split and, where so many are named, the first of them.

    Any prefix is a fair sample. Nothing where there is no file.
    """
    home = folder / "wikipedia_bow"
    if not (home / "wikipedia_bow.npz").is_file():
        return []
    load = runpy.run_path(str(home / "load_wikipedia.py"))["load"]
    counts, words = load(home / "wikipedia_bow.npz", home / "vocab.txt")
    split = pd.read_csv(home / "docs.csv.gz", keep_default_na=False)["split"].to_numpy()
    enough = np.asarray(counts.sum(axis=1)).ravel() >= FEWEST
    train = counts[(split == "train") & enough]
    test = counts[split == "test"][:UNSEEN]
    every = Corpus("wikipedia", "Wikipedia", tuple(words), train, test, topics=50)
    if documents is None or documents >= every.size:
        return [every]
    title = f"{documents:,} documents of Wikipedia"
    return [every, replace(every, name="wikipedia-some", title=title, train=train[:documents])]


def simulated(documents: int, words: int, topics: int) -> Corpus:
    """Documents that a topic model made, with words as unequal in frequency as in a language."""
    rng = np.random.default_rng(2020)
    frequency = 1 / (10 + np.arange(words))
    made = rng.dirichlet(words * 0.1 * frequency / frequency.sum(), size=topics)
    count = documents + max(documents // 10, 200)
    parts = []
    for first in range(0, count, 1000):  # dense by the thousand: memory
        some = min(1000, count - first)
        shares = rng.dirichlet(np.full(topics, 0.1), size=some)
        lengths = FEWEST + rng.poisson(80, size=some)
        parts.append(csr_matrix(rng.multinomial(lengths, shares @ made)))
    counts = vstack(parts, format="csr")
    names = tuple(f"w{i}" for i in range(words))
    train, test = counts[:documents], counts[documents:]
    return Corpus("simulated", "simulated", names, train, test, topics)

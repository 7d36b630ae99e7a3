"""Simulated letters: what they are about is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.spec.columns import Tokens
from tacit.spec.schema import Neighbours, Schema

THEMES = {
    "harvest": "wheat barley field plough rain seed harvest barn horse cow hay orchard apple "
    "drought soil mill farmer wagon frost meadow",
    "illness": "fever doctor cough bed medicine weak pain recover nurse hospital breath wound "
    "blood sleep cure sick physician remedy pulse rest",
    "money": "debt bank pay loan price rent bill coin owe wages interest merchant account sum "
    "bond lender tax payment credit market",
    "love": "heart kiss dearest miss marry ring sweet longing letter embrace beloved tender "
    "promise wait dream forever darling tears wedding bride",
    "war": "regiment captain march battle trench gun soldier enemy camp officer front wounded "
    "attack general cannon siege order uniform prisoner truce",
    "voyage": "ship sea harbour sail storm deck captain island cargo port anchor coast voyage "
    "passage sailor wind tide mast cabin shore",
    "school": "school lesson teacher book latin exam pupil study learn read write grammar class "
    "master essay prize library student chalk spelling",
    "court": "judge trial lawyer witness court verdict guilty prison sentence law case plea oath "
    "evidence jury crime appeal bail clerk charge",
}
COMMON = (
    "dear day time good hope know come think year house mother father brother sister friend great "
    "little give take tell hear leave return home night morning week long old new much many see "
    "find send ask want keep away soon still family children well glad sorry thank sincerely"
)


@dataclass(frozen=True)
class Letters:
    """Simulated letters, who wrote them, and the themes that they were drawn from.

    `topics` is (theme, word), the words in the order of `vocabulary`; `shares` (letter, theme).
    """

    table: dict[str, np.ndarray]
    vocabulary: tuple[str, ...]
    themes: tuple[str, ...]
    topics: np.ndarray
    shares: np.ndarray

    def schema(self, neighbours: Neighbours = "replace_one") -> Schema:
        """The vocabulary is public: it was not made from the letters."""
        words = Tokens("letter", self.vocabulary, max_length=500)
        return Schema(words, unit="author", max_rows_per_unit=2, neighbours=neighbours)


def simulate_letters(letters: int = 10_000, seed: int = 0) -> Letters:
    """Invented letters, one or two by each author, about a few of eight themes.

    Columns are `author` and `letter`, a text.

    Examples
    --------
    >>> simulate_letters(10).themes[:3]
    ('harvest', 'illness', 'money')
    """
    rng = np.random.default_rng(seed)
    themes = tuple(THEMES)
    vocabulary = tuple(sorted({*COMMON.split(), *" ".join(THEMES.values()).split()}))
    place = {word: i for i, word in enumerate(vocabulary)}
    common = np.zeros(len(vocabulary))
    common[[place[word] for word in COMMON.split()]] = rng.gamma(1.0, size=len(COMMON.split()))
    topics = np.zeros((len(themes), len(vocabulary)))
    for i, words in enumerate(THEMES.values()):
        own = [place[word] for word in words.split()]
        topics[i, own] = rng.gamma(2.0, size=len(own))
    topics = topics / topics.sum(axis=1, keepdims=True) + 0.5 * common / common.sum()
    topics /= topics.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(len(themes), 0.15), size=letters)
    lengths = 20 + rng.poisson(60, size=letters)
    words = np.array(vocabulary, dtype=object)
    texts = np.empty(letters, dtype=object)
    for i, (share, length) in enumerate(zip(shares, lengths)):
        drawn = rng.choice(len(vocabulary), size=length, p=share @ topics)
        texts[i] = " ".join(words[drawn]).capitalize() + "."
    author = np.sort(rng.integers(0, max(1, int(letters / 1.2)), size=letters))
    table = {"author": np.array([f"author {i}" for i in author]), "letter": texts}
    return Letters(table, vocabulary, themes, topics, shares)

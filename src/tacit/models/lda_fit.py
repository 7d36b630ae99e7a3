"""How topics are fitted: what is asked of documents, and what is made of the answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import digamma

from tacit.infer.cooccurrence import factors, stand_out
from tacit.infer.denoise import denoised, denoised_sizes
from tacit.kernels.mixing import exp_digamma, flush_denormals
from tacit.spec.columns import Tokens
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.release import Release
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Course, Look, Setting, Sums, Variational

_TOLERANCE, _ROUNDS = 1e-3, 100
_FEW_ROUNDS = 15  # are enough where the topics are noisy themselves
_STEPS, _AWARE_STEPS = 4, 8
_AVERAGED = 0.5  # kappa: steps are averaged, the later ones weighing more
_SEED = 1  # of words that are drawn again
_GROWTH = 1.3**0.5  # a step has 1.3 times the budget of the one before
_FLOOR = 0.003  # of what is expected of a word, in a topic where it was not seen
_UNTOLD = 0.4  # of a topic to begin with: words as frequent as in all documents


@dataclass(frozen=True)
class Topics:
    """What is believed of the topics, words by topics.

    Weights that are in proportion to probabilities, how well they are known, the probabilities that
    the expectation step takes, and which words have a say in it.
    """

    weight: np.ndarray
    spread: np.ndarray
    rows: np.ndarray
    say: np.ndarray


def documents_of(schema: Schema) -> Tokens:
    """The column that holds the documents."""
    columns = [column for column in schema.columns if isinstance(column, Tokens)]
    if len(columns) != 1:
        raise ModelError(
            "Expected one column of documents: Schema(tacit.Tokens(name, vocabulary, 500), ...)."
        )
    return columns[0]


def plain_topics(model: Any, column: Tokens, schema: Schema, setting: Setting) -> Variational:
    """As Hoffman et al. (2010), and with noise as Park et al. (2020): sums taken at face value."""
    shape = len(column.vocabulary), model.topics
    ask = _Question(model, column, length=model.length, clip=model.clip * model.length)
    if not setting.noise:  # a document is as long as it is, and nothing needs a bound
        ask = _Question(model, column, clip=float(column.max_length * schema.max_rows_per_unit))
    elif model.weighting == "root":
        ask = _Question(model, column, roots=True)

    def start(rng: np.random.Generator) -> Sums:
        return Sums({"sum": rng.gamma(100, 0.01, size=shape)}, {"sum": 0.0})

    def beliefs(sums: Sums) -> Topics:
        weight = model.eta + np.maximum(sums.values["sum"], 0.0)
        rows = exp_digamma(weight) / np.exp(digamma(weight.sum(axis=0)))
        return Topics(weight, np.sqrt(weight), rows, np.ones(shape[0]))

    course = Course(_STEPS)
    if not setting.noise and setting.units <= 2000:
        course = Course(30)
    elif not setting.noise:  # small batches are fast, and take nothing away where they are many
        epochs = max(2, round(40_000 / setting.units))
        course = Course(_STEPS, batch_size=1000, epochs=epochs, tau0=64, kappa=0.5)
    return Variational(start, ask, beliefs, course)


def aware_topics(model: Any, column: Tokens, setting: Setting) -> Variational:
    """Topics that know the noise.

    Which words are frequent and which occur together is asked first, and gives topics to begin
    with. Then every number of a step is taken for some multiple of what is expected of it, the
    topic's size times the word's frequency, and cleared of noise by what all of them show of such
    multiples.
    """
    words, topics = len(column.vocabulary), model.topics
    frequent, paired = _shares(setting, words)
    most = round(5 * math.sqrt(setting.units / setting.noise * math.sqrt(paired)))
    pairs = min(words, max(4 * topics, min(most, 4000)))
    looks = (
        Look(
            BoundedSum(
                Kernel("topics.root_frequencies"),
                column.name,
                size=(words, 1),
                clip=1.0,
                geometry="nonnegative",
            ),
            frequent,
            seen=lambda release: _Frequency.of(release.value, release.noise[0].scale),
        ),
        Look(
            BoundedSum(
                Kernel("topics.cooccurrence"),
                column.name,
                size=(pairs, pairs),
                clip=1.0,
                geometry="nonnegative",
                state=(np.where(np.arange(words) < pairs, np.arange(words), -1),),
            ),
            paired,
            lambda question, before: question.at((_places(before[0].value, pairs),)),
            seen=lambda release: _Pairs.of(release, topics),
        ),
    )
    ask = _Question(model, column, roots=True, rounds=_FEW_ROUNDS)

    def start(rng: np.random.Generator) -> Sums:
        return Sums({"sum": np.zeros((words, topics))}, {"sum": 0.0})

    def beliefs(sums: Sums) -> Topics:
        if len(sums.before) < len(looks):  # before the first look: what a question looks like
            flat = np.full((words, topics), 1 / words)
            return Topics(flat, flat, flat, np.ones(words))
        single, joint = sums.before
        if not joint.clear:
            return single.with_steps(sums, topics).alone(topics)
        frequency = single.value
        if not sums.sd["sum"]:
            return _begun(joint, frequency, topics)
        seen = sums.values["sum"]
        size = np.maximum(seen.sum(axis=0), 1e-3 * max(float(seen.sum(axis=0).max()), 1.0))
        likely = np.outer(frequency / frequency.sum(), size)
        rng = np.random.default_rng(0)  # which cells the prior is learnt from
        weight, spread = denoised(seen, likely, sums.sd["sum"], rng)
        weight += _FLOOR * likely
        return Topics(weight, spread, weight / weight.sum(axis=0), np.ones(words))

    # Small batches are followed a few times: more learns a hundredth, and takes time.
    course = Course(_AWARE_STEPS, growth=_GROWTH, revisions=5, kappa=_AVERAGED)
    return Variational(start, ask, beliefs, course, looks)


def _shares(setting: Setting, words: int) -> tuple[float, float]:
    """What of the budget is for frequencies, and for pairs; the rest is for steps.

    By how much words stand out of the noise. Constants by hand, on three corpora (docs/topics.md).
    """
    frequent = min(max((words * setting.noise / (1.2 * setting.units)) ** 2, 0.05), 0.4)
    return frequent, 0.3 * (1 - frequent)


@dataclass(frozen=True)
class _Question:
    """The expectation step at some beliefs."""

    model: Any
    column: Tokens
    length: float = 0.0
    clip: float = 1.0
    roots: bool = False
    rounds: int = _ROUNDS

    def __call__(self, beliefs: Topics) -> BoundedSum:
        drawn = self.length > 0 and self.model.weighting == "resampled"
        state = (
            flush_denormals(beliefs.rows),
            beliefs.say.astype(np.float32),
            np.array([self.model.alpha, _TOLERANCE, self.length], float),
            np.array([self.rounds, int(self.roots), _SEED]),
        )
        return BoundedSum(
            Kernel("topics.expected_counts_resampled" if drawn else "topics.expected_counts"),
            self.column.name,
            size=beliefs.rows.shape,
            clip=self.clip,
            geometry="nonnegative",
            state=state,
        )


@dataclass(frozen=True)
class _Frequency:
    """How frequent words are, cleared of noise."""

    seen: np.ndarray
    sd: float
    value: np.ndarray

    @classmethod
    def of(cls, seen: np.ndarray, sd: float) -> _Frequency:
        return cls(seen, sd, denoised_sizes(seen, sd))

    def with_steps(self, sums: Sums, topics: int) -> _Frequency:
        """With what steps say of topics that are all alike: the same, divided among them."""
        sd = float(sums.sd["sum"])
        if not sd:
            return self
        again = sums.values["sum"].sum(axis=1) / math.sqrt(topics)
        share = self.sd**2 / (self.sd**2 + sd**2)  # each by its precision
        mean = (1 - share) * self.seen + share * again
        return self.of(mean, self.sd * sd / math.hypot(self.sd, sd))

    def alone(self, topics: int) -> Topics:
        """All topics alike: what is left where steps would only follow the noise."""
        weight = np.tile(self.value[:, None], topics)
        rows = weight / weight.sum(axis=0)
        return Topics(weight, np.full_like(weight, self.sd), rows, np.ones(len(weight)))


def _places(frequency: np.ndarray, most: int) -> np.ndarray:
    """The positions of the most frequent words among themselves, and -1 for the others."""
    chosen = np.sort(np.argsort(-frequency, kind="stable")[:most])
    places = np.full(frequency.size, -1)
    places[chosen] = np.arange(most)
    return places


@dataclass(frozen=True)
class _Pairs:
    """How often frequent words occur together, and whether themes stand out of the noise.

    A tenth as many as topics: with fewer, the other topics lead steps astray.
    """

    value: np.ndarray
    clear: bool

    @classmethod
    def of(cls, release: Release, topics: int) -> _Pairs:
        above = np.triu(release.value.reshape(release.blocks[0].shape), 1)
        value = above + above.T
        return cls(value, stand_out(value, math.ceil(topics / 10), release.noise[0].scale))


def _begun(pairs: _Pairs, frequency: np.ndarray, topics: int) -> Topics:
    """Topics from which of the frequent words occur together: the others have no say yet."""
    chosen = np.flatnonzero(_places(frequency, len(pairs.value)) >= 0)
    found = factors(pairs.value, topics, np.random.default_rng(0))
    found += 1e-6 * max(float(found.max()), 1e-9)
    rows = np.tile(_UNTOLD * frequency[:, None] / frequency.sum(), topics)
    rows[chosen] += (1 - _UNTOLD) * found / found.sum(axis=0)
    rows /= rows.sum(axis=0)
    say = np.zeros(len(frequency))
    say[chosen] = 1.0
    return Topics(rows, rows, rows, say)

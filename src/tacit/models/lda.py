"""Latent Dirichlet allocation: documents as mixtures of topics, topics as words' probabilities.

Without noise, or with the papers' weightings, it is fitted as in Hoffman et al. (2010) and Park et
al. (2020). With noise, pilot queries give initial topics and every step is denoised (`_aware_fit`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from scipy.special import digamma

from tacit.infer.denoise import denoised, denoised_sizes
from tacit.infer.topics import exceeds_noise_edge, factors
from tacit.kernels.mixing import exp_digamma, flush_denormals
from tacit.models.checks import keep_numbers
from tacit.models.latent_gibbs import LatentBlocks, latent_note, matched
from tacit.posterior.base import Posterior
from tacit.posterior.topics import TopicPosterior
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.columns import Tokens
from tacit.spec.errors import ModelError
from tacit.spec.gibbs import Values
from tacit.spec.kernels import Kernel
from tacit.spec.plan import Poisson
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, PilotQuery, Sums, Variational, VIPSSchedule

Weighting = Literal["root", "length", "resampled"]

_TOLERANCE, _ROUNDS = 1e-3, 100
_FEW_ROUNDS = 15  # enough where the topics are noisy
_STEPS, _AWARE_STEPS = 4, 8
_AVERAGED = 0.5  # kappa of the step sizes (tau0 + t)^-kappa, which average the steps
_SEED = 1  # of resampled words
_GROWTH = 1.3**0.5  # a step has 1.3 times the budget of the one before
_FLOOR = 0.003  # least weight of a word in a topic, as a share of the expected one
_BACKGROUND = 0.4  # share of overall word frequencies in an initial topic


@dataclass(frozen=True)
class LDA:
    """Latent Dirichlet allocation (Blei et al. 2003).

    Parameters
    ----------
    n_topics
        How many topics.
    alpha, eta
        Dirichlet concentrations of a document's topics and of a topic's words. Default:
        1 / n_topics. The noise-aware fit estimates its own prior of words and ignores `eta`.
    weighting
        What a document adds to noisy statistics. "root": the roots of its counts, scaled to norm 1,
        the full sensitivity. "length": its counts, scaled to `length` words. "resampled": counts of
        `length` words drawn from it with replacement, as in the paper, which only adds variance.
    length, clip
        For the last two: the words of a document, and its largest norm, `clip` times `length`.
    """

    n_topics: int
    alpha: float | None = None
    eta: float | None = None
    weighting: Weighting = "root"
    length: float = 500
    clip: float = 0.1

    def __post_init__(self) -> None:
        whole_number(self.n_topics, "n_topics", most=10**6)
        keep_numbers(self, "alpha", "eta", "length", "clip")
        for what in ("alpha", "eta"):
            if getattr(self, what) is None:
                set_fields(self, **{what: 1 / self.n_topics})
        one_of(self.weighting, "weighting", get_args(Weighting), ModelError)

    def variational(self, schema: Schema, setting: FitSetting) -> Variational:
        column = _documents(schema)
        if setting.noise and setting.aware and self.weighting == "root":
            return _aware_fit(self, column, setting)
        return _plain_fit(self, column, schema, setting)

    def variational_posterior(
        self, release: Release, parameters: Topics, sums: Sums, sampling: Sampling
    ) -> TopicPosterior:
        return TopicPosterior.from_parameters(
            self,
            release,
            sampling,
            weight=parameters.weight.T,
            spread=parameters.spread.T,
            words=_documents(release.schema).vocabulary,
        )

    gibbs_notes = (latent_note("topics of words"),)

    def gibbs(self, schema: Schema, *, truncation: Any) -> LatentBlocks:
        """Return the only block of a Gibbs sampler through the wall: all topics."""
        column = _documents(schema)
        alpha = np.full(self.n_topics, self.alpha)
        levels = {column.name: len(column.vocabulary)}
        return LatentBlocks(levels, self.n_topics, float(self.eta or 0), truncation, alpha)

    def gibbs_posterior(self, release: Release, kept: Sequence[Values]) -> TopicPosterior:
        """Return the mean and standard deviation of what a Gibbs sampler drew, and its diagnosis.

        How many words a topic has is not known: all sizes are 1.
        """
        column = _documents(release.schema)
        topics = matched(kept, (column.name,))[column.name]
        chain = Posterior.from_draws(self, release, {"topics": topics}, {"topics": {}})
        made = TopicPosterior.from_parameters(
            self,
            release,
            Sampling(draws=len(topics), chains=1, seed=0),
            weight=topics.mean(axis=0),
            spread=topics.std(axis=0),
            words=column.vocabulary,
        )
        return replace(made, noise="tempered").warned(chain.diagnosed().warnings)


class Topics(NamedTuple):
    """Variational parameters of the topics; arrays are (word, topic).

    `weight` is proportional to the probabilities, `spread` its standard deviation, `word_probs` the
    probabilities in the expectation step, and `word_mask` (word) is 1 for words that it uses.
    """

    weight: np.ndarray
    spread: np.ndarray
    word_probs: np.ndarray
    word_mask: np.ndarray


def _documents(schema: Schema) -> Tokens:
    """Return the column that holds the documents."""
    columns = [column for column in schema.columns if isinstance(column, Tokens)]
    if len(columns) != 1:
        raise ModelError(
            "Expected one column of documents: Schema(tacit.Tokens(name, vocabulary, 500), ...)."
        )
    return columns[0]


def _plain_fit(model: LDA, column: Tokens, schema: Schema, setting: FitSetting) -> Variational:
    """Return the plug-in fit of Hoffman et al. (2010), with noise as in Park et al. (2020)."""
    shape = len(column.vocabulary), model.n_topics
    ask = _Question(model, column, length=model.length, clip=model.clip * model.length)
    if not setting.noise:  # without noise, clipping is not needed
        ask = _Question(model, column, clip=float(column.max_length * schema.max_rows_per_unit))
    elif model.weighting == "root":
        ask = _Question(model, column, roots=True)

    def start(rng: np.random.Generator) -> Sums:
        return Sums({"sum": rng.gamma(100, 0.01, size=shape)}, {"sum": 0.0})

    def maximise(sums: Sums) -> Topics:
        weight = model.eta + np.maximum(sums.values["sum"], 0.0)
        word_probs = exp_digamma(weight) / np.exp(digamma(weight.sum(axis=0)))
        return Topics(weight, np.sqrt(weight), word_probs, np.ones(shape[0]))

    schedule = VIPSSchedule(_STEPS)
    if not setting.noise and setting.units <= 2000:
        schedule = VIPSSchedule(30)
    elif not setting.noise:  # small batches are fast, and many of them lose no accuracy
        rate = 1000 / setting.units
        steps = round(max(2, round(40_000 / setting.units)) / rate)
        schedule = VIPSSchedule(steps, sampling=Poisson(rate), tau0=64, kappa=0.5)
    return Variational(start, ask, maximise, schedule)


def _aware_fit(model: LDA, column: Tokens, setting: FitSetting) -> Variational:
    """Return the noise-aware fit.

    Pilot queries release word frequencies and co-occurrences, which give initial topics. The sums
    of each step are then denoised by empirical Bayes: a number is a ratio times its expected value,
    the topic's size times the word's frequency, and the prior of the ratios is estimated from all.
    """
    words, topics = len(column.vocabulary), model.n_topics
    # Budget shares of the two pilot queries depend on the signal-to-noise ratio of a word; their
    # constants were tuned by hand on three corpora (docs/topics.md).
    frequency_share = min(max((words * setting.noise / (1.2 * setting.units)) ** 2, 0.05), 0.4)
    cooccurrence_share = 0.3 * (1 - frequency_share)
    most = round(5 * math.sqrt(setting.units / setting.noise * math.sqrt(cooccurrence_share)))
    n_pilot_words = min(words, max(4 * topics, min(most, 4000)))

    def pilot(kernel: str, size: tuple[int, int], *state: np.ndarray) -> BoundedSum:
        return BoundedSum(
            Kernel(kernel), column.name, size=size, clip=1.0, geometry="nonnegative", state=state
        )

    first_words = np.where(np.arange(words) < n_pilot_words, np.arange(words), -1)
    pilots = (
        PilotQuery(
            pilot("topics.root_frequencies", (words, 1)),
            frequency_share,
            result=lambda release: _RootFrequency(release.value, release.noise[0].scale),
        ),
        PilotQuery(
            pilot("topics.cooccurrence", (n_pilot_words, n_pilot_words), first_words),
            cooccurrence_share,
            lambda question, before: question.at((_index_map(before[0].value, n_pilot_words),)),
            result=lambda release: _cooccurrence(release, topics),
        ),
    )
    ask = _Question(model, column, roots=True, rounds=_FEW_ROUNDS)

    def start(rng: np.random.Generator) -> Sums:
        return Sums({"sum": np.zeros((words, topics))}, {"sum": 0.0})

    def initial(sums: Sums) -> Topics:
        root_frequency, cooccurrence = sums.pilots
        if cooccurrence is None:
            return root_frequency.equal_topics(topics)
        return _initial_topics(cooccurrence, root_frequency.value, topics)

    def maximise(sums: Sums) -> Topics:
        root_frequency, cooccurrence = sums.pilots
        if cooccurrence is None:
            return root_frequency.with_steps(sums, topics).equal_topics(topics)
        frequency = root_frequency.value
        seen = sums.values["sum"]
        size = np.maximum(seen.sum(axis=0), 1e-3 * max(float(seen.sum(axis=0).max()), 1.0))
        expected = np.outer(frequency / frequency.sum(), size)
        rng = np.random.default_rng(0)  # chooses the subset that the prior is estimated from
        weight, spread = denoised(seen, expected, sums.sd["sum"], rng)
        weight += _FLOOR * expected
        return Topics(weight, spread, weight / weight.sum(axis=0), np.ones(words))

    # Minibatches: five updates in all, since more improve results by 1% and take time.
    schedule = VIPSSchedule(_AWARE_STEPS, growth=_GROWTH, updates=5, kappa=_AVERAGED)
    flat = np.full((words, topics), 1 / words)
    preview = ask(Topics(flat, flat, flat, np.ones(words)))
    return Variational(start, ask, maximise, schedule, pilots, initial=initial, preview=preview)


@dataclass(frozen=True)
class _Question:
    """The query of the expectation step, as a function of variational parameters."""

    model: LDA
    column: Tokens
    length: float = 0.0
    clip: float = 1.0
    roots: bool = False
    rounds: int = _ROUNDS

    def __call__(self, parameters: Topics) -> BoundedSum:
        drawn = self.length > 0 and self.model.weighting == "resampled"
        state = (
            flush_denormals(parameters.word_probs),
            parameters.word_mask.astype(np.float32),
            np.array([self.model.alpha, _TOLERANCE, self.length], float),
            np.array([self.rounds, int(self.roots), _SEED]),
        )
        return BoundedSum(
            Kernel("topics.expected_counts_resampled" if drawn else "topics.expected_counts"),
            self.column.name,
            size=parameters.word_probs.shape,
            clip=self.clip,
            geometry="nonnegative",
            state=state,
        )


@dataclass(frozen=True)
class _RootFrequency:
    """Noisy sums of sqrt(n_w / n) over documents `seen`, their sd, and the denoised `value`."""

    seen: np.ndarray
    sd: float

    @cached_property
    def value(self) -> np.ndarray:
        return denoised_sizes(self.seen, self.sd)

    def with_steps(self, sums: Sums, topics: int) -> _RootFrequency:
        """Return the precision-weighted mean with frequencies from steps.

        With equal topics, the sum of a step over topics is sqrt(topics) times the frequency.
        """
        sd = float(sums.sd["sum"])
        if not sd:
            return self
        from_steps = sums.values["sum"].sum(axis=1) / math.sqrt(topics)
        share = self.sd**2 / (self.sd**2 + sd**2)  # weights proportional to precision
        mean = (1 - share) * self.seen + share * from_steps
        return _RootFrequency(mean, self.sd * sd / math.hypot(self.sd, sd))

    def equal_topics(self, topics: int) -> Topics:
        """Return equal topics, the fallback where no topic is distinguishable from noise."""
        weight = np.tile(self.value[:, None], topics)
        word_probs = weight / weight.sum(axis=0)
        return Topics(weight, np.full_like(weight, self.sd), word_probs, np.ones(len(weight)))


def _index_map(frequency: np.ndarray, most: int) -> np.ndarray:
    """Return the injective index map of the most frequent words; the others have -1."""
    chosen = np.sort(np.argsort(-frequency, kind="stable")[:most])
    index_map = np.full(frequency.size, -1)
    index_map[chosen] = np.arange(most)
    return index_map


def _cooccurrence(release: Release, topics: int) -> np.ndarray | None:
    """Return co-occurrences of frequent words, or None where noise hides all topics."""
    above = np.triu(release.value.reshape(release.blocks[0].shape), 1)
    value = above + above.T
    # With fewer than topics / 10 eigenvalues beyond the noise edge, steps fit noise.
    few = math.ceil(topics / 10)
    return value if exceeds_noise_edge(value, few, release.noise[0].scale) else None


def _initial_topics(cooccurrence: np.ndarray, frequency: np.ndarray, topics: int) -> Topics:
    """Return initial topics from co-occurrences; other words are masked in the first step."""
    chosen = np.flatnonzero(_index_map(frequency, len(cooccurrence)) >= 0)
    found = factors(cooccurrence, topics, np.random.default_rng(0))
    found += 1e-6 * max(float(found.max()), 1e-9)
    word_probs = np.tile(_BACKGROUND * frequency[:, None] / frequency.sum(), topics)
    word_probs[chosen] += (1 - _BACKGROUND) * found / found.sum(axis=0)
    word_probs /= word_probs.sum(axis=0)
    word_mask = np.zeros(len(frequency))
    word_mask[chosen] = 1.0
    return Topics(word_probs, word_probs, word_probs, word_mask)

"""Every way to fit topics, and how well they predict the words of documents not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kept import Kept
from scipy.sparse import csr_matrix
from scipy.special import digamma
from vips_data import Corpus

import tacit
from tacit.infer.topics import bound, completion, mixtures

DELTA = 1e-4
LENGTH, CLIP = 500, 0.1  # of the paper
STEPS, SMALLER = 20, 80  # batches of all documents over these: 20,000 of 400,000 in the paper
TOP, KNOWN = 10, 300  # words shown of a topic; words by which topics are likened
LOOKED_AT = 5000  # documents, for the share that is clipped
_HOW = {"tolerance": 1e-3, "most": 200}

UNIGRAM = "word frequencies, no privacy"
NONE = "no privacy"
NONE_PAPER = "no privacy, the paper's batches"
PAPER = "paper: moments accountant, S = n/20"
SMALL = "paper: moments accountant, S = n/80"
STRONG = "paper: strong composition, S = n/20"
UNCLIPPED = "paper: no clipping, S = n/20"
AVERAGED = "not the paper: S = n/20, negatives of the average to zero"
OURS = "Tacit: VIPS by default"
EXACT = (UNIGRAM, NONE, NONE_PAPER)  # epsilon does not matter
PRIVATE = (PAPER, OURS, STRONG, UNCLIPPED, SMALL, AVERAGED)


def _paper(
    epsilon: float, size: int, accountant: Any = "rdp", steps: int = STEPS, every: bool = True
) -> tacit.VIPS:
    # Negatives to zero in every step, as the paper has it.
    batches = _batches(size, steps)
    return tacit.VIPS(epsilon, DELTA, accountant=accountant, clamp_steps=every, **batches)


def _batches(size: int, steps: int) -> dict[str, Any]:
    batches = tacit.subsampling.WithoutReplacement(max(1, size // steps), size)
    return {"sampling": batches, "tau0": 1024, "kappa": 0.7}


def posterior(corpus: Corpus, method: str, epsilon: float, seed: int) -> Any:
    """Topics by one of the methods."""
    size, clip = corpus.size, 1.0 if method == UNCLIPPED else CLIP
    theirs = tacit.LDA(corpus.topics, weighting="length", length=LENGTH, clip=clip)
    model, how = {
        NONE: lambda: (theirs, tacit.Exact()),
        NONE_PAPER: lambda: (theirs, tacit.VIPS(noise_multiplier=0, **_batches(size, STEPS))),
        PAPER: lambda: (theirs, _paper(epsilon, size)),
        SMALL: lambda: (theirs, _paper(epsilon, size, steps=SMALLER)),
        STRONG: lambda: (theirs, _paper(epsilon, size, "strong")),
        UNCLIPPED: lambda: (theirs, _paper(epsilon, size)),
        AVERAGED: lambda: (theirs, _paper(epsilon, size, every=False)),
        OURS: lambda: (tacit.LDA(corpus.topics), tacit.VIPS(epsilon, DELTA)),
    }[method]()
    noise = {} if method == OURS else {"noise": "plugin"}
    public = tacit.Public(corpus.train, corpus.schema, seed=seed)
    return tacit.fit(model, public, how, seed=seed, progress=False, **noise)


def unigram(corpus: Corpus) -> dict[str, float]:
    """One topic for all, in which words are as frequent as in the documents learnt from."""
    counts = np.asarray(corpus.train.sum(axis=0), dtype=float).ravel() + 1 / corpus.topics
    rows = (counts / counts.sum())[:, None]
    rng = np.random.default_rng(0)  # deals words out as `perplexity` does
    return {
        "completion": completion(corpus.test.astype(float), rows, 1.0, rng, **_HOW),
        "bound": bound(corpus.test.astype(float), rows, 1.0, **_HOW),
    }


def scored(
    corpus: Corpus, method: str, epsilon: float, seed: int, model: dict[str, float] | None
) -> Any:
    """Perplexities, the share of documents that the clip shortens, and the words of one topic.

    `model` has the words of the topic to look for; without one it is the topic that is most about
    railway stations or, where there is no such word, the largest.
    """
    if method == UNIGRAM:
        return unigram(corpus)
    fitted = posterior(corpus, method, epsilon, seed)
    place = {word: i for i, word in enumerate(corpus.words)}
    if model is None:
        here = [place[word] for word in ("station", "railway") if word in place]
        size = fitted.sizes
        liking = fitted.topics[:, here].sum(axis=1) if here else size
    else:
        here, wanted = [place[word] for word in model], np.array(list(model.values()))
        liking = fitted.topics[:, here] @ wanted / np.linalg.norm(wanted)
        liking = liking / np.linalg.norm(fitted.topics, axis=1)
    one = int(np.argmax(liking))
    top = np.argsort(-fitted.topics[one], kind="stable")[:KNOWN]
    return {
        "completion": fitted.perplexity(corpus.test),
        "bound": fitted.perplexity(corpus.test, "bound"),
        "clipped": clipped(corpus, fitted.constants["weight"].T),
        "likeness": float(liking[one]) if model is not None else 1.0,
        "topic": {corpus.words[i]: float(fitted.topics[one, i]) for i in top},
    }


def clipped(corpus: Corpus, weight: np.ndarray) -> float:
    """The share of documents with a norm above the clip, in the paper's expectation step.

    Looks at documents themselves, which only public ones allow. `weight` is words by topics.
    """
    rows = np.exp(digamma(weight) - digamma(weight.sum(axis=0)))
    some = csr_matrix(corpus.train[:LOOKED_AT], dtype=float)
    some = csr_matrix(some.multiply(LENGTH / some.sum(axis=1)))
    gamma = mixtures(some, rows, 1 / corpus.topics, tolerance=1e-3, most=100).astype(float)
    words = some.tocoo()
    shares = np.exp(digamma(gamma))[words.row] * rows[words.col]
    shares /= shares.sum(axis=1, keepdims=True)
    norms = np.sqrt(np.bincount(words.row, words.data**2 * (shares**2).sum(axis=1)))
    return float((norms > CLIP * LENGTH).mean())


@dataclass(frozen=True, eq=False)
class Found:
    """Scores of a corpus by method and epsilon; 0 for methods without one.

    Perplexities are means over seeds, with `spread` their standard deviation (completion); the
    rest is that of the first seed.
    """

    corpus: Corpus
    epsilons: tuple[float, ...]
    seeds: int
    scores: dict[tuple[str, float], dict[str, Any]]

    def curve(self, method: str, what: str) -> tuple[list[float], list[float]]:
        """Epsilons that were measured and one score; that of an exact method at all of them."""
        level = {e: 0.0 if method in EXACT else e for e in self.epsilons}
        known = [e for e in self.epsilons if (method, level[e]) in self.scores]
        return known, [self.scores[method, level[e]][what] for e in known]


def measure(
    corpus: Corpus,
    epsilons: tuple[float, ...],
    main: float,
    seeds: int,
    kept: Kept,
    say: Callable[[str], None] = lambda words: None,
    *,
    fit: bool = True,
) -> Found:
    """All methods, first without privacy and at the main epsilon. Without `fit` what is kept."""
    levels = [(m, 0.0) for m in (NONE, UNIGRAM, NONE_PAPER)]
    ordered = sorted(epsilons, key=lambda e: e != main)
    levels += [(method, e) for e in ordered for method in PRIVATE]
    scores: dict[tuple[str, float], dict[str, Any]] = {}
    model: dict[str, float] | None = None
    for method, e in levels:
        every = []
        for seed in range(1, 1 + (1 if method == UNIGRAM else seeds)):
            key = f"{corpus.name}/{corpus.size}/{corpus.topics}/{method}/{e:g}/{seed}"
            if fit or key in kept.scores:
                every.append(kept.get(key, lambda: scored(corpus, method, e, seed, model)))  # noqa: B023
            if method == NONE and every:
                model = every[0]["topic"]
        if not every:
            continue
        one = scores[method, e] = {**every[0], **_over_seeds(every)}
        say(f"{corpus.title}, {method}, {e:g}: {one['completion']:.0f}, bound {one['bound']:.0f}")
    return Found(corpus, tuple(epsilons), seeds, scores)


def _over_seeds(every: list[dict[str, Any]]) -> dict[str, float]:
    completion, bound = (np.array([one[k] for one in every]) for k in ("completion", "bound"))
    spread = float(completion.std(ddof=1)) if len(every) > 1 else 0.0
    return {"completion": completion.mean(), "bound": bound.mean(), "spread": spread}

"""Gibbs sampling by the exponential mechanism beyond hidden Markov models, beside the default.

Foulds et al. (2016, section 4.1) argue for any model and measure a hidden Markov model. Here a
mixture of naive Bayes, a topic model and a Markov random field are fitted by `PrivateGibbs` with
each scan, and by `tacit.Budget`, at delta 1e-6 through `tacit.Public` and its simulated noise. What
is measured is how much worse held-out rows (or words) are predicted than by the truth that they are
simulated from: nats a row (or a word), the mean of the repeats.

Run: python reproductions/gibbs_scans.py [--repeats 4]; it prints the figures of
docs/chains-through-the-wall.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

import tacit
from tacit.posterior.topics import TopicPosterior
from tacit.spec.sampling import Sampling

DELTA, ROWS, TEST, SWEEPS, EPSILONS = "1e-6", 4_000, 4_000, 20, (1, 4, 100)
COLUMNS = [f"x{j}" for j in range(4)]
WORDS, TOPICS, LENGTH = 24, 3, 20
BINARY = tacit.Schema(
    *(tacit.Categorical(name, ["no", "yes"], default="no") for name in COLUMNS),
    neighbours="replace_one",
)
DOCUMENTS = tacit.Schema(
    tacit.Tokens("words", [f"w{i}" for i in range(WORDS)], max_length=LENGTH),
    neighbours="replace_one",
)


class Case(NamedTuple):
    """Data, held-out data, and what the truth scores on these; less is worse."""

    model: Any
    schema: tacit.Schema
    data: Any
    test: Any
    best: float
    truncation: float

    def loss(self, how: Any, seed: int) -> tuple[float, float]:
        """How far a fit falls short of the truth, and its temperature."""
        public = tacit.Public(self.data, self.schema, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tacit.errors.InferenceWarning)
            found = tacit.fit(self.model, public, how, seed=seed, progress=False)
        if isinstance(self.test, dict):
            score = float(found.log_likelihood(self.test).mean())
        else:
            score = -np.log(found.perplexity(self.test))
        law = found.releases[0].noise[0]
        return self.best - score, law.scale if law.family == "draw" else np.nan


def mixture(seed: int) -> Case:
    """Two classes of .6 and .4, four columns."""
    p = np.array([[0.85] * 4, [0.15] * 4])
    rng = np.random.default_rng(seed)
    z = rng.choice(2, size=ROWS + TEST, p=[0.6, 0.4])
    yes = rng.random((ROWS + TEST, 4)) < p[z]
    log = np.where(yes[ROWS:, None], np.log(p), np.log(1 - p)).sum(axis=2) + np.log([0.6, 0.4])
    best = float(logsumexp(log, axis=1).mean())
    return Case(tacit.NaiveBayesMixture(2, COLUMNS), BINARY, *_split(yes), best, 0.2)


def random_field(seed: int) -> Case:
    """A chain of four columns, next ones alike in four of five rows."""
    rng = np.random.default_rng(seed)
    yes = rng.random((ROWS + TEST, 4)) < 0.5
    for j in range(1, 4):
        yes[:, j] = yes[:, j - 1] ^ (rng.random(ROWS + TEST) < 0.2)
    alike = yes[ROWS:, 1:] == yes[ROWS:, :-1]
    best = float(np.where(alike, np.log(0.8), np.log(0.2)).sum(axis=1).mean() + np.log(0.5))
    model = tacit.MarkovRandomField(list(pairwise(COLUMNS)))
    return Case(model, BINARY, *_split(yes), best, 0.2)


def topics(seed: int) -> Case:
    """Three topics of eight words each, which have four fifths of it; documents of 20 words."""
    rng = np.random.default_rng(seed)
    own = np.kron(np.eye(TOPICS), np.full(WORDS // TOPICS, 0.8 * TOPICS / WORDS)) + 0.2 / WORDS
    theta = rng.dirichlet(np.full(TOPICS, 0.3), size=ROWS + TEST)
    counts = csr_matrix(rng.multinomial(LENGTH, theta @ own))
    model = tacit.LDA(TOPICS, alpha=0.3, eta=1.0)
    exact = TopicPosterior.from_parameters(
        model,
        tacit.Public(counts[:9], DOCUMENTS).release(_nothing(), tacit.Exact()),
        Sampling(noise="plugin"),
        weight=own,
        spread=own,
        words=DOCUMENTS.columns[0].vocabulary,
    )
    best = -float(np.log(exact.perplexity(counts[ROWS:])))
    return Case(model, DOCUMENTS, counts[:ROWS], counts[ROWS:], best, 0.2)


def _nothing() -> Any:
    """Any query: the truth needs a release to be scored like a fit."""
    return tacit.queries.BoundedSum(
        tacit.queries.Kernel("topics.root_frequencies"), "words", size=(WORDS, 1), clip=1.0
    )


def _split(yes: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
    text = np.where(yes, "yes", "no")
    parts = text[:ROWS], text[ROWS:]
    first, second = ({name: part[:, j] for j, name in enumerate(COLUMNS)} for part in parts)
    return first, second


CASES = {"mixture": (mixture, 3), "topics": (topics, 1), "random field": (random_field, 2)}
SCANS = ("parallel", "systematic", "random")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    repeats = parser.parse_args().repeats
    heads = "| model | epsilon | default | " + " | ".join(f"{s}: T, loss" for s in SCANS) + " |"
    sys.stdout.write(heads + "\n|" + "---|" * (3 + len(SCANS)) + "\n")
    for name, (make, kinds) in CASES.items():
        # Topics are one block: all scans are the same. A field's blocks are not independent.
        scans = {3: SCANS, 2: SCANS[1:], 1: SCANS[:1]}[kinds]
        for epsilon in EPSILONS:
            cases = [make(seed) for seed in range(repeats)]
            default = [case.loss(tacit.Budget(epsilon, DELTA), i) for i, case in enumerate(cases)]
            row = [name, str(epsilon), f"{np.mean([loss for loss, _ in default]):.3f}"]
            for scan in SCANS:
                if scan not in scans:
                    row.append("")
                    continue
                found = [
                    case.loss(
                        tacit.methods.PrivateGibbs(
                            epsilon, DELTA, truncation=case.truncation, sweeps=SWEEPS, scan=scan
                        ),
                        i,
                    )
                    for i, case in enumerate(cases)
                ]
                loss, temperature = np.mean(found, axis=0)
                row.append(f"{temperature:.3g}, {loss:.3f}")
            sys.stdout.write("| " + " | ".join(row) + " |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

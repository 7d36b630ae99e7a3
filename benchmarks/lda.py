"""Private topics beside scikit-learn's online LDA: documents a second, and what they learnt.

One pass over the same corpus, K = 50, with the same batches and tolerance of the E-step, in turns
in one run. Its rounds have the same limit, but in the default, whose noisy topics need fewer.
Times are those of `tacit.fit`: paying, reading the corpus, noise and the M-step; compiling does not
count. Uses the Wikipedia bag of words where --data has it, and simulated documents elsewhere.
"""

from __future__ import annotations

import argparse
import os
import runpy
import time
from pathlib import Path

import numpy as np
from rich import print
from scipy.sparse import csr_matrix

import tacit
from tacit.infer.topics import completion

TOPICS, EPSILON = 50, 2.4
PRIVATE = "private, sums at face value"
DEFAULT = f"private, by default at epsilon {EPSILON}"
EXACT = "without privacy"


def corpus(folder: Path, documents: int) -> tuple[csr_matrix, csr_matrix]:
    """Documents to learn from, and 2,000 others."""
    home = folder / "wikipedia_bow"
    if home.exists():
        loader = runpy.run_path(str(home / "load_wikipedia.py"))["load"]
        matrix, _ = loader(home / "wikipedia_bow.npz", home / "vocab.txt")
    else:
        rng = np.random.default_rng(0)
        topics = rng.dirichlet(np.full(8000, 0.05), size=TOPICS)
        shares = rng.dirichlet(np.full(TOPICS, 0.1), size=documents + 2000)
        lengths = 20 + rng.poisson(130, size=len(shares))
        rows = [rng.multinomial(n, p @ topics) for n, p in zip(lengths, shares)]
        matrix = csr_matrix(np.array(rows))
    matrix = matrix[np.asarray(matrix.sum(axis=1)).ravel() >= 20]
    return matrix[:documents], matrix[documents : documents + 2000]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("TACIT_DATA", "../shared/data"), type=Path)
    parser.add_argument("--documents", default=20_000, type=int)
    parser.add_argument("--batch", default=1000, type=int)
    parser.add_argument("--turns", default=3, type=int)
    chosen = parser.parse_args()
    train, test = corpus(chosen.data, chosen.documents)
    print(f"{train.shape[0]} documents, {train.nnz / train.shape[0]:.0f} different words in each")
    words = [f"w{i}" for i in range(train.shape[1])]
    schema = tacit.Schema(tacit.Tokens("words", words, max_length=10**6), neighbours="replace_one")
    wall = tacit.Wall(train, schema, budget=tacit.Budget(10_000, 1e-2), ledger=":memory:")
    public = tacit.Public(train, schema)
    batches = {"sampling": tacit.subsampling.Poisson(chosen.batch / train.shape[0])}
    pace = {"tau0": 64, "kappa": 0.5}  # scikit-learn's below

    def fitted(data, how, **options):
        return tacit.fit(tacit.LDA(TOPICS), data, how, progress=False, **options).topics

    noisy = tacit.VIPS(noise_multiplier=2.0, **batches, **pace)
    without = tacit.VIPS(noise_multiplier=0, **batches, **pace)
    default = tacit.VIPS(EPSILON, 1e-4, **batches)
    contestants = {
        PRIVATE: lambda: fitted(wall, noisy, noise="plugin"),
        DEFAULT: lambda: fitted(wall, default),
        EXACT: lambda: fitted(public, without),
        **peer(train, chosen.batch),
    }
    found, times = {}, {name: [] for name in contestants}
    for turn in range(-1, chosen.turns):
        for name, fit in contestants.items():
            if turn < 0 and name.startswith("scikit"):
                continue  # nothing to compile
            start = time.perf_counter()
            found[name] = fit()
            if turn >= 0:
                times[name].append(time.perf_counter() - start)
    best = min((name for name in times if "scikit" in name), key=lambda n: np.median(times[n]))
    for name, taken in times.items():
        ratio = np.median(np.array(times[best]) / np.array(taken))
        print(
            f"{name}: {train.shape[0] / np.median(taken):.0f} documents a second, "
            f"{ratio:.2f} times scikit-learn's best, perplexity {score(found[name], test):.0f}"
        )
    for name in (PRIVATE, DEFAULT):
        cost = np.median(np.array(times[name]) / np.array(times[EXACT]))
        print(f"{name}: {cost:.2f} times the same without privacy")


def peer(train: csr_matrix, batch: int):
    from sklearn.decomposition import LatentDirichletAllocation

    def fitted(jobs: int):
        made = LatentDirichletAllocation(
            TOPICS, batch_size=batch, learning_offset=64, learning_decay=0.5,
            total_samples=train.shape[0], mean_change_tol=1e-3, max_doc_update_iter=100,
            n_jobs=jobs, random_state=0,
        )  # fmt: skip
        for first in range(0, train.shape[0], batch):
            made.partial_fit(train[first : first + batch])
        return made.components_ / made.components_.sum(axis=1, keepdims=True)

    return {f"scikit-learn, n_jobs={jobs}": lambda jobs=jobs: fitted(jobs) for jobs in (1, 2)}


def score(topics: np.ndarray, test: csr_matrix) -> float:
    rng = np.random.default_rng(0)
    return completion(test, topics.T, 1 / TOPICS, rng, tolerance=1e-3, most=200)


if __name__ == "__main__":
    main()

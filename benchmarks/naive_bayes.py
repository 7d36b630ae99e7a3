"""Accuracy of private naive Bayes, noise-aware and plug-in, beside no privacy.

    python benchmarks/naive_bayes.py [adult_train.csv adult_test.csv]

Without files: simulated rows. Accuracy and mean log score of the true class on held-out rows.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd

import tacit

ADULT = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"]


def simulated(rows: int = 6000) -> tuple[pd.DataFrame, pd.DataFrame, str, list[str]]:
    rng = np.random.default_rng(0)
    y = rng.choice(2, rows, p=[0.7, 0.3])
    data = {"y": np.array(["no", "yes"])[y]}
    for j in range(6):
        rates = rng.dirichlet(np.full(5, 2.0), 2)
        code = (rates[y].cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
        data[f"x{j}"] = np.array(list("abcde"))[np.minimum(code, 4)]
    table = pd.DataFrame(data)
    return table[: rows // 2], table[rows // 2 :], "y", [f"x{j}" for j in range(6)]


def adult(train: str, test: str) -> tuple[pd.DataFrame, pd.DataFrame, str, list[str]]:
    """Files with a header; the last column is the class."""
    parts = [pd.read_csv(path, skipinitialspace=True, dtype=str) for path in (train, test)]
    parts = [part.rename(columns=lambda c: c.strip().lower()) for part in parts]
    target = parts[0].columns[-1]
    for part in parts:
        part[target] = part[target].str.rstrip(".")
    names = [n for n in parts[0].columns if n.replace("_", "-").replace(".", "-") in ADULT]
    return parts[0], parts[1], target, names


def main() -> None:
    train, test, target, features = adult(*sys.argv[1:3]) if len(sys.argv) > 2 else simulated()
    columns = [  # levels of public data: a private table would have them from its codebook
        tacit.Categorical(n, sorted(train[n].dropna().unique()), default=train[n].mode()[0])
        for n in (target, *features)
    ]
    schema = tacit.Schema(*columns, neighbours="replace_one")
    model = tacit.NaiveBayes(target, features)
    held = test.sample(min(len(test), 2000), random_state=0)
    levels = list(schema[target].labels)
    right = np.array([levels.index(value) for value in held[target]])
    print(f"{len(train)} rows, {len(features)} features")  # noqa: T201
    for epsilon in (0.01, 0.1, 1, None):
        for noise in ("aware", "plugin") if epsilon else ("aware",):
            how = tacit.Laplace(epsilon) if epsilon else tacit.Exact()
            scores = []
            start = time.perf_counter()
            for seed in range(3 if epsilon else 1):
                public = tacit.Public(train, schema, seed=seed)
                fitted = tacit.fit(model, public, how, draws=250, seed=1, noise=noise)
                chance = fitted.predict_proba(held)
                hit = (chance.argmax(axis=1) == right).mean()
                scores.append((hit, np.log(chance[np.arange(len(held)), right]).mean()))
            took = (time.perf_counter() - start) / len(scores)
            accuracy, log_score = np.mean(scores, axis=0)
            print(  # noqa: T201
                f"epsilon {epsilon or 'none':>5}  {noise:6}  accuracy {accuracy:.3f}  "
                f"log score {log_score:.3f}  {took:.1f} s"
            )


if __name__ == "__main__":
    main()

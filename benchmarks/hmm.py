"""A hidden Markov model beside hmmlearn, and what noise costs.

Ten states over 20 regions x 72 months x 5 features, the shape of the papers' war logs. Prints
200 sweeps of the sampler against 200 EM iterations of hmmlearn's MultinomialHMM on the same
counts (features side by side), and fits from one table: private, taken at face value and with the
noise in the likelihood, against the fit of exact counts; and 200 sweeps from exact counts, from
noisy ones and by one posterior sample (OPS). Times are medians, in turns.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable

import numpy as np
from rich import print

import tacit
from tacit.datasets import Logs, simulate_incidents
from tacit.infer.hmm import Cells, Priors, draw_hidden_states
from tacit.infer.noise import Law
from tacit.spec.mechanisms import Mechanism
from tacit.spec.sampling import Sampling
from tacit.testing import simulated_release

STATES, SWEEPS = 10, 200


def seconds(
    function: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    start = clock()
    function()
    return clock() - start


def exact_cells(logs: Logs) -> Cells:
    return cells_of(logs, tacit.Public(logs.table, logs.schema()), tacit.Exact())


def cells_of(logs: Logs, public: tacit.Public, mechanism: Mechanism) -> Cells:
    """Counts of all cells; noise is to be believed, so that its law is left out."""
    model = tacit.HMM(STATES, "region", "month", logs.columns)
    release = public.release(model.query(), mechanism)
    tables = [release.table(name).value for name in logs.columns]
    first = np.cumsum([0, *(table.shape[2] for table in tables)])
    counts = np.concatenate(tables, axis=2)
    return Cells(counts, first, [Law("none", 0.0)] * len(tables), np.ones(counts.shape[:2], bool))


def beside_hmmlearn(logs: Logs) -> None:
    cells = exact_cells(logs)

    def ours() -> None:
        one = Sampling(draws=SWEEPS, chains=1, seed=1)
        draw_hidden_states(cells, STATES, Priors(), one, warmup=0)

    ours()
    mine = np.median([seconds(ours) for _ in range(5)])
    text = f"{SWEEPS} sweeps {mine:.2f} s"
    try:
        from hmmlearn.hmm import MultinomialHMM
    except ImportError:
        print(f"{text}; hmmlearn is not installed")
        return
    sequences, times, levels = cells.counts.shape
    flat = cells.counts.reshape(-1, levels).astype(int)

    def theirs() -> None:
        peer = MultinomialHMM(STATES, n_iter=SWEEPS, tol=-np.inf, random_state=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer.fit(flat, [times] * sequences)
        assert peer.monitor_.iter == SWEEPS

    logging.disable()
    other = seconds(theirs)
    print(f"{text}; {SWEEPS} EM iterations of hmmlearn {other:.2f} s, ratio {other / mine:.0f}")


def fits(logs: Logs, epsilon: float, turns: int) -> None:
    public = tacit.Public(logs.table, logs.schema())
    model = tacit.HMM(STATES, "region", "month", logs.columns)
    options = {"draws": SWEEPS, "chains": 2, "seed": 1}
    noisy = tacit.Laplace(epsilon)
    ways = {
        "exact": lambda: tacit.fit(model, public, tacit.Exact(), **options),
        "plug-in": lambda: tacit.fit(model, public, noisy, noise="plugin", **options),
        "noise-aware": lambda: tacit.fit(model, public, noisy, **options),
    }
    releases = {name: way().releases[0] for name, way in ways.items()}
    whole = np.array([[seconds(way) for way in ways.values()] for _ in range(turns)])
    after = np.array(
        [
            [
                seconds(lambda: model.posterior(releases["exact"], **options)),
                seconds(lambda: model.posterior(releases["plug-in"], noise="plugin", **options)),
                seconds(lambda: model.posterior(releases["noise-aware"], **options)),
            ]
            for _ in range(turns)
        ]
    )
    for what, times in (("fit", whole), ("posterior alone, once released", after)):
        ratio = np.median(times / times[:, :1], axis=0)
        print(
            f"epsilon {epsilon:g}, {what}: exact {np.median(times[:, 0]):.2f} s, plug-in x "
            f"{ratio[1]:.2f}, noise-aware x {ratio[2]:.2f}"
        )


def beside_ops(logs: Logs, epsilon: float, turns: int) -> None:
    """200 sweeps each, of one chain, on counts in memory: "OPS roughly doubled the runtime".

    Processor time, which a busy machine changes less.
    """
    public = tacit.Public(logs.table, logs.schema())
    one = {"draws": SWEEPS, "chains": 1, "seed": 1}
    exact = exact_cells(logs)
    noisy = cells_of(logs, public, tacit.Laplace(epsilon))
    chain = tacit.HMM(STATES, "region", "month", logs.columns).state_chain(
        truncation=0.01, sweeps=SWEEPS
    )
    counts = np.concatenate(
        [part.ravel() for part in np.split(exact.counts, exact.first[1:-1], axis=2)]
    )
    rows = len(logs.table["region"])

    def gibbs(cells: Cells, single_site: bool) -> Callable[[], object]:
        sampling = Sampling(**one, noise="plugin")
        return lambda: draw_hidden_states(
            cells, STATES, Priors(), sampling, single_site=single_site, warmup=0
        )

    ways = {
        "no privacy, single sites": gibbs(exact, True),
        "Laplace, single sites": gibbs(noisy, True),
        "no privacy, whole paths": gibbs(exact, False),
        "Laplace, whole paths": gibbs(noisy, False),
        "OPS, whole paths": lambda: simulated_release(
            public.schema, chain, tacit.queries.Exponential(epsilon), counts, rows, seed=1
        ),
    }
    for way in ways.values():
        way()
    clock = time.process_time
    times = np.array([[seconds(way, clock) for way in ways.values()] for _ in range(turns)])
    for name, median in zip(ways, np.median(times, axis=0), strict=True):
        print(f"epsilon {epsilon:g}, {SWEEPS} sweeps, {name}: {median:.3f} s of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    logs = simulate_incidents(states=STATES, entries=58, seed=1)
    beside_hmmlearn(logs)
    for epsilon in (5.0, 1.0):
        fits(logs, epsilon, options.turns)
    beside_ops(logs, 5.0, options.turns)


if __name__ == "__main__":
    main()

"""Runs all kernels with index checks, in a process of its own: the switch is read at import.

Written to the file that is named: what each kernel gives for its examples, as it is compiled now.
"""

from __future__ import annotations

import sys

import numba
import numpy as np

from tacit.kernels import KERNELS
from tacit.spec.errors import QueryError
from tests.kernels.examples import EXAMPLES
from tests.kernels.units import Case, mutations, run, units_of

VALID, MUTATED, KEPT = 200, 40, 20


@numba.njit
def _beyond(array):
    return array[array.size]


def main(path: str) -> None:
    try:
        _beyond(np.zeros(1))
    except IndexError:
        pass
    else:
        raise AssertionError("indices are not checked: set NUMBA_BOUNDSCHECK=1")
    kept = {}
    for name, kernel in KERNELS.items():
        refused = accepted = 0
        for seed in range(VALID):
            rng = np.random.default_rng(seed)
            case = Case.of(kernel, EXAMPLES[name](rng))
            kernel.check(case.state, case.columns, case.shapes)
            results = [run(kernel, unit, case) for unit in units_of(kernel, case, rng)]
            if seed < KEPT:
                kept[f"{name} {seed}"] = np.concatenate([result.ravel() for result in results])
            for other in mutations(kernel, case, rng) if seed < MUTATED else ():
                try:
                    kernel.check(other.state, other.columns, other.shapes)
                except QueryError:
                    refused += 1
                    continue
                accepted += 1
                for unit in units_of(kernel, other, rng):
                    run(kernel, unit, other)
        print(f"{name}: {refused} mutations refused, {accepted} safe")  # noqa: T201
    np.savez(path, **kept)


if __name__ == "__main__":
    main(sys.argv[1])

"""What every kernel promises; a new one is tested by being listed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import tacit.kernels
from tacit.kernels import KERNELS, AnyKernel
from tacit.spec.errors import QueryError
from tacit.spec.packing import symmetric
from tacit.spec.sums import Bound, side_of
from tests.kernels.examples import EXAMPLES
from tests.kernels.units import Case, of_wrong_type, out_shape, run, units_of

SEEDS = range(20)


@pytest.fixture(params=list(KERNELS))
def kernel(request: pytest.FixtureRequest) -> AnyKernel:
    return KERNELS[request.param]


def made(kernel: AnyKernel, seed: int) -> tuple[Case, list[tuple[np.ndarray, ...]]]:
    rng = np.random.default_rng(seed)
    case = Case.of(kernel, EXAMPLES[kernel.name](rng))
    return case, units_of(kernel, case, rng)


def in_company(kernel: AnyKernel, units: list[tuple[np.ndarray, ...]], case: Case, order) -> list:
    """Contributions of units that lie side by side in memory, computed in some order."""
    shapes = [out_shape(kernel, unit, case) for unit in units]
    starts = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    outs = np.zeros(starts[-1])
    parts = [np.concatenate(part) for part in zip(*units)]
    sizes = np.cumsum([0, *(unit[0].size for unit in units)])
    views = [outs[a:b].reshape(s) for a, b, s in zip(starts, starts[1:], shapes)]
    for i in order:
        here = slice(sizes[i], sizes[i + 1])
        kernel.function(*(part[here] for part in parts), case.state, views[i])
    return [view.tobytes() for view in views]


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_a_unit_contributes_the_same_bits_alone_and_in_any_company(kernel: AnyKernel, seed: int):
    case, units = made(kernel, seed)
    alone = [run(kernel, unit, case).tobytes() for unit in units]
    assert [run(kernel, unit, case).tobytes() for unit in units] == alone  # run twice
    count = len(units)
    forward = list(range(count))
    shuffled = np.random.default_rng(seed).permutation(count).tolist()
    for order in (forward, forward[::-1], shuffled):
        assert in_company(kernel, units, case, order) == alone
    for turn in range(count):  # each unit in each position
        turned = [(i + turn) % count for i in forward]
        found = in_company(kernel, [units[i] for i in turned], case, forward)
        assert found == [alone[i] for i in turned]
    for i in forward:  # all other units swapped for another
        others = [units[j if j == i else (i + 1) % count] for j in forward]
        assert in_company(kernel, others, case, forward)[i] == alone[i]


@pytest.mark.parametrize("seed", SEEDS)
def test_neither_the_state_nor_the_unit_is_changed(kernel: AnyKernel, seed: int):
    case, units = made(kernel, seed)
    state = [array.tobytes() for array in case.state]
    for unit in units:
        before = [part.tobytes() for part in unit]
        kernel.function(*unit, case.state, np.zeros(out_shape(kernel, unit, case)))
        assert [part.tobytes() for part in unit] == before
    assert [array.tobytes() for array in case.state] == state


@pytest.mark.parametrize("seed", SEEDS)
def test_a_unit_contributes_finite_numbers_within_the_bounds_that_are_stated(
    kernel: AnyKernel, seed: int
):
    rng = np.random.default_rng(seed)
    example = EXAMPLES[kernel.name](rng)
    case = Case.of(kernel, example)
    for unit in units_of(kernel, case, rng):
        out = run(kernel, unit, case).ravel()
        first = 0
        for block in example.blocks:
            part = out[first : first + block.numbers]
            first += block.numbers
            assert np.all(np.isfinite(part))
            assert within(part, block)


def within(part: np.ndarray, block: Bound) -> bool:
    if block.geometry == "outer":  # the wall makes it one, and must not have to change it
        matrix = symmetric(part, side_of(part.size))
        pivot = int(np.argmax(np.diag(matrix)))
        made = np.outer(matrix[pivot], matrix[pivot]) / (matrix[pivot, pivot] or 1.0)
        np.testing.assert_allclose(made, matrix, atol=1e-12 * block.clip)
    if block.geometry not in ("free", "outer") and np.any(part < 0):
        return False
    if block.geometry == "box":
        return bool(np.all(part <= block.clip))
    largest = np.abs(part).max(initial=0.0) or 1.0
    norm = np.linalg.norm(part / largest, 1 if block.norm == "l1" else 2) * largest
    return bool(norm <= block.clip)


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_states_of_the_wrong_type_are_refused_before_anything_is_spent(
    kernel: AnyKernel, seed: int
):
    case, _ = made(kernel, seed)
    kernel.check(case.state, case.columns, case.shapes)
    for wrong in of_wrong_type(case):
        with pytest.raises(QueryError, match=r"Expected .*no budget was spent"):
            kernel.check(wrong.state, wrong.columns, wrong.shapes)
    for shapes in ((), ((0,),), ((1.5,),), ((-1, -1),), ((True,),)):
        with pytest.raises(QueryError, match="Expected"):
            kernel.check(case.state, case.columns, shapes)
    for columns in ((), ("x",)):
        with pytest.raises(QueryError, match="Expected"):
            kernel.check(case.state, columns, case.shapes)


@pytest.fixture(scope="module")
def checked(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory):
    """Contributions computed with index checks, by code that was compiled from these sources."""
    root, path = Path(__file__).parents[2], tmp_path_factory.mktemp("checked") / "found.npz"
    sources = sorted(Path(tacit.kernels.__file__).parent.glob("*.py"))
    facts = [numba.__version__.encode(), *(source.read_bytes() for source in sources)]
    digest = hashlib.sha256(b"".join(facts)).hexdigest()[:12]
    compiled = pytestconfig.cache.mkdir(f"index-checks-{digest}")
    for other in compiled.parent.glob("index-checks-*"):
        if other != compiled:
            shutil.rmtree(other, ignore_errors=True)
    paths = [str(Path(tacit.__file__).parents[1]), str(root)]
    environment = {
        **os.environ,
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_CACHE_DIR": str(compiled),  # code that is cached elsewhere has no checks
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [sys.executable, "-m", "tests.kernels.bounds_checked", str(path)]
    done = subprocess.run(
        command, env=environment, cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return np.load(path)


def test_no_index_falls_outside_for_any_state_that_is_not_refused(checked):
    assert {name.split()[0] for name in checked.files} == set(KERNELS)


def test_cached_code_is_that_of_the_source(kernel: AnyKernel, checked):
    """Stale code after a change to a helper in another file: delete __pycache__."""
    single = " f4[" in kernel.layout
    for seed in SEEDS:
        case, units = made(kernel, seed)
        found = np.concatenate([run(kernel, unit, case).ravel() for unit in units])
        expected = checked[f"{kernel.name} {seed}"]
        largest = np.abs(expected).max(initial=0.0)
        # In single precision another order of a sum may end the rounds earlier or later.
        np.testing.assert_allclose(
            found, expected, rtol=1e-9, atol=(2e-2 if single else 1e-12) * largest
        )


def test_every_kernel_has_an_example():
    assert list(EXAMPLES) == list(KERNELS)


def test_the_registry_is_closed_and_sorted():
    assert list(KERNELS) == sorted(KERNELS)
    assert all(kernel.name == name for name, kernel in KERNELS.items())
    with pytest.raises(TypeError):
        KERNELS["mine"] = None  # type: ignore[index]

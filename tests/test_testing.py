"""The rehearsal: methods run on it, and the wall agrees with it."""

import jax.numpy as jnp
import numpy as np
import pytest

import tacit
from tacit.testing import simulated_release
from tests.rehearsal import Rehearsal

COLUMNS = (
    tacit.Real("x", -3, 3),
    tacit.Integer("z", 0, 4, default=2),
    tacit.Categorical("kind", ["a", "b", "c"]),
)


def schema(neighbours="replace_one", unit=None, rows=None):
    return tacit.Schema(*COLUMNS, neighbours=neighbours, unit=unit, max_rows_per_unit=rows)


def data(n=60):
    rng = np.random.default_rng(4)
    return {
        "x": [float(v) for v in rng.normal(size=n) * 2],
        "z": [int(v) for v in rng.integers(-1, 6, size=n)],
        "kind": [str(v) for v in rng.choice(["a", "b", "c", "d"], size=n)],
        "who": [int(v) for v in np.arange(n) // 3],
    }


def features(row, state):
    return jnp.stack([row[0] * state[0], row[1], row[2] + row[0]])


NAMES = ["x", "z", "kind"]
STATE = np.array([1.5])
SCALING = np.array([0.5, 1.0, 0.0]), np.array([1.5, 1.0, -2.0])  # midpoint and scale
CONTRIBUTIONS = [(tacit.queries.Kernel("columns.values"), SCALING), (features, STATE)]
QUERIES = [
    tacit.queries.Counts("kind"),
    tacit.queries.Counts(["kind", "z"]),
    tacit.queries.Counts(tacit.queries.Is("kind", ("a", "c")), by="z"),
    *(
        tacit.queries.BoundedSum(
            of_row, NAMES, size=3, clip=2.0, norm=norm, geometry=geometry, state=state
        )
        for of_row, state in CONTRIBUTIONS
        for norm, geometry in [("l2", "free"), ("l1", "nonnegative"), ("l2", "box")]
    ),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: str(q.to_dict())[:70])
@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_the_wall_agrees_with_plain_python(query, unit, neighbours):
    described = schema(neighbours, unit, 3 if unit else None)
    plain = Rehearsal(data(), described).release(query, tacit.Laplace(1))
    ours = tacit.Public(data(), described).release(query, tacit.Exact())
    np.testing.assert_allclose(ours.value, plain.value, atol=1e-4)
    assert ours.n == plain.n
    assert [b.shape for b in ours.blocks] == [b.shape for b in plain.blocks]


def test_methods_need_nothing_but_the_protocol():
    model = tacit.DirichletCategorical("kind")
    posterior = tacit.fit(model, Rehearsal(data(), schema()), tacit.Laplace(1), seed=1)
    assert posterior.certificate.data == "public data"
    assert "nothing is private" in posterior.certificate.assumptions[0]
    exact = tacit.fit(model, tacit.Public(data(), schema()), tacit.Exact(), seed=1)
    np.testing.assert_allclose(posterior.mean(), exact.mean(), atol=0.02)


@pytest.mark.parametrize(
    "sampling",
    [
        tacit.subsampling.Everyone(),
        tacit.subsampling.Poisson(0.5),
        tacit.subsampling.WithoutReplacement(7, 60),
    ],
    ids=str,
)
def test_steps_are_rehearsed_as_a_lease_answers_them(sampling):
    plan = tacit.queries.Plan(
        tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=1.0), sampling), delta=1e-5
    )
    query = tacit.queries.BoundedSum(features, NAMES, size=3, clip=2.0, state=STATE)
    steps = Rehearsal(data(), schema(), seed=1).prepay(plan)
    assert steps.steps_left == 2
    first, second = steps.release(query), steps.release(query.at(STATE * 2))
    assert first.noise[0].family == "none"
    assert not np.array_equal(first.value, second.value)
    with pytest.raises(tacit.errors.BudgetError, match="All 2 steps"):
        steps.release(query)
    lease = tacit.Public(data(), schema()).prepay(plan)
    assert {m for m in dir(steps) if not m.startswith("_")} >= {
        "release",
        "steps_left",
        "certificate",
    }
    assert lease.release(query).blocks == first.blocks


def test_a_rehearsal_wants_clean_units():
    with pytest.raises(tacit.errors.SchemaError, match="more rows"):
        Rehearsal(data(), schema(unit="who", rows=2))


def test_simulated_releases_have_the_walls_law():
    query = tacit.queries.Counts("kind")
    release = simulated_release(schema(), query, tacit.Gaussian(1, 1e-6), [10, 20, 30, 0], 60)
    assert (
        release.noise == tacit.Public(data(), schema()).quote(query, tacit.Gaussian(1, 1e-6)).noise
    )
    assert np.all(np.abs(release.value - [10, 20, 30, 0]) < 60)


def test_simulated_noise_may_have_a_seed():
    query = tacit.queries.Counts("kind")
    first, again, other = (
        simulated_release(schema(), query, tacit.Laplace(1), [10, 20, 30, 0], 60, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other

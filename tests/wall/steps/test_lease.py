"""Plans and leases: paid once, answered as often as paid, never more."""

import copy
import decimal
import gc
import multiprocessing as mp
import pickle
import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import tacit
from tacit.spec.sums import Bound
from tacit.wall import noise as _noise
from tests.wall.steps.test_sums import dense, schema, table

ALARM = 1e-6


def count(**bound):
    """A row counts as one: the score of whatever z it has."""
    given = {"size": 1, "clip": 1.0} | bound
    table = np.ones((given["size"], 10)), np.array([0])
    return tacit.queries.BoundedSum(tacit.queries.Kernel("table.scores"), "z", state=table, **given)


COUNT = count()
NOISE = tacit.Gaussian(noise_multiplier=2.0)


def plan(count=10, sampling=None, mechanism=NOISE, **more):
    steps = tacit.queries.Steps(count, mechanism, sampling or tacit.subsampling.Everyone(), **more)
    return tacit.queries.Plan(steps, delta=1e-5)


def wall(n=40, neighbours="replace_one", ledger=":memory:", budget=(100, 1e-2)):
    return tacit.Wall(
        complete(n), schema(neighbours=neighbours), budget=tacit.Budget(*budget), ledger=ledger
    )


def complete(n):
    """A table without missing values, so that every row counts."""
    made = table(n)
    return made | {name: np.nan_to_num(made[name]).clip(-5, 5) for name in ("x", "y")}


def counted(held) -> int:
    """How many rows a release of COUNT took in, noise aside."""
    return round(held.value[0])


# One charge


def test_a_plan_is_charged_once_and_before_reading(tmp_path):
    path = tmp_path / "ledger"
    held = wall(ledger=path)
    lease = held.prepay(plan(5))
    entries = tacit.Ledger(path).entries()
    assert [e["kind"] for e in entries] == ["created", "charge"]
    assert entries[1]["event"]["plan"]["steps"][0]["mechanism"]["noise_multiplier"] == 2.0
    for _ in range(5):
        lease.release(COUNT)
    assert len(tacit.Ledger(path).entries()) == 2
    # five Gaussian steps of multiplier 2, sensitivity 2: one with mu = sqrt(5)
    expected = tacit.accounting.gaussian_epsilon(5**0.5, 1e-5)
    assert float(entries[1]["epsilon"]) == pytest.approx(expected, rel=1e-3)
    certificate = lease.certificate
    assert float(certificate.epsilon) == pytest.approx(expected, rel=1e-3)
    assert certificate.ledger.entry == 2
    assert "steps 5" in str(certificate)


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_a_block_of_outer_products_has_less_noise_where_the_proof_allows_it(neighbours):
    """Beside a free block, paid for as free: their distances add up to what was paid for."""
    blocks = {"sum": Bound(2, 3.0), "squares": Bound(3, 9.0, geometry="outer")}

    def both(row, state):
        x, y = row
        return {"sum": row, "squares": jnp.array([x**2, x * y * 2**0.5, y**2])}

    query = tacit.queries.BoundedSum(both, ["x", "y"], blocks=blocks)
    everyone, rare = tacit.subsampling.Everyone(), tacit.subsampling.Poisson(0.5)
    for sampling in (everyone, rare):
        lease = wall(neighbours=neighbours).prepay(
            plan(1, sampling, mechanism=tacit.Gaussian(noise_multiplier=4.0), numbers=5)
        )
        scales = [law.scale for law in lease.release(query).noise]
        narrower = neighbours == "replace_one" and sampling is everyone
        share = 2**-0.5 if narrower else 1.0
        want = [4 * 3 * 2**0.5, 4 * 9 * 2**0.5 * share]
        assert scales == pytest.approx(want, rel=1e-6)
        if narrower:
            moved = (2 * 3 / scales[0]) ** 2 + (2**0.5 * 9 / scales[1]) ** 2
            assert moved <= (2 / 4) ** 2 * (1 + 1e-9)


def test_a_unit_of_many_rows_has_no_outer_products():
    many = tacit.Schema(
        tacit.Real("x", -1, 1), unit="who", max_rows_per_unit=1001, neighbours="replace_one"
    )
    state = np.zeros(1), np.ones(1), np.zeros(1), np.eye(1), np.ones(1)
    query = tacit.queries.BoundedSum(
        tacit.queries.Kernel("normal_mixture.products"), "x", size=3, clip=2, geometry="outer",
        state=state,
    )  # fmt: skip
    home = tacit.Public({"x": [0.0], "who": [1]}, many)
    with pytest.raises(tacit.errors.QueryError, match="max_rows_per_unit <= 1000"):
        home.quote(query, tacit.Gaussian(1, 1e-6))


def test_no_step_is_given_that_was_not_paid_for():
    held = wall(budget=(1.0, 1e-4))
    with pytest.raises(tacit.OverBudgetError):
        held.prepay(plan(10))
    lease = held.prepay(plan(3, mechanism=tacit.Gaussian(noise_multiplier=30.0)))
    assert (lease.steps_left, repr(lease)) == (3, "Lease(3 of 3 steps left)")
    for left in (2, 1, 0):
        lease.release(COUNT)
        assert lease.steps_left == left
    for _ in range(2):
        with pytest.raises(tacit.errors.BudgetError, match="All 3 steps"):
            lease.release(COUNT)


def test_blocks_of_a_plan_follow_one_another():
    held = wall()
    steps = (
        tacit.queries.Steps(2, tacit.Gaussian(noise_multiplier=1.0)),
        tacit.queries.Steps(
            3, tacit.Gaussian(noise_multiplier=50.0), tacit.subsampling.Poisson(0.5)
        ),
        tacit.queries.Steps(1, tacit.Laplace(0.5)),
    )
    lease = held.prepay(tacit.queries.Plan(*steps, delta=1e-5))
    scales = [lease.release(COUNT).noise[0].scale for _ in range(6)]
    assert scales[:5] == pytest.approx([1, 1, 50, 50, 50], rel=1e-6)
    assert scales[5] == pytest.approx(4, rel=1e-6)  # L1 sensitivity 2 at epsilon 0.5
    whole = float(lease.certificate.epsilon)
    alone = [
        float(wall().prepay(tacit.queries.Plan(s, delta=1e-5)).certificate.epsilon)
        for s in steps[:2]
    ]
    assert max(alone) < whole < sum(alone) + 0.5 + 1e-6


def test_several_leases_let_a_loop_stop_early_and_share_what_was_read(monkeypatch):
    held = wall()
    reads = []
    original = held._source.snapshot
    counted = lambda: (reads.append(1), original())[1]  # noqa: E731
    monkeypatch.setitem(held._source.__dict__, "snapshot", counted)
    first = held.prepay(plan(2, mechanism=tacit.Gaussian(noise_multiplier=20.0)))
    first.release(COUNT)
    spent = 100 - float(held.remaining.epsilon)
    second = held.prepay(plan(2, mechanism=tacit.Gaussian(noise_multiplier=20.0)))
    second.release(COUNT)
    assert 100 - float(held.remaining.epsilon) == pytest.approx(2 * spent)
    assert reads == [1]


def test_a_failed_step_is_used_up_and_says_nothing(monkeypatch):
    held = wall()
    lease = held.prepay(plan(3))

    def fail():
        raise RuntimeError("the canary 4711")

    monkeypatch.setitem(held._source.__dict__, "snapshot", fail)
    with pytest.raises(tacit.errors.SourceError) as caught:
        lease.release(COUNT)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None
    assert lease.steps_left == 2


def test_a_refused_question_costs_no_step():
    lease = wall().prepay(plan(3, geometry="nonnegative", numbers=4))
    for query in (
        tacit.queries.Counts("z"),
        COUNT,  # free, and the plan was for non-negative contributions
        count(size=5, geometry="box"),
    ):
        with pytest.raises(tacit.errors.QueryError):
            lease.release(query)
    assert lease.steps_left == 3
    lease.release(count(geometry="box"))


# It cannot be multiplied


def test_a_lease_cannot_be_copied_or_pickled():
    lease = wall().prepay(plan(3))
    for multiply in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            multiply(lease)


def _in_child(lease, pipe) -> None:
    try:
        lease.release(COUNT)
        pipe.send("answered")
    except tacit.errors.BudgetError as error:
        pipe.send(str(error))


def test_a_lease_does_not_work_after_a_fork():
    lease = wall().prepay(plan(3))
    lease.release(COUNT)
    here, there = mp.get_context("fork").Pipe()
    child = mp.get_context("fork").Process(target=_in_child, args=(lease, there))
    child.start()
    assert "after a fork" in here.recv()
    child.join()


def test_threads_share_the_steps_without_taking_one_twice():
    from concurrent.futures import ThreadPoolExecutor

    lease = wall().prepay(plan(200, mechanism=tacit.Gaussian(noise_multiplier=100.0)))

    def take(_):
        try:
            lease.release(COUNT)
        except tacit.errors.BudgetError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(260))) == 200


# Who takes part

FINE = tacit.Gaussian(noise_multiplier=0.001)


def public(n=40, neighbours="replace_one", seed=None):
    return tacit.Public(complete(n), schema(neighbours=neighbours), seed=seed)


def test_poisson_batches_have_binomial_sizes():
    n, rate, count = 40, 0.15, 4000
    lease = public(n).prepay(plan(count, tacit.subsampling.Poisson(rate), FINE))
    sizes = np.array([counted(lease.release(COUNT)) for _ in range(count)])
    from scipy.stats import binom

    probability = binom.pmf(np.arange(n + 1), n, rate) * count
    keep = probability > 10
    seen = np.bincount(sizes, minlength=n + 1)
    assert chi2.sf(((seen - probability) ** 2 / probability)[keep].sum(), keep.sum()) > ALARM


def test_an_empty_batch_still_releases_noise():
    lease = public(3).prepay(plan(200, tacit.subsampling.Poisson(0.001)))
    values = np.array([lease.release(COUNT).value[0] for _ in range(200)])
    assert len(set(values)) == 200
    assert 1.5 < values.std() < 2.6
    empty = {column.name: [] for column in schema().columns}
    none = tacit.Public(empty, schema()).prepay(plan(2))
    assert none.release(COUNT).value[0] != 0


def test_batches_without_replacement_have_their_size():
    lease = public(40).prepay(plan(300, tacit.subsampling.WithoutReplacement(7, 40), FINE))
    assert {counted(lease.release(COUNT)) for _ in range(300)} == {7}


def test_without_replacement_needs_the_public_number_of_units():
    with pytest.raises(tacit.errors.BudgetError, match="secret"):
        wall(neighbours="add_remove").prepay(plan(3, tacit.subsampling.WithoutReplacement(7, 40)))
    held = wall(40)
    for wrong in (39, 41):  # before the charge: the number is public
        steps = (
            tacit.queries.Steps(1, NOISE),
            tacit.queries.Steps(3, NOISE, tacit.subsampling.WithoutReplacement(7, wrong)),
        )
        with pytest.raises(
            tacit.errors.BudgetError, match=f"population of {wrong} .* there are 40"
        ):
            held.prepay(tacit.queries.Plan(*steps, delta=1e-5), name="loop")
    assert held.remaining.epsilon == 100
    assert not held._ledger.read().claims
    held.prepay(plan(3, tacit.subsampling.WithoutReplacement(7, 40)), name="loop").release(COUNT)


def test_a_population_that_changed_after_the_charge_is_noticed():
    """Of public data nothing is checked before the step; of a wall the source may have changed."""
    lease = public(40).prepay(plan(3, tacit.subsampling.WithoutReplacement(7, 41)))
    with pytest.raises(tacit.errors.SourceError, match="population of 41"):
        lease.release(COUNT)


def test_everyone_takes_part_in_a_full_batch():
    lease = public(40).prepay(plan(3, None, FINE))
    assert {counted(lease.release(COUNT)) for _ in range(3)} == {40}


def test_units_are_sampled_with_all_their_rows():
    data = complete(60) | {"who": np.repeat(np.arange(20), 3)}
    described = schema("who", 3)
    query = count(clip=3.0)
    lease = tacit.Public(data, described).prepay(plan(400, tacit.subsampling.Poisson(0.2), FINE))
    sizes = {counted(lease.release(query)) for _ in range(400)}
    assert all(size % 3 == 0 for size in sizes)
    assert len(sizes) > 3


# What comes out


def test_the_number_of_units_comes_out_only_where_it_is_public():
    assert wall().prepay(plan(1)).release(COUNT).n == 40
    assert wall(neighbours="add_remove").prepay(plan(1)).release(COUNT).n is None


def test_state_and_clip_may_change_between_steps():
    lease = public().prepay(plan(4, None, FINE))
    query = dense()
    first = lease.release(query)
    second = lease.release(query.at(jnp.zeros(3)))
    assert not np.allclose(first.value, second.value, atol=1)
    wide = dense(clip=3.0)
    assert lease.release(wide).noise[0].scale == pytest.approx(2 * first.noise[0].scale, rel=1e-6)
    same = lease.release(query)
    np.testing.assert_allclose(same.value, first.value, atol=0.1)


def test_a_step_can_be_saved_and_read_again(tmp_path):
    release = wall().prepay(plan(1)).release(dense())
    release.save(tmp_path / "step.json")
    assert tacit.Release.load(tmp_path / "step.json") == release


def test_seeded_public_leases_repeat():
    runs = []
    for _ in range(2):
        lease = public(seed=3).prepay(plan(20, tacit.subsampling.Poisson(0.3)))
        runs.append([lease.release(COUNT).value[0] for _ in range(20)])
    assert runs[0] == runs[1]
    other = public(seed=4).prepay(plan(20, tacit.subsampling.Poisson(0.3)))
    assert [other.release(COUNT).value[0] for _ in range(20)] != runs[0]
    assert "public data" in str(lease.certificate)


def test_public_leases_may_be_exact_and_walls_may_not():
    exact = tacit.queries.Plan(tacit.queries.Steps(2, tacit.Exact()), delta=1e-5)
    assert public().prepay(exact).release(COUNT).value[0] == 40
    with pytest.raises(tacit.errors.BudgetError, match=r"only tacit\.Public"):
        wall().prepay(exact)


def test_every_release_is_on_its_grid_and_no_noise_is_used_twice():
    lease = wall(budget=(300, 1e-2)).prepay(plan(300))
    seen = []
    for _ in range(300):
        release = lease.release(COUNT)
        assert (release.value[0] / release.noise[0].grid).is_integer()
        seen.append(int(release.integers[0]))
    assert len(set(seen)) == 300


def test_steps_do_not_pile_up_memory():
    lease = public(40).prepay(plan(3000, tacit.subsampling.Poisson(0.5)))
    query = dense()
    for _ in range(1000):
        lease.release(query.at(np.zeros(3, np.float32)))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1500):
        lease.release(query.at(np.zeros(3, np.float32)))
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 300_000  # less than 200 bytes a step: buffers, not steps


# Plans


@pytest.mark.parametrize(
    "bad",
    [
        lambda: tacit.queries.Steps(0, NOISE),
        lambda: tacit.queries.Steps(2.5, NOISE),
        lambda: tacit.queries.Steps(True, NOISE),
        lambda: tacit.queries.Steps(1, tacit.Gaussian(1, 1e-6)),
        lambda: tacit.queries.Steps(1, NOISE, 0.5),
        lambda: tacit.queries.Steps(1, NOISE, geometry="round"),
        lambda: tacit.queries.Steps(1, NOISE, numbers=0),
        lambda: tacit.queries.Steps(1, tacit.Laplace(1), tacit.subsampling.Poisson(0.5)),
        lambda: tacit.queries.Steps(1, "loud"),
        lambda: tacit.subsampling.Poisson(0),
        lambda: tacit.subsampling.Poisson(1.5),
        lambda: tacit.subsampling.Poisson(float("nan")),
        lambda: tacit.subsampling.Poisson(1e-9),
        lambda: tacit.subsampling.WithoutReplacement(5, 4),
        lambda: tacit.subsampling.WithoutReplacement(0, 4),
        lambda: tacit.subsampling.WithoutReplacement(1.0, 4),
        lambda: tacit.queries.Plan(delta=1e-6),
        lambda: tacit.queries.Plan(tacit.queries.Steps(1, NOISE)),
        lambda: tacit.queries.Plan(tacit.queries.Steps(1, NOISE), delta=0),
        lambda: tacit.queries.Plan(tacit.queries.Steps(1, NOISE), delta=1),
        lambda: wall().prepay("plan"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(bad):
    with pytest.raises(tacit.errors.BudgetError):
        bad()


def test_a_gaussian_without_a_delta_is_for_plans_only():
    with pytest.raises(tacit.errors.BudgetError, match="delta"):
        wall().release(COUNT, NOISE)


def test_each_step_of_a_lease_begins_from_fresh_entropy(monkeypatch):
    asked = []
    original = _noise.os.urandom
    monkeypatch.setattr(_noise.os, "urandom", lambda n: (asked.append(n), original(n))[1])
    lease = wall().prepay(plan(5, tacit.subsampling.Poisson(0.5)))
    for step in range(5):
        lease.release(COUNT)
        assert set(asked) == {32}, step
        asked.clear()


def test_a_plan_that_costs_next_to_nothing_costs_something():
    steps = tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=1e6))
    held = wall()
    assert held.prepay(tacit.queries.Plan(steps, delta=1e-2)).release(COUNT).n == 40
    assert held.remaining.epsilon < 100


@pytest.mark.parametrize("setting", [{"prec": 1}, {"prec": 3, "rounding": decimal.ROUND_DOWN}])
def test_the_charge_does_not_follow_the_decimal_context(setting):
    steps = tacit.queries.Steps(149, tacit.queries.Exponential("0.01"))
    with decimal.localcontext(**setting):
        spent, _ = tacit.accounting.plan_epsilon(tacit.queries.Plan(steps, delta=0), "replace_one")
    assert spent == pytest.approx(1.49, rel=1e-12)
    assert spent >= 1.49

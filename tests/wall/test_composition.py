"""How a ledger adds up is pinned, charged with each release, and checked again by `verify`."""

import json
import math
import multiprocessing as mp
from decimal import Decimal

import numpy as np
import pytest

import tacit
from tacit.accounting import filters, gaussian_epsilon
from tacit.queries import (
    BoundedSum,
    Choice,
    Counts,
    Exponential,
    Is,
    Kernel,
    Moments,
    Plan,
    Steps,
)
from tacit.subsampling import Poisson
from tacit.wall import ledger as ledgers
from tests.conftest import SMOKERS, smoking

BUDGET = tacit.Budget(1, 1e-6)
QUERY = Counts(Is("smoker", "yes"))
FILTERS = ("rdp", "gdp")


def make_wall(path, composition="basic", budget=BUDGET, schema=None):
    schema = schema or smoking()
    return tacit.Wall(SMOKERS, schema, budget=budget, ledger=path, composition=composition)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.ledger"


def charges(path):
    return [entry for entry in tacit.Ledger(path).entries() if entry["kind"] == "charge"]


@pytest.mark.parametrize("composition", FILTERS)
def test_a_hundred_gaussian_releases_have_an_eighth_of_basic_noise(path, composition):
    public = tacit.Public(SMOKERS, smoking())
    basic = public.quote(QUERY, tacit.Gaussian("0.01", 1e-8)).noise[0].scale
    wall = make_wall(path, composition)
    few = tacit.Gaussian(noise_multiplier=basic / 8, delta=1e-8)
    for _ in range(100):
        release = wall.release(QUERY, few)
        assert release.noise[0].scale <= basic / 8 * (1 + 1e-6)
    # Each says what it costs alone, which is more than its share, and the ledger says both.
    assert release.certificate.epsilon > Decimal("0.05")
    chain = tacit.Ledger(path).verify()
    assert chain.spent.within(chain.adds_up.limits(chain.limit))
    assert chain.alone.epsilon == 100 * release.certificate.epsilon
    admitted, why = _until_refused(wall, few)
    assert ("divergence" if composition == "rdp" else "mu squared") in why
    assert len(charges(path)) == 100 + admitted < 150
    admitted, why = _until_refused(make_wall(":memory:"), few)
    assert "requested epsilon" in why
    assert admitted < 20


def _until_refused(wall, mechanism):
    for admitted in range(1000):
        try:
            wall.release(QUERY, mechanism)
        except tacit.OverBudgetError as error:
            return admitted, str(error)
    raise AssertionError("never refused")


def test_composition_is_pinned(path):
    make_wall(path, "gdp")
    for other in ("basic", "rdp"):
        with pytest.raises(tacit.errors.LedgerError, match="created with composition = 'gdp'"):
            make_wall(path, other)
    with pytest.raises(tacit.errors.BudgetError, match='"basic", "rdp" or "gdp"'):
        make_wall(path, "zcdp")
    make_wall(path, "gdp").release(QUERY, tacit.Laplace("0.01"))


@pytest.mark.parametrize("composition", FILTERS)
def test_a_filter_without_a_delta_is_refused_before_there_is_a_ledger(path, composition):
    with pytest.raises(tacit.errors.BudgetError, match="Expected a delta > 0"):
        make_wall(path, composition, tacit.Budget(1))
    assert not path.exists()


def without_composition(monkeypatch):
    """Ledgers as they were made before there was a choice."""
    insert = ledgers._insert

    def older(connection, seq, head, entry):
        if entry["kind"] == "created":
            pins = {k: v for k, v in entry["pins"].items() if k != "composition"}
            entry = {**{k: v for k, v in entry.items() if k != "filter"}, "pins": pins}
        return insert(connection, seq, head, entry)

    monkeypatch.setattr(ledgers, "_insert", older)


def test_a_ledger_that_says_nothing_of_composition_is_basic(path, monkeypatch):
    with monkeypatch.context() as before:
        without_composition(before)
        first = make_wall(path).release(QUERY, tacit.Laplace("0.25"), name="a")
    created = tacit.Ledger(path).entries()[0]
    assert "composition" not in created["pins"]
    assert "filter" not in created
    wall = make_wall(path)
    again = wall.release(QUERY, tacit.Laplace("0.25"), name="a")
    assert again.integers.tolist() == first.integers.tolist()
    assert wall.remaining.epsilon == Decimal("0.75")
    assert tacit.Ledger(path).verify().pins["composition"] == "basic"
    with pytest.raises(tacit.errors.LedgerError, match="created with composition = 'basic'"):
        make_wall(path, "gdp")


@pytest.mark.parametrize("composition", FILTERS)
def test_names_replay_and_leases_are_charged_once(path, composition):
    wall = make_wall(path, composition)
    plan = Plan(Steps(10, tacit.Gaussian(noise_multiplier=40.0), Poisson(0.1)), delta=1e-7)
    for _ in range(2):
        wall.release(QUERY, tacit.Gaussian("0.1", 1e-7), name="count")
        wall.prepay(plan, name="steps")
    one, lease = charges(path)
    assert one["event"]["dominated_by"].keys() == {"gaussian", "grid_loss"}
    assert lease["event"] == {"plan": plan.to_dict()}
    chain = tacit.Ledger(path).verify()
    names = chain.adds_up.names
    for name in names:
        assert chain.spent.by_name[name] == sum(Decimal(each[name]) for each in (one, lease))
    # What an entry says it costs alone is still there.
    assert (one["epsilon"], one["delta"]) == ("0.1", "1E-7")
    assert (lease["delta"], Decimal(lease["epsilon"]) > 0) == ("1E-7", True)


@pytest.mark.parametrize("composition", FILTERS)
def test_what_is_refused_is_not_charged(path, composition):
    wall = make_wall(path, composition)
    for refused in (tacit.Laplace("0.9"), tacit.Gaussian("1.2", 1e-6)):
        with pytest.raises(tacit.OverBudgetError) as caught:
            wall.release(QUERY, refused)
        assert "extra delta" in str(caught.value)
    plan = Plan(Steps(1000, tacit.Gaussian(noise_multiplier=1.0)), delta=1e-7)
    with pytest.raises((tacit.OverBudgetError, tacit.errors.BudgetError)):
        wall.prepay(plan)
    assert charges(path) == []


@pytest.mark.parametrize("composition", ["basic", *FILTERS])
def test_what_remains_is_what_one_more_release_may_cost(path, composition):
    wall = make_wall(path, composition)
    wall.release(QUERY, tacit.Gaussian("0.2", 1e-8))
    left = wall.remaining
    assert 0 < left.epsilon < 1
    with pytest.raises(tacit.OverBudgetError):
        wall.release(QUERY, tacit.Laplace(left.epsilon * Decimal("1.0001")))
    wall.release(QUERY, tacit.Laplace(left.epsilon))
    assert wall.remaining.epsilon < Decimal("0.001")


@pytest.mark.parametrize("composition", FILTERS)
def test_a_raised_budget_keeps_the_order(path, composition):
    wall = make_wall(path, composition)
    wall.release(QUERY, tacit.Gaussian("0.9", 1e-6))
    before = tacit.Ledger(path).read()
    with pytest.raises(tacit.OverBudgetError):
        wall.release(QUERY, tacit.Gaussian("0.9", 1e-6))
    tacit.Ledger(path).raise_budget(tacit.Budget(3, 1e-6), "a second year")
    after = tacit.Ledger(path).verify()
    assert after.adds_up == before.adds_up
    assert after.adds_up.limits(before.limit).within(after.adds_up.limits(after.limit))
    make_wall(path, composition, tacit.Budget(3, 1e-6)).release(QUERY, tacit.Gaussian("0.9", 1e-6))


@pytest.mark.parametrize("composition", FILTERS)
def test_verify_computes_again_what_was_charged(path, composition, monkeypatch):
    make_wall(path, composition)
    other = filters.GaussianFilter if composition == "gdp" else filters.RenyiFilter
    honest = other.cost

    def cheap(self, alone, event):  # a twin that forgets the relation's factor
        cost = honest(self, alone, event)
        return type(cost)({name: amount / 4 for name, amount in cost.by_name.items()})

    with monkeypatch.context() as broken:
        broken.setattr(other, "cost", cheap)
        make_wall(path, composition).release(QUERY, tacit.Gaussian("0.5", 1e-8))
        tacit.Ledger(path).verify()
    with pytest.raises(tacit.errors.LedgerError, match="Entry 2 of the ledger charged less"):
        tacit.Ledger(path).verify()


def test_an_entry_that_gives_back_is_refused(path):
    make_wall(path, "gdp").release(QUERY, tacit.Laplace("0.01"))
    ledger = tacit.Ledger(path)
    chain = ledger.read()
    entry = {**charges(path)[0], "name": None, "mu_squared": "-0.01"}
    with ledger.store.session("", write=True) as session:
        ledgers._insert(session, chain.seq, chain.head, entry)
        session.commit()
    with pytest.raises(tacit.errors.LedgerError, match="broken at entry 3"):
        tacit.Ledger(path).read()


def _spend(path, out):
    wall = make_wall(path, "gdp")
    while True:
        try:
            release = wall.release(QUERY, tacit.Gaussian("0.15", 1e-8))
        except tacit.OverBudgetError:
            return
        with open(out, "ab", buffering=0) as file:
            file.write(f"{release.certificate.ledger.entry}\n".encode())


def test_processes_that_race_to_a_filter_s_cap_never_exceed_it(place, tmp_path):
    make_wall(place, "gdp")
    out = tmp_path / "released"
    out.touch()
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["tacit", "pytest"])
    racers = [context.Process(target=_spend, args=(str(place), str(out))) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(120)
    assert [racer.exitcode for racer in racers] == [0] * 3
    chain = tacit.Ledger(place).verify()
    limits = chain.adds_up.limits(chain.limit)
    each = Decimal(charges(place)[0]["mu_squared"])
    assert chain.spent.by_name["mu_squared"] == each * len(charges(place))  # exact decimals
    assert len(charges(place)) == int(limits.by_name["mu_squared"] / each)  # to the last that fits
    assert sorted(map(int, out.read_text().split())) == [e["entry"] for e in charges(place)]


# What releases record of themselves


def examples():
    table = {"smoker": ["yes", "no"] * 20, "age": [30.0, 50.0] * 20}
    for neighbours in ("replace_one", "add_remove"):
        schema = tacit.Schema(
            tacit.Categorical("smoker", ["no", "yes"], default="no"),
            tacit.Real("age", 0, 100, default=40),
            unit=None,
            neighbours=neighbours,
        )
        public = tacit.Public(table, schema)
        for query in (Counts("smoker"), QUERY, Moments(("age",)), Moments(("age",), degree=1)):
            yield public, query


@pytest.mark.parametrize(("public", "query"), list(examples()))
def test_what_a_gaussian_release_records_has_the_profile_that_it_costs(public, query):
    for mechanism in (
        tacit.Gaussian("0.3", 1e-6),
        tacit.Gaussian("4", 1e-9),
        tacit.Gaussian(noise_multiplier=3.0, delta=1e-5),
    ):
        cost = public.price(query, mechanism)
        event = public.recorded(query, mechanism)
        mu, loss = (event["dominated_by"][name] for name in ("gaussian", "grid_loss"))
        epsilon = gaussian_epsilon(mu, float(cost.delta) * math.exp(-loss)) + 2 * loss
        assert epsilon == pytest.approx(float(cost.epsilon), rel=1e-5)
        if "sensitivity" in event:
            assert event["sensitivity"] / event["scale"] <= mu
        assert json.loads(json.dumps(event)) == event
        assert "dominated_by" not in public.event(query, mechanism)  # names find what they asked


def test_a_pure_release_records_no_more_than_its_epsilon():
    public, query = next(examples())
    assert "dominated_by" not in public.recorded(query, tacit.Laplace(1))


def test_draws_record_the_range_of_each():
    schema = tacit.Schema(
        tacit.Categorical("smoker", ["no", "yes"], default="no"), neighbours="replace_one"
    )
    public = tacit.Public({"smoker": ["no", "yes"]}, schema)
    model = tacit.BetaBernoulli("smoker", success="yes")
    method = tacit.methods.OnePosteriorSample(1, truncation=0.05)
    spending = method.plan(tacit.methods.method.Task(model, schema, None, {}))
    query, once = spending.questions[0], spending.payments[0]
    event = public.recorded(query, once.mechanism)
    cost = public.price(query, once.mechanism)
    known = event["dominated_by"]
    assert known["draws"] * known["bounded_range"] == pytest.approx(float(cost.epsilon), rel=1e-6)
    with_delta = public.recorded(query, Exponential(1, 1e-6))["dominated_by"]
    assert with_delta["bounded_range"] >= known["bounded_range"] * (1 - 1e-9)


@pytest.mark.parametrize("composition", FILTERS)
def test_a_budget_is_not_raised_beyond_what_is_proven(path, composition):
    """There the ledger could not be opened again, and what walls had it open had no limit."""
    wall = make_wall(path, composition)
    for budget in (tacit.Budget(501, 1e-6), tacit.Budget(3000, 1e-6)):
        with pytest.raises(tacit.errors.BudgetError, match="an epsilon of at most 500"):
            tacit.Ledger(path).raise_budget(budget, "more")
    tacit.Ledger(path).raise_budget(tacit.Budget(500, 1e-6), "as much as can be")
    wall.release(QUERY, tacit.Laplace("0.1"))
    assert make_wall(path, composition, tacit.Budget(500, 1e-6)).remaining.epsilon > 1
    basic = path.with_name("basic.ledger")
    make_wall(basic)
    tacit.Ledger(basic).raise_budget(tacit.Budget(501, 1e-6), "sums have no such limit")


@pytest.mark.parametrize("composition", ["basic", *FILTERS])
@pytest.mark.parametrize("clip", [1e-3, 1e-30, 1e-76, 1e-100])
def test_a_release_that_costs_next_to_nothing_leaves_a_whole_ledger(path, composition, clip):
    """A divergence of 1e-152 was written, and is no decimal that a ledger takes back."""
    column = tacit.Categorical("ward", ("a", "b"))
    wall = tacit.Wall(
        {"ward": ["a", "b", "a"]},
        tacit.Schema(column, neighbours="add_remove"),
        budget=BUDGET,
        ledger=path,
        composition=composition,
    )
    given = {"size": 2, "clip": clip, "geometry": "box", "state": (np.eye(2), np.array([0]))}
    scores = BoundedSum(Kernel("table.scores"), "ward", **given)
    wall.release(Choice(scores), Exponential("0.1"))
    chain = tacit.Ledger(path).verify()
    assert min(chain.spent.by_name[name] for name in chain.adds_up.names[:1]) > 0
    assert wall.remaining.epsilon > 0


def test_a_charge_that_could_not_be_read_back_is_not_written(path, monkeypatch):
    wall = make_wall(path, "rdp")
    with monkeypatch.context() as before:
        before.setattr(filters, "_TINIEST", 0.0)
        event = {"dominated_by": {"bounded_range": 1e-90, "draws": 1}}
        with pytest.raises(tacit.errors.BudgetError, match="divergence"):
            tacit.Ledger(path).charge(tacit.Budget("0.1"), event, None, "question")
    assert charges(path) == []
    wall.release(QUERY, tacit.Laplace("0.1"))


@pytest.mark.parametrize("composition", FILTERS)
def test_the_smallest_delta_makes_a_ledger_that_can_be_opened(path, composition):
    budget = tacit.Budget(1, 1e-100)
    make_wall(path, composition, budget).release(QUERY, tacit.Laplace("0.01"))
    assert make_wall(path, composition, budget).remaining.delta == Decimal("1e-101")

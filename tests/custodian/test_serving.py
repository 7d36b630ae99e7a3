"""A real server on loopback: all verbs, refusals as at home, exactly once, the same posteriors."""

import http.client
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from urllib.parse import urlsplit

import numpy as np
import pytest

import tacit
from tacit.custodian.messages import BYTES, JSON, encoded
from tacit.spec.errors import ReplacedError
from tacit.spec.mechanisms import mechanism_to_dict
from tests.custodian.serving import PEOPLE, serving, write_smokers

COUNTS = tacit.queries.Counts("smoker")
MODEL = tacit.BetaBernoulli("smoker", success="yes")


def mean_of(state):
    """A bounded sum: how far ages are from a public number."""
    return tacit.queries.BoundedSum(
        tacit.queries.Kernel("columns.values"),
        "age",
        size=1,
        clip=50.0,
        state=(np.array([float(state)]), np.array([1.0])),
    )


def plan(steps=3, noise=50.0):
    return tacit.queries.Plan(
        tacit.queries.Steps(steps, tacit.Gaussian(noise_multiplier=noise)), delta=1e-6
    )


def raw(server, token, path, body=b"", type_=JSON, **headers):
    """One request as any client could send it: status and body."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    given = {"Authorization": f"Bearer {token}", "Content-Type": type_, **headers}
    connection.request("POST" if body is not None else "GET", path, body, given)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def charges(server, account):
    entries = server.ledger().entries()
    return [e for e in entries if e["kind"] == "charge" and e["name"].startswith(f"{account}/")]


def test_a_wall_far_away_answers_as_one_at_home(server, tmp_path):
    wall = server.wall("far")
    home = tacit.Wall(
        server.path.parent / "smokers.csv",
        wall.schema,
        budget=tacit.Budget(200, 1e-3),
        ledger=tmp_path / "home.ledger",
    )
    assert wall.schema == home.schema
    assert wall.n_units == home.n_units == PEOPLE
    assert wall.remaining.epsilon <= 200
    for mechanism in (tacit.Laplace(0.5), tacit.Gaussian(0.5, 1e-6)):
        assert wall.quote(COUNTS, mechanism) == home.quote(COUNTS, mechanism)
    release = wall.release(COUNTS, tacit.Laplace(1), name="first")
    at_home = home.release(COUNTS, tacit.Laplace(1))
    assert release.blocks == at_home.blocks
    assert release.noise == at_home.noise
    assert release.n == PEOPLE
    assert release.certificate.events == at_home.certificate.events
    assert release.certificate.ledger.ledger == server.ledger().read().ledger
    assert tacit.Release.from_json(release.to_json()) == release
    lease, steps = wall.prepay(plan()), home.prepay(plan())
    assert lease.steps_left == 3
    assert lease.certificate.epsilon == steps.certificate.epsilon
    far, near = lease.release(mean_of(30)), steps.release(mean_of(30))
    assert [block.shape for block in far.blocks] == [block.shape for block in near.blocks]
    assert far.noise == near.noise
    assert lease.steps_left == 2
    left = wall.remaining
    assert left.epsilon == Decimal(200) - 1 - lease.certificate.epsilon
    token = str(wall._line._token)
    assert token not in repr(wall) + repr(vars(wall)) + wall._repr_html_()


@pytest.mark.parametrize(
    "ask",
    [
        lambda wall: wall.release(tacit.queries.Counts("nobody"), tacit.Laplace(1)),
        lambda wall: wall.release(COUNTS, tacit.Exact()),
        lambda wall: wall.release("smoker", tacit.Laplace(1)),
        lambda wall: wall.release(COUNTS, tacit.Laplace(1), name=" "),
        lambda wall: wall.prepay("plan"),
        lambda wall: wall.prepay(
            tacit.queries.Plan(tacit.queries.Steps(2, tacit.Exact()), delta=1e-6)
        ),
        lambda wall: wall.prepay(
            tacit.queries.Plan(
                tacit.queries.Steps(
                    2,
                    tacit.Gaussian(noise_multiplier=50.0),
                    tacit.subsampling.WithoutReplacement(3, 5),
                ),
                delta=1e-6,
            )
        ),
        lambda wall: wall.prepay(plan()).release(COUNTS),
        lambda wall: wall.prepay(plan(), name="same") and wall.prepay(plan(2), name="same"),
        lambda wall: tacit.fit(MODEL, wall, tacit.Laplace(1), draws=-1),
        lambda wall: tacit.fit(MODEL, wall),
    ],
)
def test_refusals_are_those_of_home(server, ask, tmp_path, request):
    names = [each.name for each in server.accounts.listed()]
    home = tacit.Wall(
        server.path.parent / "smokers.csv",
        server.custody.datasets[0].offer.schema,
        budget=tacit.Budget(200, 1e-3),
        ledger=tmp_path / "home.ledger",
    )
    with pytest.raises(tacit.TacitError) as here:
        ask(home)
    with pytest.raises(tacit.TacitError) as there:
        ask(server.wall(f"refused{len(names)}"))
    assert type(there.value) is type(here.value)
    said = [re.sub(r"[\d.]+", "#", str(error.value)) for error in (here, there)]  # what remains
    assert said[0] == said[1]


def test_over_an_allowance_or_the_budget_nothing_is_spent(server):
    wall = server.wall("poor", epsilon=1)
    wall.release(COUNTS, tacit.Laplace("0.75"), name="most")
    with pytest.raises(tacit.OverBudgetError, match=r"epsilon 0\.25, delta 0\.001 of the all"):
        wall.release(COUNTS, tacit.Laplace("0.5"), name="more")
    assert wall.remaining.epsilon == Decimal("0.25")
    rich = server.wall("rich", epsilon=1000)
    with pytest.raises(tacit.OverBudgetError, match="requested epsilon 500"):
        rich.release(COUNTS, tacit.Laplace(500), name="all")
    assert len(charges(server, "poor")) == 1
    assert not charges(server, "rich")
    # What is paid for is answered again even where nothing is left.
    server.accounts.allow("poor", "smokers", tacit.Budget("0.01"))
    assert wall.release(COUNTS, tacit.Laplace("0.75"), name="most").n == PEOPLE


def test_a_name_is_the_key_of_a_request(server):
    """Again: the stored answer, paid once. Another question: a conflict. Another account: free."""
    wall, other = server.wall("key"), server.wall("other")
    first = wall.release(COUNTS, tacit.Laplace(1), name="mine")
    again = wall.release(COUNTS, tacit.Laplace(1), name="mine")
    assert np.array_equal(first.integers, again.integers)
    assert "answered again from the ledger" in again.certificate.assumptions[-1]
    with pytest.raises(tacit.errors.NameTakenError, match="The name 'mine' was used"):
        wall.release(COUNTS, tacit.Laplace(0.5), name="mine")
    token = server.accounts.renew("key")
    facts = {"name": "mine", "query": COUNTS.to_dict()}
    body = encoded({**facts, "mechanism": mechanism_to_dict(tacit.Laplace(0.5))}, JSON)
    status, answer = raw(server, token, "/api/v1/datasets/smokers/release", body)
    assert status == 409
    assert json.loads(answer)["error"] == "NameTakenError"
    other.release(COUNTS, tacit.Laplace(0.5), name="mine")
    assert len(charges(server, "key")) == 1


def test_an_answer_that_nobody_heard_is_not_lost(server):
    """The connection ends after the question was sent: it is answered again and paid once."""
    token = server.token("deaf")
    body = encoded(
        {
            "name": "once",
            "query": COUNTS.to_dict(),
            "mechanism": mechanism_to_dict(tacit.Laplace(1)),
        },
        BYTES,
    )
    for _ in range(3):
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": BYTES}
        connection.request("POST", "/api/v1/datasets/smokers/release", body, headers)
        connection.close()
    wall = tacit.connect(server.url, token)
    release = wall.release(COUNTS, tacit.Laplace(1), name="once")
    assert np.array_equal(
        wall.release(COUNTS, tacit.Laplace(1), name="once").integers, release.integers
    )
    assert len(charges(server, "deaf")) == 1


def test_a_lease_goes_on_from_either_side(server):
    wall = server.wall("loop")
    lease = wall.prepay(plan(4), name="loop")
    began = [lease.release(mean_of(at)).integers.tolist() for at in (10, 20)]
    again = tacit.connect(server.url, server.accounts.renew("loop")).prepay(plan(4), name="loop")
    assert again.steps_left == 4
    assert [again.release(mean_of(at)).integers.tolist() for at in (10, 20)] == began
    with pytest.raises(tacit.errors.NameTakenError, match="The name 'loop' was used"):
        tacit.connect(server.url, server.accounts.renew("loop")).prepay(
            plan(4), name="loop"
        ).release(mean_of(11))
    again = tacit.connect(server.url, server.accounts.renew("loop")).prepay(plan(4), name="loop")
    for at in (10, 20, 30):
        again.release(mean_of(at))
    again.keep_state({"of": ["x"], "state": np.arange(3)}, since=1)
    third = tacit.connect(server.url, server.accounts.renew("loop")).prepay(plan(4), name="loop")
    assert third.release(mean_of(10)).integers.tolist() == began[0]
    with pytest.raises(ReplacedError, match="state after step 3") as told:
        third.release(mean_of(20))
    assert told.value.step == 3
    assert told.value.facts["state"].tolist() == [0, 1, 2]
    assert third.steps_left == 1
    third.release(mean_of(40))
    with pytest.raises(tacit.errors.BudgetError, match="All 4 steps"):
        third.release(mean_of(50))
    assert len(charges(server, "loop")) == 1


def test_fifty_analysts_at_once(tmp_path):
    """All are answered, each pays once, and the ledger is exact."""
    many = 50
    with serving(write_smokers(tmp_path / "many", epsilon=20)) as server:
        tokens = [server.token(f"a{i}", epsilon=1) for i in range(many)]

        def ask(i):
            wall = tacit.connect(server.url, tokens[i])
            release = wall.release(COUNTS, tacit.Laplace("0.25"), name="mine")
            again = wall.release(COUNTS, tacit.Laplace("0.25"), name="mine")
            assert np.array_equal(release.integers, again.integers)
            return release.certificate.ledger.entry

        with ThreadPoolExecutor(many) as pool:
            entries = list(pool.map(ask, range(many)))
        assert len(set(entries)) == many
        chain = server.ledger().verify()
        assert chain.spent.by_name == {"epsilon": Decimal("12.5"), "delta": Decimal(0)}
        assert len(chain.answers) == many
        # Thirty more fit, and the others are refused: no overdraft.
        outcomes = []

        def more(i):
            wall = tacit.connect(server.url, tokens[i])
            try:
                outcomes.append(wall.release(COUNTS, tacit.Laplace("0.25"), name="more").n)
            except tacit.OverBudgetError:
                outcomes.append("refused")

        with ThreadPoolExecutor(many) as pool:
            list(pool.map(more, range(many)))
        assert (outcomes.count(PEOPLE), outcomes.count("refused")) == (30, 20)
        assert server.ledger().verify().left.epsilon == 0


def logistic():
    return tacit.LogisticRegression("smoker", ["age"]), tacit.Budget(2, 1e-6)


@pytest.mark.parametrize("case", ["statistics", "logistic"])
def test_the_posterior_is_that_of_home_for_the_same_answers(server, case, tmp_path):
    """Fitted far away, and at home from a copy of the server's ledger: the same draws."""
    model, how = (MODEL, tacit.Laplace(1)) if case == "statistics" else logistic()
    options = {"draws": 200, "chains": 2, "seed": 3}
    far = tacit.fit(model, server.wall(f"fit-{case}"), how, name="it", **options)
    for name in ("smokers.ledger", "smokers.ledger.answers"):
        if (server.path.parent / name).exists():
            shutil.copy(server.path.parent / name, tmp_path / name)
    home = tacit.Wall(
        server.path.parent / "smokers.csv",
        far.releases[0].schema,
        budget=tacit.Budget(200, 1e-3),
        ledger=tmp_path / "smokers.ledger",
    )
    before = home.remaining
    near = tacit.fit(model, home, how, name=f"fit-{case}/it", **options)
    assert home.remaining == before
    for name, draws in far.draws.items():
        assert np.array_equal(draws, near.draws[name])

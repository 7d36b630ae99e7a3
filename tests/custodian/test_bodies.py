"""Bodies that nobody meant: each is refused in a sentence, at once, and spends nothing."""

import http.client
import json
import time
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tacit
from tacit.custodian.messages import BYTES, JSON, VERBS, encoded
from tacit.spec.errors import FileError
from tacit.spec.mechanisms import mechanism_to_dict
from tacit.spec.wire import from_bytes, to_bytes
from tests.custodian.serving import serving, write_smokers
from tests.custodian.test_serving import COUNTS, mean_of, plan, raw

FAST = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
GOOD = {
    "describe": {},
    "units": {},
    "quote": {"query": COUNTS.to_dict(), "mechanism": mechanism_to_dict(tacit.Laplace(1))},
    "price": {"plan": plan().to_dict()},
    "release": {
        "name": "n",
        "query": COUNTS.to_dict(),
        "mechanism": mechanism_to_dict(tacit.Laplace(1)),
    },
    "prepay": {"name": "n", "plan": plan().to_dict()},
    "step": {"name": "n", "step": 0, "query": mean_of(1).to_dict()},
    "state": {"name": "n", "step": 1, "since": 0, "facts": {"a": 1}},
    "ledger": {},
    "charges": {},
    "stored": {"name": "n"},
    "approve": {"question": "0" * 64, "cost": {"epsilon": "1", "delta": "0"}, "reason": "r"},
    "verify": {"mark": None},
}
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    """A server, and an account whose allowance is spent."""
    path = write_smokers(tmp_path_factory.mktemp("poor"))
    path.write_text(path.read_text().replace("port = 0", "port = 0\nrequests_per_minute = 1000000"))
    with serving(path) as server:
        token = server.token("ana", epsilon=0.001)
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        yield server, token, connection
        connection.close()
        assert not [e for e in server.ledger().entries() if e["kind"] == "charge"]


def refused(poor, verb, body, type_=JSON):
    """The status, after checking that the answer is one of Tacit's and comes at once."""
    server, token, connection = poor
    began = time.monotonic()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": type_}
    connection.request("POST", f"/api/v1/datasets/smokers/{verb}", body, headers)
    response = connection.getresponse()
    answer = response.read()
    assert time.monotonic() - began < 30
    assert response.status < 500, answer
    assert b"Traceback" not in answer
    assert str(server.path.parent).encode() not in answer
    facts = json.loads(answer)
    if response.status != 200:
        assert facts["message"].endswith(".")
        assert issubclass(getattr(tacit.errors, facts["error"]), tacit.TacitError)
    return response.status


def changed(facts, data):
    """The facts with one part taken away, or replaced by something else."""
    if isinstance(facts, dict) and facts and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(facts)))
        if data.draw(st.integers(0, 9)) == 0:
            return {k: v for k, v in facts.items() if k != key}
        return {**facts, key: changed(facts[key], data)}
    if isinstance(facts, list) and facts and data.draw(st.integers(0, 3)):
        place = data.draw(st.integers(0, len(facts) - 1))
        return [changed(v, data) if i == place else v for i, v in enumerate(facts)]
    return data.draw(plain)


def test_every_verb_has_an_example():
    assert set(GOOD) == set(VERBS)


@FAST
@given(verb=st.sampled_from(sorted(VERBS)), data=st.data())
def test_bodies_that_are_nearly_right(poor, verb, data):
    facts = changed(json.loads(encoded(GOOD[verb], JSON)), data)
    refused(poor, verb, json.dumps(facts).encode())


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    """A server, and an account that has paid for a lease of many steps."""
    path = write_smokers(tmp_path_factory.mktemp("rich"))
    path.write_text(path.read_text().replace("port = 0", "port = 0\nrequests_per_minute = 1000000"))
    with serving(path) as server:
        token = server.token("ana")
        wall = tacit.connect(f"{server.url}/smokers", token)
        wall.prepay(plan(100), name="n").release(mean_of(1))
        server.accounts.allow("ana", "smokers", tacit.Budget("1e-6"))
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
        yield server, token, connection
        connection.close()
        # Nobody who asks strangely stops a data set, or pays for it.
        assert len([e for e in server.ledger().entries() if e["kind"] == "charge"]) == 1
        assert server.accounts.stopped("smokers") is None
        server.accounts.allow("ana", "smokers", tacit.Budget(100, "1e-3"))
        assert wall.release(COUNTS, tacit.Laplace("1e-7")).n == 400


@FAST
@given(verb=st.sampled_from(["step", "state", "prepay", "release"]), data=st.data())
def test_bodies_about_a_lease_that_is_paid_for(rich, verb, data):
    facts = changed(json.loads(encoded(GOOD[verb], JSON)), data)
    refused(rich, verb, json.dumps(facts).encode())


@FAST
@given(verb=st.sampled_from(sorted(VERBS)), body=st.binary(max_size=200))
def test_bodies_that_are_noise(poor, verb, body):
    assert refused(poor, verb, body) in (400, 403) or not VERBS[verb].fields
    refused(poor, verb, to_bytes({"a": np.arange(5)})[: len(body)] + body, BYTES)


@FAST
@given(data=st.data())
def test_facts_in_bytes_are_refused_or_read(data):
    """Whatever was changed in them: FileError, or facts whose arrays are within the body."""
    whole = bytearray(to_bytes({"a": np.arange(400), "b": [np.zeros((3, 2)), "text"], "c": 1.5}))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, min(200, len(whole) - 1)))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for body in (whole, whole[:cut], whole + whole[:cut]):
        try:
            found = from_bytes(body)
        except FileError:
            continue
        arrays = [x for x in found.values() if isinstance(x, np.ndarray)]
        assert sum(x.size for x in arrays) <= len(whole)


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"array": "<i8", "shape": [10**9]}},
        {"a": {"array": "<i8", "shape": [-1]}},
        {"a": {"array": "<i8", "shape": [True]}},
        {"a": {"array": "|O", "shape": [1]}},
        {"a": {"array": "|V8", "shape": [1]}},
        {"a": {"array": "i4,i4", "shape": [1]}},
        {"a": {"array": "<f8", "as": "<i8", "shape": [1]}},
        {"a": {"array": "<i1", "as": "<f8", "shape": [8]}},
        {"a": {"array": "<i8", "shape": 8}},
        {"a": {"array": "<i8"}},
        {"a": [{"array": "<i8", "shape": [1]}, {"array": "<i8", "shape": [1]}]},
    ],
)
def test_arrays_that_are_not_there_are_refused(header):
    text = json.dumps(header).encode()
    body = b"\x93tc1" + len(text).to_bytes(4, "little") + text + bytes(8)
    with pytest.raises(FileError, match="as Tacit writes them"):
        from_bytes(body)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(-3, 3),
        np.array(300),
        np.zeros((0, 4)),
        np.array([2**40, -1]),
        np.array([2**63, 1], np.uint64),
        np.arange(6).reshape(2, 3)[:, ::2],
        np.array([True, False]),
        np.array([np.inf, np.nan, -0.0]),
        np.arange(5, dtype=">i4"),
        np.ones(2, np.complex64),
        np.arange(4, dtype=np.float32),
    ],
)
def test_arrays_cross_as_they_are(array):
    (found,) = from_bytes(to_bytes([array]))
    assert found.dtype == array.dtype.newbyteorder("=")
    assert found.shape == array.shape
    assert found.tobytes() == array.astype(found.dtype).tobytes()
    found[...] = 0  # a copy of its own


def test_small_integers_are_small():
    assert len(to_bytes(np.full(10_000, 7))) < 10_100
    assert len(to_bytes(np.full(10_000, -30_000))) < 20_100


def test_sizes_and_rates_are_limited(tmp_path):
    path = write_smokers(tmp_path, "limits = { body = 1 }")
    path.write_text(path.read_text().replace("port = 0", "port = 0\nrequests_per_minute = 30"))
    with serving(path) as server:
        token = server.token("ana")
        address = "/api/v1/datasets/smokers/release"
        status, answer = raw(server, token, address, b" " * (2**20 + 1))
        assert (status, json.loads(answer)["error"]) == (413, "QueryError")
        assert raw(server, token, address, b"{}", "text/plain")[0] == 415
        statuses = [raw(server, token, address, b"{}")[0] for _ in range(40)]
        assert statuses[0] == 400
        assert statuses[-1] == 429
        assert raw(server, server.token("bo"), address, b"{}")[0] == 400  # others go on
        wrong = [raw(server, "tacit_0_0", address, b"{}")[0] for _ in range(70)]
        assert (wrong[0], wrong[-1]) == (401, 429)


def test_the_description_holds(poor):
    """What the OpenAPI description says is what the server does, by schemathesis."""
    schemathesis = pytest.importorskip("schemathesis")
    server, token, _ = poor
    described = schemathesis.openapi.from_url(f"{server.url}/api/v1/openapi.json")
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) >= len(VERBS)

    @FAST
    @given(data=st.data())
    def holds(data):
        case = data.draw(data.draw(st.sampled_from(operations)).as_strategy())
        case.call_and_validate(headers={"Authorization": f"Bearer {token}"})

    holds()

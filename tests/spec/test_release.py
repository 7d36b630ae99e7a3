import json

import numpy as np
import pytest

import tacit
from tacit import Release
from tacit.errors import FileError
from tests.conftest import SMOKERS, smoking


@pytest.fixture(params=["laplace", "gaussian"])
def release(request, wall):
    how = tacit.Laplace(0.5) if request.param == "laplace" else tacit.Gaussian(0.5, 1e-6)
    return wall.release(tacit.queries.Counts(tacit.queries.Is("smoker", "yes")), how)


@pytest.mark.parametrize("name", ["one.release", "one.json", "one.npz"])
def test_round_trip(release, tmp_path, name):
    release = release.suggesting({"model": "BetaBernoulli", "column": "smoker", "success": "yes"})
    release.save(tmp_path / name)
    again = Release.load(tmp_path / name)
    assert again == release
    assert again.integers.dtype == np.int64
    assert again.certificate == release.certificate
    np.testing.assert_array_equal(again.value, release.value)


def test_integers_are_exact_in_json(release):
    facts = release.to_dict()
    facts["integers"] = [2**62 + 1] * len(release.integers)
    assert Release.from_json(json.dumps(facts)).integers[0] == 2**62 + 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: f.pop("noise"),
        lambda f: f.update(format="other/9"),
        lambda f: f.update(integers=[1]),
        lambda f: f.update(integers=["a", "b", "c"]),
        lambda f: f["certificate"].pop("epsilon"),
        lambda f: f["query"].update(type="Everything"),
    ],
)
def test_a_damaged_release_is_refused(release, damage):
    facts = release.to_dict()
    damage(facts)
    with pytest.raises(tacit.TacitError):
        Release.from_json(json.dumps(facts))


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"PK\x03\x04 not a zip", b"\xff\xfe"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.release"
    path.write_bytes(content)
    with pytest.raises(FileError):
        Release.load(path)
    with pytest.raises(FileError, match="Cannot read"):
        Release.load(tmp_path / "nowhere")


def test_tables_are_found_by_name():
    schema = tacit.Schema(
        tacit.Categorical("smoker", ["no", "yes"]),
        tacit.Integer("age", 18, 20),
        neighbours="add_remove",
    )
    public = tacit.Public(SMOKERS, schema)
    release = public.release(tacit.queries.Counts(["smoker", "age"]), tacit.Exact())
    assert release.table("age").value.tolist() == [0, 1, 0, 7]
    assert release.table("smoker").value.tolist() == [5, 2, 1]
    with pytest.raises(tacit.errors.QueryError, match="no table 'sex'"):
        release.table("sex")


def test_certificates_speak(release):
    text = str(release.certificate)
    assert "0.5" in text
    assert "one row" in text
    assert "ledger entry" in text
    assert smoking().protects == "one row"

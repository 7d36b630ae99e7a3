import json

import arviz as az
import numpy as np
import pytest

import tacit
from tacit.posterior import load_arviz
from tacit.posterior.inference_data import pareto_weights
from tacit.posterior.table import Table
from tests.conftest import SMOKERS, smoking


@pytest.fixture
def posterior(wall):
    model = tacit.BetaBernoulli("smoker", success="yes")
    return tacit.fit(model, wall, tacit.Laplace(0.5), draws=500, chains=2, seed=1)


@pytest.fixture
def several(wall):
    return tacit.fit(tacit.DirichletCategorical("smoker"), wall, tacit.Laplace(0.5), seed=1)


def test_summary_mean_interval_and_sample_agree(posterior, several):
    low, high = posterior.interval(0.9)
    row = posterior.summary().loc["p"]
    assert (row["mean"], row["5%"], row["95%"]) == (posterior.mean(), low, high)
    assert isinstance(low, float)
    assert posterior.sample(7).shape == (7,)
    assert several.sample(7).shape == (7, 2)
    assert list(several.summary().index[:2]) == ["p[no]", "p[yes]"]
    low, high = several.interval(0.5)
    assert low.shape == (2,)
    assert np.all((several.sample(4000) >= low).mean(axis=0) > 0.7)
    assert posterior.mean("rows") <= 8


def test_smoothed_weights_keep_the_order_of_their_ratios_in_either_arviz():
    ratio = np.random.default_rng(1).normal(size=2000)
    weights, k = pareto_weights(ratio)
    assert np.corrcoef(weights, ratio)[0, 1] > 0.99
    assert k < 0.7
    assert pareto_weights(1e4 * ratio)[1] > 0.7


def test_an_hdi_is_the_narrowest_interval(several):
    for level in (0.5, 0.9):
        (low, high), (first, last) = several.interval(level), several.interval(level, kind="hdi")
        assert np.all(last - first <= high - low)
        draws = several.flat()
        assert np.all(((first <= draws) & (draws <= last)).mean(axis=0) >= level)
    summary = several.summary(0.9, kind="hdi")
    assert list(summary.columns[:4]) == ["mean", "sd", "hdi_5%", "hdi_95%"]
    with pytest.raises(tacit.errors.ModelError, match='"central" or "hdi"'):
        several.interval(kind="eti")


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.interval(1.0),
        lambda p: p.interval(0),
        lambda p: p.sample(0),
        lambda p: p.sample(10**6),
        lambda p: p.mean("theta"),
    ],
)
def test_bad_requests_are_refused(posterior, call):
    with pytest.raises(tacit.errors.ModelError):
        call(posterior)


def test_arviz_gets_draws_and_privacy_facts(posterior, several):
    data = several.to_arviz()
    assert data["posterior"]["p"].dims == ("chain", "draw", "smoker")
    assert list(data["posterior"]["smoker"].values) == ["no", "yes"]
    assert data["posterior"].attrs["epsilon"] == "0.5"
    assert data["posterior"].attrs["neighbours"] == "replace_one"
    assert json.loads(data.attrs["certificate"])["ledger"]["entry"] > 1
    released = data["observed_data"]["released_smoker"]
    assert list(released.coords["released_smoker_smoker"].values) == ["no", "yes", "(missing)"]
    assert az.summary(posterior.to_arviz()).loc["p", "mean"] == pytest.approx(
        posterior.mean(), abs=1e-2
    )


def test_save_and_load(posterior, several, tmp_path):
    for one in (posterior, several):
        one.save(tmp_path / "p.nc")
        again = tacit.Posterior.load(tmp_path / "p.nc")
        assert again.summary().equals(one.summary())
        assert again.certificate == one.certificate
        assert again.releases == one.releases
        assert (again.model, again.coords, again.noise) == (one.model, one.coords, one.noise)
        assert repr(again) == repr(one)
    az.from_netcdf(str(tmp_path / "p.nc"))
    for content in (b"", b"nonsense"):
        (tmp_path / "bad.nc").write_bytes(content)
        with pytest.raises(tacit.errors.FileError):
            tacit.Posterior.load(tmp_path / "bad.nc")
    with pytest.raises(tacit.errors.FileError):
        tacit.Posterior.load(tmp_path / "none.nc")


def test_a_table_is_what_pandas_shows_and_writes(posterior, several, tmp_path):
    for one in (posterior, several):
        table, frame = one.table(), one.summary()
        assert [label for label, _ in table.rows()] == list(frame.index)
        np.testing.assert_array_equal([row for _, row in table.rows()], frame.to_numpy())
        table.to_csv(tmp_path / "t.csv")
        frame.to_csv(tmp_path / "f.csv")
        assert (tmp_path / "t.csv").read_bytes() == (tmp_path / "f.csv").read_bytes()
    parts = [(["a,b", 'c"d'], {"mean": np.array([1.0, 2.0])}), (["e"], {"sd": np.array([0.1])})]
    table = Table.of(parts, {})
    table.to_csv(tmp_path / "t.csv")
    table.frame().to_csv(tmp_path / "f.csv")
    assert (tmp_path / "t.csv").read_bytes() == (tmp_path / "f.csv").read_bytes()
    assert "e,,0.1" in (tmp_path / "t.csv").read_text()


def test_a_canary_in_the_data_is_in_no_artefact(tmp_path):
    canary = "canary-7f3a9"
    data = {key: np.append(value, canary) for key, value in SMOKERS.items()}
    schema = tacit.Schema(
        tacit.Categorical("smoker", ["no", "yes"]),
        tacit.Integer("age", 0, 120),
        unit="who",
        max_rows_per_unit=2,
        neighbours="replace_one",
    )
    wall = tacit.Wall(data, schema, budget=tacit.Budget(9), ledger=tmp_path / "x.ledger")
    model = tacit.BetaBernoulli("smoker", success="yes")
    posterior = tacit.fit(model, wall, tacit.Laplace(1), name="a")
    posterior.save(tmp_path / "p.nc")
    (release,) = posterior.releases
    release.save(tmp_path / "r.json")
    release.save(tmp_path / "r.npz")
    (tmp_path / "c.json").write_text(posterior.certificate.to_json())
    (tmp_path / "repr").write_text(f"{wall!r} {posterior!r} {release!r} {posterior.summary()}")
    written = list(tmp_path.iterdir())
    assert len(written) >= 6
    for path in written:
        assert canary.encode() not in path.read_bytes(), path.name


def test_the_repr_says_how_private(posterior):
    assert (
        repr(posterior) == "Posterior(BetaBernoulli, 2 x 500 draws, private: epsilon 0.5, delta 0)"
    )
    model = tacit.BetaBernoulli("smoker", success="yes")
    public = tacit.fit(model, tacit.Public(SMOKERS, smoking()), tacit.Exact())
    assert "public data" in repr(public)


def test_a_file_is_what_arviz_is_given(tmp_path):
    """Labels that are numbers, texts and truth values, and missing ones, are there as in ArviZ."""
    arviz = load_arviz()
    described = tacit.Schema(
        tacit.Categorical("code", [1, 2]),
        tacit.Categorical("ill", [False, True]),
        tacit.Categorical("ward", ["a", "b"]),
        neighbours="replace_one",
    )
    rows = {"code": [1, 2, 9] * 9, "ill": [True, False, None] * 9, "ward": ["a", "b", "?"] * 9}
    public = tacit.Public(rows, described, seed=1)
    model = tacit.BayesNet({"ill": ["code"], "ward": ["ill"], "code": []})
    posterior = tacit.fit(model, public, tacit.Laplace(1), draws=20, chains=2, seed=1)
    posterior.save(tmp_path / "p.nc")
    made, read = posterior.to_arviz(), arviz.from_netcdf(str(tmp_path / "p.nc"), engine="h5netcdf")
    one, other = groups_of(made), groups_of(read)
    assert set(one) == set(other)
    for group, dataset in one.items():
        assert dataset.drop_attrs().identical(other[group].drop_attrs()), group


@pytest.mark.parametrize("names", [("chain", "draw"), ("draw", "p"), ("p", "a/b"), ("a/b", "c/d")])
def test_columns_may_be_called_anything(names, tmp_path):
    """Also as ArviZ calls dimensions, or with a slash, which NetCDF and ArviZ 1.x do not take."""
    one, other = names
    levels = (tacit.Categorical(one, ["x", "y/z"]), tacit.Categorical(other, ["1", "2"]))
    schema = tacit.Schema(*levels, tacit.Real("v", 0, 1), neighbours="replace_one")
    rows = {one: ["x", "y/z"] * 9, other: ["1", "2", "2"] * 6, "v": [0.1, 0.5] * 9}
    public = tacit.Public(rows, schema, seed=1)
    for model in (
        tacit.DirichletCategorical(one),
        tacit.BayesNet({one: [other]}),
        tacit.LinearRegression("v", [one, other]),
    ):
        posterior = tacit.fit(model, public, tacit.Laplace(1), draws=20, chains=2, seed=1)
        path = tmp_path / f"{type(model).__name__}.nc"  # ArviZ keeps what it reads open
        posterior.save(path)
        again = tacit.Posterior.load(path)
        assert (again.dims, again.coords) == (posterior.dims, posterior.coords)
        assert again.summary().equals(posterior.summary())
        assert {k: v.tolist() for k, v in again.predicted.items()} == {
            k: v.tolist() for k, v in posterior.predicted.items()
        }
        read = groups_of(load_arviz().from_netcdf(str(path), engine="h5netcdf"))
        made = groups_of(posterior.to_arviz())
        for group in (
            ("posterior", "posterior_predictive") if posterior.predicted else ("posterior",)
        ):
            assert made[group].drop_attrs().identical(read[group].drop_attrs()), group


def groups_of(data):
    """The data sets of InferenceData (ArviZ 0.2x) or of a DataTree (1.x)."""
    if hasattr(data, "children"):
        return {name: child.to_dataset() for name, child in data.children.items()}
    return {name: data[name] for name in data.groups()}

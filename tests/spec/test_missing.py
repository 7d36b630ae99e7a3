"""What a release says of rows without a value, from its own noisy numbers."""

import numpy as np
import pytest

import tacit
from tacit.spec.missing import Missing, Rows, missing, rows_of, warnings_of
from tacit.testing import simulated_release

Q = tacit.queries
SMOKER, BMI = tacit.Categorical("smoker", ["no", "yes"]), tacit.Real("bmi", 10, 60)


def schema(*columns, **options):
    return tacit.Schema(*columns, **({"neighbours": "replace_one"} | options))


def released(data, described, query, how=None, seed=0):
    return tacit.Public(data, described, seed=seed).release(query, how or tacit.Exact())


def test_without_noise_the_share_is_exact():
    data = {"smoker": ["no"] * 6 + ["?"] * 4, "bmi": [20.0] * 8 + [99.0] * 2}
    for neighbours in ("replace_one", "add_remove"):
        described = schema(SMOKER, BMI, neighbours=neighbours)
        (share,) = missing(released(data, described, Q.Counts("smoker")))
        assert share.share == pytest.approx(0.4)
        assert share.low == pytest.approx(0.4, abs=2e-3) == share.high
    (share,) = missing(released(data, schema(BMI), Q.Moments("bmi")))
    assert (share.share, share.low, share.high) == (pytest.approx(0.2),) * 3
    assert not share.much  # a fifth is not more than a fifth


def test_tables_of_several_columns_count_a_row_once():
    data = {"a": ["x", "?", "x", "?"] * 5, "b": ["x", "x", "?", "?"] * 5}
    described = schema(tacit.Categorical("a", ["x"]), tacit.Categorical("b", ["x"]))
    (share,) = missing(released(data, described, Q.Counts([("a", "b")])))
    assert share.columns == ("a", "b")
    assert share.share == 0.75
    assert str(share).startswith("about 75.0% of rows (75.0% to 75.0%) have no value in 'a' or 'b'")
    two = missing(released(data, described, Q.Counts(["a", "b"])))
    assert [each.columns for each in two] == [("a",), ("b",)]


@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize("law", [tacit.Laplace(0.05), tacit.Gaussian(0.05, 1e-6)])
def test_intervals_hold_the_share_nine_times_in_ten(rows, neighbours, law):
    """400 releases each: fewer than 325 hits have probability below 1e-6 at a coverage of 0.9."""
    rng = np.random.default_rng(0)
    n = 3000
    data = {"smoker": np.where(rng.random(n) < 0.3, "?", "no"), "who": np.arange(n) // (rows or 1)}
    options = {} if rows is None else {"unit": "who", "max_rows_per_unit": rows}
    described = schema(SMOKER, neighbours=neighbours, **options)
    truth = float(np.mean(data["smoker"] == "?"))
    query, units = Q.Counts("smoker"), n // (rows or 1)
    counts = released(data, described, query).value  # read once, and noised as often as released
    releases = [simulated_release(described, query, law, counts, units, seed=i) for i in range(400)]
    found = [missing(release)[0] for release in releases]
    assert sum(each.low <= truth <= each.high for each in found) >= 325
    assert np.mean([each.high - each.low for each in found]) < 0.6  # and they say something


def test_of_moments_only_what_is_known_is_said():
    n = 3000
    data = {"bmi": np.where(np.arange(n) % 3 == 0, 99.0, 25.0), "who": np.arange(n) // 3}
    how = tacit.Laplace(1)
    (one,) = missing(released(data, schema(BMI), Q.Moments("bmi"), how))
    assert 0.32 < one.low < one.share < one.high < 0.35
    assert one.much
    grouped = schema(BMI, unit="who", max_rows_per_unit=3)
    (several,) = missing(released(data, grouped, Q.Moments("bmi"), how))
    assert several.low == 0  # each of the 1,000 units might have had two rows
    assert several.share is None
    assert 1 / 3 <= several.high < 0.4
    (hidden,) = missing(released(data, schema(BMI, neighbours="add_remove"), Q.Moments("bmi"), how))
    assert hidden.low is None
    assert "was not measured" in str(hidden)


def test_no_more_rows_have_a_value_than_there_are():
    n, described = 1000, schema(tacit.Categorical("ill", [False, True]), BMI)
    data = {"ill": [True, False] * (n // 2), "bmi": [25.0] * n}
    above = 0
    for seed in range(40):
        public = tacit.Public(data, described, seed=seed)
        release = public.release(Q.Moments("bmi"), tacit.Laplace(0.2))
        posterior = tacit.NormalModel("bmi").posterior(release, draws=10, chains=1)
        above += rows_of(release).estimate > n + 5
        assert posterior.rows.estimate <= n
        assert posterior.rows.estimate == min(rows_of(release).estimate, n)
        (lacking,) = release.missing()
        assert "0.0% (0.0% to 0.0%)" not in str(lacking)
    assert above > 5  # by noise of sd 14
    assert str(Missing(("a",), 0.0, 0.0, 2e-4)) == (
        "hardly any rows (less than 0.1%) have no value in 'a'"
    )
    assert str(Rows(2310.2, 140.3)) == "about 2,310 (noise of sd 140)"


def test_what_a_default_swallowed_is_not_known_and_said():
    described = schema(tacit.Categorical("fbs", [False, True], default=False))
    release = released({"fbs": ["?"] * 9 + ["1"]}, described, Q.Counts("fbs"))
    (words,) = release.missing()
    assert words.low is None
    assert "count as False (default=): how many is not known" in str(words)
    assert str(rows_of(release)) == "10"
    posterior = tacit.BetaBernoulli("fbs", success=True).posterior(release, draws=10)
    assert str(words) in posterior.certificate.assumptions
    assert posterior.warnings == ()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_small_tables_have_answers_too(n):
    data = {"smoker": ["?"] * n, "bmi": [99.0] * n}
    for neighbours in ("replace_one", "add_remove"):
        described = schema(SMOKER, BMI, neighbours=neighbours)
        for query in (Q.Counts("smoker"), Q.Moments("bmi")):
            for seed in range(20):
                for each in missing(released(data, described, query, tacit.Laplace(0.1), seed)):
                    assert each.low is None or 0 <= each.low <= each.high <= 1
                    assert str(each)


def test_a_wrong_coding_warns_on_posterior_certificate_and_summary():
    """A level typo gave p = 0.003 where 0.21 is true, without a word."""
    data = {"smoker": ["no"] * 790 + ["Yes"] * 210}
    public = tacit.Public(data, schema(SMOKER), seed=1)
    model = tacit.BetaBernoulli("smoker", success="yes")
    posterior = tacit.fit(model, public, tacit.Laplace(1), draws=50, seed=1)
    (warning,) = posterior.warnings
    assert "have no value in 'smoker'" in warning
    assert f"warning: {warning}" in posterior.certificate.assumptions
    assert "rows" in posterior.summary().index
    assert posterior.summary().attrs["missing"][0].startswith("about 21")
    right = tacit.Public({"smoker": ["no"] * 790 + ["yes"] * 210}, schema(SMOKER), seed=1)
    assert tacit.fit(model, right, tacit.Laplace(1), draws=50, seed=1).warnings == ()


def test_what_was_not_measured_says_so():
    described = schema(tacit.Categorical("died", ["no", "yes"]), BMI)
    public = tacit.Public({"died": ["no", "yes"] * 50, "bmi": [20.0] * 100}, described, seed=1)
    how = tacit.OnePosteriorSample(1, truncation=0.05)
    summary = tacit.fit(tacit.BetaBernoulli("died", success="yes"), public, how, seed=1).summary()
    assert summary.attrs["rows"] == "not measured"
    assert "was not measured" in summary.attrs["missing"][0]


def test_pilot_queries_say_when_they_counted_few_rows(tmp_path):
    """A logistic regression on 0/1 against yes and no: coefficients of noise, and now a warning."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    died = rng.random(500) < 1 / (1 + np.exp(-x))
    columns = tacit.Categorical("died", ["no", "yes"]), tacit.Real("x", -4, 4)
    found = []
    for cells in (np.where(died, "yes", "no"), died.astype(int)):
        public = tacit.Public({"died": cells, "x": x}, schema(*columns), seed=1)
        how = tacit.PrivateNewton(2, 1e-6)
        posterior = tacit.fit(
            tacit.LogisticRegression("died", ["x"]), public, how, draws=20, seed=1
        )
        found.append([text for text in posterior.warnings if "counted about" in text])
        (row,) = posterior.summary().loc[["rows"]].to_numpy()
        assert abs(row[0] - (500 if len(found) == 1 else 0)) < 6 * row[1] + 1
        posterior.save(tmp_path / "p.nc")
        assert tacit.Posterior.load(tmp_path / "p.nc").rows == posterior.rows
    assert found[0] == []
    assert "rows of 500 units" in found[1][0]


def test_a_level_that_a_default_may_have_swallowed_is_suspected():
    """A misspelt level is counted as noise alone; one that is there, however rare, is not."""
    data = {"fbs": ["no"] * 1800 + ["yes"] * 200, "sex": ["f", "m"] * 1000}
    model = tacit.BetaBernoulli
    misspelt = tacit.Categorical("fbs", ["no", "Yes"], default="no")
    public = tacit.Public(data, schema(misspelt, tacit.Categorical("sex", ["f", "m"])), seed=0)
    posterior = tacit.fit(model("fbs", success="Yes"), public, tacit.Laplace(1))
    (said,) = posterior.warnings
    assert "hardly a row has 'Yes' in 'fbs'" in said
    assert "default='no' takes every cell" in said
    crossed = tacit.Public(data, public.schema, seed=0).release(
        Q.Counts([("sex", "fbs")]), tacit.Laplace(1)
    )
    assert "hardly a row has 'Yes'" in warnings_of(crossed)[0]
    right = tacit.Categorical("fbs", ["no", "yes"], default="no")
    for seed in range(20):  # 10% of rows: 200, with noise of sd 2.8
        release = released(data, schema(right), Q.Counts("fbs"), tacit.Laplace(1), seed)
        assert not warnings_of(release)


def test_many_levels_in_much_noise_are_seldom_suspected():
    """50 levels of 2%, with noise that hides 1%: at most 5% of releases warn.

    With an interval for each level alone 119 of 200 did. More than 20 of 200 at a rate of 5%
    happen with probability .001.
    """
    levels = [f"level {i}" for i in range(50)]
    column = tacit.Categorical("x", levels, default=levels[0])
    data, how = {"x": levels * 40}, tacit.Laplace("0.1")
    warned = 0
    for seed in range(200):
        release = tacit.Public(data, schema(column), seed=seed).release(Q.Counts("x"), how)
        warned += any("hardly" in said for said in warnings_of(release))
    assert warned <= 20


def test_a_table_without_rows_is_said_to_have_none():
    (said,) = warnings_of(released({"smoker": []}, schema(SMOKER), Q.Counts("smoker")))
    assert "the table has no rows" in said

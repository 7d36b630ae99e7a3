"""Tables that a regression predicts for, and options that a posterior refuses."""

import pytest

import tacit

SCHEMA = tacit.Schema(
    tacit.Categorical("sex", ["f", "m"]), tacit.Integer("age", 17, 90), neighbours="replace_one"
)


def test_levels_are_read_as_in_the_data_and_others_are_refused(tmp_path):
    data = {"sex": ["f", "m"] * 300, "age": [30, 50] * 300}
    public = tacit.Public(data, SCHEMA, seed=0)
    posterior = tacit.fit(tacit.LinearRegression("age", ["sex"]), public, tacit.Exact(), draws=50)
    assert posterior.predict({"sex": ["m", "f"]}) == pytest.approx([50, 30], abs=2)
    with pytest.raises(tacit.TacitError, match="Expected a level of 'sex'"):
        posterior.predict({"sex": ["m", None]})
    with pytest.raises(tacit.TacitError, match="level='90%'"):
        posterior.interval("90%")
    with pytest.raises(tacit.TacitError, match="there is no folder"):
        posterior.save(tmp_path / "nowhere" / "x.nc")
    with pytest.raises(tacit.TacitError, match="by name"):
        tacit.report.write(tmp_path / "r.html", [posterior])
    with pytest.raises(tacit.TacitError, match="Expected log_prior to be a function"):
        tacit.with_prior(posterior, 3)

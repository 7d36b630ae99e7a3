import math
from decimal import Decimal

import pandas as pd
import pytest

import tacit
from tacit.cli.opening import opened
from tacit.datasets import STUDY, hospital_incidents
from tacit.study.file import Study, fit_release, release_analysis


def load(tmp_path, text: str) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return Study.load(path)


def test_the_demos_study_is_read_whole(tmp_path):
    study = load(tmp_path, STUDY)
    assert study.source == tmp_path / "incidents.csv"
    assert study.schema.unit == "patient"
    assert study.schema["month"] == tacit.Time("month", "2025-01", "2025-12")
    assert study.budget == tacit.Budget(1.0, 1e-6)
    harm, kind = study.analyses
    assert harm.how == tacit.Laplace(Decimal("0.4"))
    assert kind.how == tacit.Budget(0.5, 1e-6)
    assert kind.model == tacit.DirichletCategorical("kind")
    assert study.analysis("harm") is harm


def test_numbers_are_the_decimals_that_were_written(tmp_path):
    study = load(tmp_path, STUDY.replace("epsilon = 0.4", "epsilon = 0.1"))
    assert study.analyses[0].how.epsilon == Decimal("0.1")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[data]", "[date]", "did you mean data"),
        ('levels = ["no", "yes"]', 'level = ["no", "yes"]', "did you mean levels"),
        ('model = "BetaBernoulli"', 'model = "BetaBernouli"', "did you mean BetaBernoulli"),
        ('model = "BetaBernoulli"', "", "Analysis 'harm': Expected a model; there are"),
        ('model = "BetaBernoulli"', 'model = "BetaBernoulli"\ndraws = -5', "draws=-5"),
        ('ledger = "incidents.ledger"', "", "Expected 'ledger' in [data]"),
        ("[budget]\nepsilon = 1.0", "[budget]", "Expected 'epsilon' in [budget]"),
        ("epsilon = 1.0", "epsilon = -1.0", "Expected epsilon=-1.0 > 0"),
        ("epsilon = 1.0", "epsilon = nan", "finite"),
        ("delta = 1e-6\n", "delta = 1e-6\ngamma = 2\n", "Unknown 'gamma' in [budget]"),
        ('neighbours = "replace_one"', "", "neighbours"),
        ('type = "time"', 'type = "tme"', "type"),
        (', start = "2025-01"', "", "public bounds for column 'month'"),
        ('{ name = "harm", type', '{ nme = "harm", type', "name for each column"),
        ('levels = ["no", "yes"] }', 'levels = ["no", "yes"], colour = 1 }', "colour"),
        ('model = "BetaBernoulli"', 'model = "Oracle"', "Unknown model 'Oracle'"),
        ('success = "yes"\n', "", "success"),
        ('success = "yes"\n', 'success = "yes"\nshade = 1\n', "shade"),
        ("how = { mechanism", "hoe = { mechanism", "how to spend"),
        ('"Laplace", epsilon = 0.4', '"Cauchy", epsilon = 0.4', "Unknown mechanism 'Cauchy'"),
        ('"Laplace", epsilon = 0.4', '"Laplace", eps = 0.4', "does not take eps"),
        ('"Laplace", epsilon = 0.4', '"Laplace", epsilon = 0', "> 0"),
        ('name = "kind"\nmodel', 'name = "harm"\nmodel', "own name"),
        ('name = "kind"\nmodel', 'name = "../kind"\nmodel', "simple name"),
        ("[output]", "[output", "TOML"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, says):
    assert old in STUDY
    with pytest.raises(tacit.TacitError) as caught:
        load(tmp_path, STUDY.replace(old, new, 1))
    assert says in str(caught.value)


def test_a_study_needs_analyses_and_a_file(tmp_path):
    with pytest.raises(tacit.errors.StudyError, match="Cannot read"):
        Study.load(tmp_path / "none.toml")
    with pytest.raises(tacit.errors.StudyError, match="No analysis 'x'"):
        load(tmp_path, STUDY).analysis("x")
    with pytest.raises(tacit.errors.StudyError, match="at least one"):
        load(tmp_path, "analysis = []\n" + STUDY.split("[[analysis]]")[0])


def test_a_release_without_a_model_cannot_be_fitted_blindly(wall):
    with pytest.raises(tacit.errors.StudyError, match="which model"):
        fit_release(wall.release(tacit.queries.Counts("smoker"), tacit.Laplace(0.1)))


def test_a_study_can_ask_for_one_posterior_sample(tmp_path):
    how = '{ method = "OnePosteriorSample", epsilon = 0.4, truncation = 0.05 }'
    text = STUDY.replace('{ mechanism = "Laplace", epsilon = 0.4 }', how)
    assert text != STUDY
    study = load(tmp_path, text)
    assert study.analyses[0].how == tacit.OnePosteriorSample(Decimal("0.4"), truncation=0.05)
    with pytest.raises(tacit.errors.StudyError, match="Unknown method 'Oracle'"):
        load(tmp_path, text.replace("OnePosteriorSample", "Oracle"))
    table = pd.DataFrame(hospital_incidents(patients=200, seed=1).table)
    table.to_csv(study.source, index=False)
    public = tacit.Public(study.source, study.schema, seed=1)
    release = release_analysis(study.analyses[0], public)
    assert release.query.law.truncation == 0.05
    assert fit_release(release, seed=1, draws=100).model["model"] == "BetaBernoulli"


FREE = """
[data]
source = "bmi.csv"
ledger = "bmi.ledger"

[schema]
neighbours = "replace_one"
columns = [{ name = "bmi", type = "real", low = 10, high = 60, default = 25 }]

[budget]
epsilon = 1.0
delta = 1e-6

[[analysis]]
name = "bmi"
model = "NormalMean"
column = "bmi"
sd = 4
how = { method = "OnePosteriorSample", epsilon = 1, delta = 1e-6, truncation = [-inf, inf] }
"""


def test_a_study_can_ask_for_a_draw_without_bounds(tmp_path):
    study = load(tmp_path, FREE)
    (analysis,) = study.analyses
    assert analysis.how.truncation == (-math.inf, math.inf)
    pd.DataFrame({"bmi": [20.0, 31.5, 24.0]}).to_csv(study.source, index=False)
    release = release_analysis(analysis, tacit.Public(study.source, study.schema, seed=1))
    release.save(tmp_path / "r.json")
    loaded = tacit.Release.load(tmp_path / "r.json")
    assert loaded.query.law.low == -math.inf
    assert fit_release(loaded, seed=1, draws=100).model["model"] == "NormalMean"
    half = load(tmp_path, FREE.replace("[-inf, inf]", "[0, inf]"))
    with pytest.raises(tacit.errors.ModelError, match="not one of each"):
        release_analysis(half.analyses[0], tacit.Public(study.source, study.schema, seed=1))


def test_a_study_names_its_workers(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("tacit.sources.loaded.Workers", started.append)
    here, there = (
        load(tmp_path, FREE),
        load(tmp_path, FREE.replace("\n\n[schema]", "\nworkers = 2\n\n[schema]")),
    )
    pd.DataFrame({"bmi": [20.0]}).to_csv(here.source, index=False)
    assert (here.workers, there.workers) == (None, 2)
    opened(here)
    assert started == []
    opened(there)
    assert started == [2]


def test_a_budget_is_written_without_a_name(tmp_path):
    text = STUDY.replace('{ mechanism = "Laplace", epsilon = 0.4 }', '{ method = "Budget" }')
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(tacit.TacitError, match=r"without a name: how = \{ epsilon = 1"):
        Study.load(tmp_path / "study.toml")

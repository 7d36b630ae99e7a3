"""What every method keeps, for every model it suits: a study is planned, paid once and replayed.

A new method joins by being listed in METHODS and given an example here.
"""

import json
import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.methods import METHODS, Statistics, suits
from tacit.posterior import describe
from tacit.study.file import Study
from tests.contracts.test_models import EXAMPLES, STEPWISE, schema, table

HOWS = {
    "Statistics": 'mechanism = "Laplace", epsilon = 1',
    "OnePosteriorSample": 'method = "OnePosteriorSample", epsilon = 1, delta = 1e-6, draws = 2',
    "PrivateGibbs": 'method = "PrivateGibbs", epsilon = 4, truncation = 0.2, sweeps = 4',
    "PrivateMetropolis": 'method = "PrivateMetropolis", epsilon = 1, delta = 1e-6, steps = 20',
    "AnnealedImportance": (
        'method = "AnnealedImportance", epsilon = 2, delta = 1e-6, runs = 3, temperatures = 2, '
        'weights = "noise"'
    ),
    "SGLD": (
        'method = "SGLD", epsilon = 1, delta = 1e-6, steps = 12, '
        'sampling = { subsampling = "Poisson", rate = 0.5 }'
    ),
    "SGHMC": 'method = "SGHMC", epsilon = 1, delta = 1e-6, steps = 12, friction = 0.2',
    "SGNHT": (
        'method = "SGNHT", epsilon = 1, delta = 1e-6, steps = 12, '
        'step_size = { schedule = "Polynomial", a = 1e-5, gamma = 0.6 }'
    ),
    "SGFS": 'method = "SGFS", epsilon = 1, delta = 1e-6, steps = 12, blocks = 3',
    "Hybrid": (
        'method = "Hybrid", first = { method = "OnePosteriorSample", epsilon = 1, delta = 1e-6 }, '
        'then = { method = "SGNHT", epsilon = 1, delta = 1e-6, steps = 10 }'
    ),
    "PrivateNewton": 'method = "PrivateNewton", epsilon = 1, delta = 1e-6',
    "RidgeNewton": 'method = "RidgeNewton", epsilon = 1, delta = 1e-6, steps = 4',
    "DPVI": 'method = "DPVI", epsilon = 1, delta = 1e-6, steps = 12, guide = "mean_field"',
    "ObjectivePerturbation": 'method = "ObjectivePerturbation", epsilon = 1, delta = 1e-6',
    "OutputPerturbation": 'method = "OutputPerturbation", epsilon = 1, delta = 1e-6',
    "VIPS": (
        'method = "VIPS", epsilon = 1, delta = 1e-6, steps = 2, '
        'sampling = { subsampling = "Poisson", rate = 0.5 }'
    ),
}
TRUNCATED = {  # a draw of these models must be told where it may lie
    "BetaBernoulli": 0.05, "DirichletCategorical": 0.05, "LinearRegression": 3,
    "HMM": 0.1, "NaiveBayes": 0.05, "BayesNet": 0.05, "MarkovRandomField": 0.05,
}  # fmt: skip
# What a draw of these models takes as known, or cannot leave out.
DRAWN = {"LinearRegression": {"prior_sd": 1.0}, "HMM": {"held_out": []}}
MODELS = {**EXAMPLES, **STEPWISE}
PAIRS = [
    (method.__name__, name)
    for method in METHODS
    for name, model in MODELS.items()
    if suits(method, model) and name != "LDA"
]
# Each draw is a step of inference, or a chain of its own; other methods pay for theirs.
FEW_DRAWS = {
    *(("Statistics", name) for name in MODELS),
    ("OnePosteriorSample", "LinearRegression"),
}


def test_every_method_and_model_is_here():
    assert set(HOWS) == {method.__name__ for method in METHODS}
    assert {method for method, _ in PAIRS} == set(HOWS)


def toml(value):
    match value:
        case dict():
            return "{ " + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + " }"
        case tuple() | list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case _:
            return json.dumps(value)


def column(facts):
    return {k: v for k, v in facts.items() if v is not None}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("methods") / "rows.csv"
    pd.DataFrame(table(400)).to_csv(path, index=False)
    return path


def write(folder, data, method, name):
    how = HOWS[method]
    if "OnePosteriorSample" in how and name in TRUNCATED:
        how = how.replace("delta = 1e-6", f"delta = 1e-6, truncation = {TRUNCATED[name]}", 1)
    described = schema("replace_one").to_dict()
    columns = [column({**c, "type": c["type"]}) for c in described["columns"]]
    model = {k: v for k, v in describe(MODELS[name]).items() if v is not None}
    if method in ("OnePosteriorSample", "PrivateGibbs"):
        model = {**model, **DRAWN.get(name, {})}
    path = folder / "study.toml"
    lines = [
        f'data = {{ source = {json.dumps(str(data))}, ledger = "l.ledger" }}',
        "budget = { epsilon = 20, delta = 1e-3 }",
        f'schema = {{ neighbours = "replace_one", columns = {toml(columns)} }}',
        "[[analysis]]",
        'name = "it"',
        f"how = {{ {how} }}",
        *(["draws = 100", "chains = 1"] if (method, name) in FEW_DRAWS else []),
        *(f"{key} = {toml(value)}" for key, value in model.items()),
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(("method", "name"), PAIRS)
def test_a_study_plans_pays_once_and_is_replayed(method, name, data, tmp_path):
    path = write(tmp_path, data, method, name)
    (analysis,) = Study.load(path).analyses
    planned = tacit.plan(analysis.model, schema("replace_one"), analysis.how, n_units=400)
    runner = CliRunner()
    for _ in range(2):
        result = runner.invoke(app, ["run", str(path)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        charges = [
            e for e in tacit.Ledger(tmp_path / "l.ledger").entries() if e["kind"] == "charge"
        ]
        assert sum(float(e["epsilon"]) for e in charges) == pytest.approx(
            float(planned.cost.epsilon), rel=1e-9
        )
    summary = pd.read_csv(tmp_path / "results" / "study" / "it" / "summary.csv", index_col=0)
    known = summary.drop(columns=["ess", "r_hat"], errors="ignore")  # unknown of a few draws
    if method in ("ObjectivePerturbation", "OutputPerturbation"):  # points
        assert summary.drop(columns="mean").isna().to_numpy().all()
        known = summary[["mean"]]
    assert known.notna().to_numpy().all()
    assert "epsilon" in str(planned)
    assert planned.tiers[0] == "statistics"
    assert asdict(planned)["steps"] >= 1


# The statistics of these take a minute, and tests/contracts/test_models.py asks for their draws.
QUICK = [p for p in PAIRS if p not in (("Statistics", "HMM"), ("Statistics", "MarkovRandomField"))]


@pytest.mark.parametrize(("method", "name"), QUICK)
def test_draws_and_chains_are_honoured_or_refused_before_anything_is_paid(
    method, name, data, tmp_path
):
    (analysis,) = Study.load(write(tmp_path, data, method, name)).analyses
    public = tacit.Public(str(data), schema("replace_one"), seed=1)
    options = {"draws": 30, "chains": 2, "seed": 1, "progress": False}
    try:
        posterior = tacit.fit(analysis.model, public, analysis.how, **options)
    except tacit.errors.ModelError as error:
        refusal = str(error)
    else:
        assert {draws.shape[:2] for draws in posterior.draws.values()} == {(2, 30)}
        return
    assert re.match(r"Expected no draws= beside \w+: its draws are those that are paid", refusal)


@pytest.mark.parametrize(("method", "name"), [p for p in QUICK if p[0] != "Statistics"])
def test_another_prior_works_or_is_refused_in_one_sentence(method, name, data, tmp_path):
    (analysis,) = Study.load(write(tmp_path, data, method, name)).analyses
    public = tacit.Public(str(data), schema("replace_one"), seed=1)
    posterior = tacit.fit(analysis.model, public, analysis.how, seed=1, progress=False)
    main = next(iter(posterior.draws))
    try:
        again = tacit.with_prior(posterior, lambda draws: np.zeros(len(draws[main])), seed=1)
    except tacit.errors.ModelError as error:
        refusal = str(error)
    else:
        assert np.isfinite(again.summary()).all(axis=None)
        return
    assert re.fullmatch(r"Expected [^.]*(k (inf|[\d.]+) > 0\.7\)[^.]*)?\.", refusal)


def test_options_are_those_of_the_constructor(data, tmp_path):
    path = write(tmp_path, data, "SGLD", "LogisticRegression")
    text = path.read_text()
    path.write_text(text.replace("steps = 12", "stepz = 12"))
    with pytest.raises(
        tacit.errors.StudyError, match="SGLD does not take stepz; it may have epsilon, "
    ):
        Study.load(path)
    path.write_text(text.replace('method = "SGLD"', 'method = "Sgld"'))
    with pytest.raises(
        tacit.errors.StudyError, match=r"Unknown method 'Sgld'.*there are AnnealedImportance"
    ):
        Study.load(path)


def test_statistics_are_written_as_a_mechanism():
    assert Statistics in METHODS

"""Study files whose data are on a server, by the command line; and rehearsals of its wall."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.custodian.rehearsal import synthetic
from tests.custodian.serving import PEOPLE
from tests.custodian.test_serving import COUNTS, MODEL, mean_of, plan

STUDY = """
[data]
server = "{url}"
dataset = "smokers"

[[analysis]]
name = "share"
model = "BetaBernoulli"
column = "smoker"
success = "yes"
how = {{ mechanism = "Laplace", epsilon = 0.5 }}

[[analysis]]
name = "ages"
model = "NormalMean"
column = "age"
sd = 17.0
how = {{ mechanism = "Gaussian", epsilon = 0.5, delta = 1e-6 }}
"""


@pytest.fixture
def study(server, tmp_path, monkeypatch, request):
    """A study file, and its account's token in the environment."""
    name = f"study{len(server.accounts.listed())}"
    monkeypatch.setenv("TACIT_TOKEN", server.token(name, epsilon=1.2))
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(url=server.url))
    return path


def run(*words):
    result = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(result.exception, tacit.TacitError):
        raise result.exception
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_a_study_runs_through_a_server_as_at_home(server, study):
    assert "To pay now: epsilon 1" in run("plan", study)
    assert "A dry run: nothing was spent" in run("run", study, "--dry-run")
    printed = run("run", study)
    assert "To pay now: epsilon 1" in printed
    results = study.parent / "results" / "study"
    for name in ("share", "ages"):
        certificate = json.loads((results / name / "certificate.json").read_text())
        assert certificate["ledger"]["ledger"] == server.ledger().read().ledger
    page = (results / "report.html").read_text()
    assert "Results from smokers" in page
    again = run("run", study)
    assert again.count("a stored answer of 20") == 2
    first = tacit.Release.load(results / "share" / "release.json")
    assert first.n == PEOPLE
    run("release", study, "-o", study.parent / "again.release", "--analysis", "share")
    replayed = tacit.Release.load(study.parent / "again.release")
    assert np.array_equal(replayed.integers, first.integers)


def test_what_cannot_be_paid_as_a_whole_is_refused_before_any_of_it(server, study):
    before = server.ledger().read().seq
    study.write_text(study.read_text().replace("epsilon = 0.5 }", "epsilon = 0.9 }"))
    with pytest.raises(tacit.OverBudgetError, match="of your allowance"):
        run("run", study)
    with pytest.raises(tacit.OverBudgetError, match="of your allowance"):
        run("run", study, "--dry-run")
    assert server.ledger().read().seq == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('dataset = "smokers"', "", "Expected 'dataset' in .data. with a server"),
        ('dataset = "smokers"', 'dataset = "x"\nledger = "y"', "Unknown 'ledger' in .data. with"),
        ("[[analysis]]", "[budget]\nepsilon = 1\n\n[[analysis]]", "Unknown 'budget' in the study"),
        ('dataset = "smokers"', 'dataset = "other"', "no data set 'other'"),
    ],
)
def test_the_terms_are_the_custodians(study, old, new, says):
    study.write_text(study.read_text().replace(old, new, 1))
    with pytest.raises(tacit.TacitError, match=says):
        run("plan", study)


def test_who_has_no_records_does_not_check_or_compare_them(study):
    with pytest.raises(tacit.errors.StudyError, match="its custodian checks them"):
        run("check", study, "--quiet")
    with pytest.raises(tacit.errors.StudyError, match="nothing without noise"):
        run("run", study, "--public")


def test_a_rehearsal_spends_nothing_and_says_so(server):
    wall = server.wall("rehearser")
    before = server.ledger().read().seq
    stage = wall.rehearsal(units=500)
    assert stage.schema == wall.schema
    posterior = tacit.fit(MODEL, stage, tacit.Laplace(0.5), name="smoking", draws=100, seed=1)
    assert posterior.certificate.data == "rehearsal"
    assert str(posterior.certificate).startswith("rehearsal: synthetic rows")
    assert "rehearsal" in repr(posterior.releases[0])
    lease = stage.prepay(plan(), name="loop")
    assert lease.certificate.data == "rehearsal"
    assert lease.release(mean_of(10)).certificate.data == "rehearsal"
    assert lease.steps_left == 2
    with pytest.raises(tacit.OverBudgetError):
        stage.release(COUNTS, tacit.Laplace(5000))
    assert server.ledger().read().seq == before
    assert not wall.ask("ledger")["claims"]
    wall.release(COUNTS, tacit.Laplace(0.1), name="smoking")  # the name is as free as before


def test_synthetic_rows_are_in_the_domains():
    schema = tacit.Schema(
        tacit.Categorical("a", ["x", "y"]),
        tacit.Integer("b", -2, 2),
        tacit.Real("c", 1, 3),
        tacit.Time("d", "2020-01", "2020-05"),
        tacit.Tokens("e", ["one", "two"], max_length=4),
        unit="who",
        max_rows_per_unit=2,
        neighbours="replace_one",
    )
    rows = synthetic(schema, 200, seed=3)
    public = tacit.Public(rows, schema)
    assert public.n_units == 200
    counts = public.release(tacit.queries.Counts(["a", "b", "d"]), tacit.Exact())
    for name in ("a", "b", "d"):
        value = counts.table(name).value
        assert value[:-1].min() > 0
        assert value[-1] == 0  # nothing is missing
    assert set(" ".join(rows["e"]).split()) == {"one", "two"}

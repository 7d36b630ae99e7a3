"""The command line as a person uses it: the real program, its output and its exit code."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import main
from tacit.datasets import write_demo


def program(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = Path(sys.executable).parent / "tacit"
    return subprocess.run(
        [path, *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False
    )


@pytest.fixture
def run(monkeypatch, capfd):
    """The same in this process: what it printed, after checking how it ended."""

    def call(*words: str | Path, ok: bool = True) -> str:
        monkeypatch.setattr(sys, "argv", ["tacit", *map(str, words)])
        with pytest.raises(SystemExit) as done:
            main()
        out, err = capfd.readouterr()
        assert (done.value.code in (0, None)) is ok, out + err
        return out if ok else err

    return call


@pytest.fixture
def folder(tmp_path) -> Path:
    write_demo(tmp_path)
    return tmp_path


def test_version_and_help(run):
    assert run("--version").strip() == f"tacit {tacit.__version__}"
    for words in (["--help"], ["ledger", "--help"], ["fit", "--help"]):
        assert "Usage" in run(*words)


def test_the_program_itself(tmp_path):
    """Installed, started as a person would, once for a story and once for a refusal."""
    done = program("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    for words in ("truth", "p[medication]", "differential privacy", "Budget left", "rows"):
        assert words in done.stdout
    results = tmp_path / "tacit-demo" / "results" / "study" / "harm"
    assert sorted(p.name for p in results.iterdir()) == [
        "certificate.json",
        "posterior.nc",
        "release.json",
        "summary.csv",
    ]
    # Forty standard deviations: it says that the numbers are about the truth, not how well.
    row = pd.read_csv(results / "summary.csv", index_col=0).loc["p"]
    assert abs(row["mean"] - 0.18) < 40 * row["sd"]
    done = program("run", "elsewhere.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: Cannot read elsewhere.toml: No such file or directory.\n"


def test_the_demo_can_be_run_again_but_not_over_other_files(run, tmp_path):
    for _ in range(2):
        assert "Budget left" in run("demo", "--folder", tmp_path / "demo")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    assert "not empty" in run("demo", "--folder", tmp_path / "mine", ok=False)


def test_run_replays_and_the_ledger_shows_it(run, folder):
    first = run("run", folder / "study.toml")
    again = run("run", folder / "study.toml")
    assert "epsilon 0.1" in first
    assert "epsilon 0.1" in again
    shown = run("ledger", "show", folder / "incidents.ledger")
    assert shown.count("charge") == 2
    assert "Left:   epsilon 0.1" in shown
    certificate = folder / "results" / "study" / "kind" / "certificate.json"
    verified = run("ledger", "verify", folder / "incidents.ledger", "--against", certificate)
    assert "is in it" in verified


def test_custodian_and_analyst_share_only_a_file(run, folder, tmp_path):
    release = tmp_path / "q1.release"
    study = folder / "study.toml"
    assert "--analysis" in run("release", study, "-o", release, ok=False)
    assert "Nothing was spent" in run(
        "release", study, "-o", tmp_path / "no" / "x", "--analysis", "harm", ok=False
    )
    assert "(0.4, 0)" in run("release", study, "-o", release, "--analysis", "harm")
    for private in ("incidents.csv", "incidents.ledger"):
        (folder / private).unlink()
    out = run("fit", release, "-o", tmp_path / "out", "--seed", 1)
    assert "p" in out
    assert (tmp_path / "out" / "posterior.nc").exists()
    sceptical = run("fit", release, "--prior", "[1, 10000]", "--noise", "aware", "--draws", 100)
    assert sceptical != out
    assert "JSON" in run("fit", release, "--prior", "[1,", ok=False)
    assert "prior" in run("fit", release, "--prior", "[0, 1]", ok=False)
    assert "Cannot read" in run("fit", tmp_path / "none.release", ok=False)


def test_refusals_are_one_sentence(run, folder):
    """Over budget, a changed schema, an unreadable path, a corrupt ledger: exit 1, no traceback."""
    study = folder / "study.toml"
    text = study.read_text()
    run("run", study)

    study.write_text(text.replace('name = "harm"\nmodel', 'name = "again"\nmodel'))
    said = run("run", study, ok=False)
    assert said.startswith(
        "error: Over budget: requested epsilon 0.4, delta 0, remaining epsilon 0.1"
    )
    assert "No data were read" in said
    assert len(said.splitlines()) == 1

    study.write_text(text.replace('["no", "yes"]', '["no", "yes", "maybe"]'))
    assert "schema" in run("run", study, ok=False)

    study.write_text(text.replace("incidents.csv", "elsewhere.csv"))
    assert "No such file" in run("run", study, ok=False)

    study.write_text(text.replace('column = "kind"', 'column = "type"'))
    assert "No column 'type'" in run("run", study, ok=False)

    study.write_text(text.replace('name = "kind", type', 'name = "species", type'))
    (folder / "incidents.ledger").rename(folder / "kept")
    assert "no column 'species'" in run("run", study, ok=False)

    study.write_text(text)
    (folder / "incidents.ledger").write_bytes(b"garbage")
    assert "not a ledger" in run("run", study, ok=False)
    assert "not a ledger" in run("ledger", "show", folder / "incidents.ledger", ok=False)
    assert "not a ledger" in run("ledger", "show", folder / "nowhere.ledger", ok=False)


def test_a_table_of_nonsense_is_a_wide_posterior(run, folder):
    (folder / "incidents.csv").write_bytes(b"patient,harm,kind,month\n\xff,,7,soon\n,,,\n")
    out = run("run", folder / "study.toml")
    assert "Budget left" in out
    row = pd.read_csv(folder / "results" / "study" / "harm" / "summary.csv", index_col=0).loc["p"]
    assert row["sd"] > 0.2


def test_verify_and_raise(run, folder, tmp_path):
    ledger = folder / "incidents.ledger"
    run("run", folder / "study.toml")
    assert "The chain of 5 entries holds" in run("ledger", "verify", ledger)
    certificate = folder / "results" / "study" / "kind" / "certificate.json"
    facts = json.loads(certificate.read_text())
    facts["ledger"]["head"] = "0" * 64
    other = tmp_path / "other.json"
    other.write_text(json.dumps(facts))
    assert "cut, rolled back" in run("ledger", "verify", ledger, "--against", other, ok=False)
    facts["ledger"] = None
    other.write_text(json.dumps(facts))
    assert "public data" in run("ledger", "verify", ledger, "--against", other, ok=False)
    assert "Cannot read" in run("ledger", "verify", ledger, "--against", tmp_path / "x", ok=False)
    for text in ("{}", "[]", "7", "[" * 100_000, '{"ledger": 7}', "9" * 5000):
        other.write_text(text)
        assert "certificate" in run("ledger", "verify", ledger, "--against", other, ok=False)
    said = run("ledger", "raise", ledger, "--epsilon", "2", "--delta", "1e-6", "--reason", "board")
    assert "epsilon 2" in said
    assert "raised" in run("ledger", "show", ledger)


def test_a_study_of_a_regression_is_replayed_too(run, tmp_path):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 90, 400).round()
    ill = np.where(rng.random(400) < age / 100, "yes", "no")
    pd.DataFrame({"age": age, "ill": ill}).to_csv(tmp_path / "visits.csv", index=False)
    (tmp_path / "study.toml").write_text(
        """
        data = {source = "visits.csv", ledger = "visits.ledger"}
        budget = {epsilon = 1, delta = 1e-5}
        [schema]
        neighbours = "replace_one"
        columns = [
            {name = "age", type = "Real", low = 20, high = 90},
            {name = "ill", type = "Categorical", levels = ["no", "yes"]},
        ]
        [[analysis]]
        name = "illness"
        model = "LogisticRegression"
        target = "ill"
        features = ["age"]
        how = {epsilon = 1, delta = 1e-6}
        """
    )
    study = tmp_path / "study.toml"
    for _ in range(2):
        assert "coef[age]" in run("run", study)
    shown = run("ledger", "show", tmp_path / "visits.ledger")
    assert shown.count("charge") == 1
    assert "9 steps" in shown
    assert "tacit run" in run("release", study, "-o", tmp_path / "q.release", ok=False)

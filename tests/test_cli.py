"""The command line as a person uses it: the real program, its output and its exit code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.cli import main
from tacit.datasets import write_demo
from tacit.study.file import Study


def program(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = Path(sys.executable).parent / "tacit"
    return subprocess.run(
        [path, *map(str, words)], capture_output=True, text=True, cwd=cwd, check=False
    )


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
    page = (folder / "results" / "study" / "report.html").read_text()
    assert "What share of the rows has harm = yes?" in page
    assert "epsilon = 0.9 in total" in page
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


def test_help_imports_next_to_nothing():
    """What a command needs is imported when it runs: `tacit --help` takes no second."""
    code = (
        "import sys, tacit.cli\n"
        "heavy = {'numpy', 'scipy', 'pandas', 'numba', 'arviz', 'jax', 'matplotlib', 'pyarrow'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


HEAVY = (
    *("jax", "numpyro", "arviz", "xarray", "pandas", "matplotlib.pyplot"),
    *("scipy.optimize", "scipy.interpolate", "scipy.signal", "scipy.stats", "scipy.spatial"),
    *("ibis", "duckdb", "pyspark", "opendp", "dp_accounting", "formulaic"),
)
REPLAY = """
import gc, sys
from tacit.cli import main
sys.argv = ["tacit", "run", "study.toml"]
try:
    main()
except SystemExit as done:
    assert not done.code
from numba.core.dispatcher import Dispatcher
compiled = [each for each in gc.get_objects() if isinstance(each, Dispatcher)]
print("IMPORTED", sorted(set(%r) & set(sys.modules)))
print("COMPILED", [each.__name__ for each in compiled if sum(each.stats.cache_misses.values())])
"""


@pytest.mark.parametrize(
    "analysis",
    [
        'model = "LogisticRegression", target = "a", features = ["b", "age"]',
        'model = "NaiveBayesMixture", features = ["a", "b"], n_components = 2',
    ],
)
def test_a_replay_imports_and_compiles_little(run, tmp_path, analysis):
    """A stored answer takes its page and its files: without these it is there in half the time."""
    rng = np.random.default_rng(0)
    table = {name: rng.choice(["no", "yes"], 300) for name in ("a", "b")}
    table |= {"who": np.arange(300), "age": rng.integers(20, 90, 300)}
    pd.DataFrame(table).to_csv(tmp_path / "visits.csv", index=False)
    study = tmp_path / "study.toml"
    study.write_text(
        f"""
        data = {{source = "visits.csv", ledger = "visits.ledger"}}
        budget = {{epsilon = 1, delta = 1e-5}}
        analysis = [{{name = "asked", {analysis}, how = {{epsilon = 1, delta = 1e-6}}}}]
        [schema]
        unit = "who"
        max_rows_per_unit = 1
        neighbours = "replace_one"
        columns = [
            {{name = "age", type = "real", low = 20, high = 90}},
            {{name = "a", type = "categorical", levels = ["no", "yes"]}},
            {{name = "b", type = "categorical", levels = ["no", "yes"]}},
        ]
        """
    )
    run("run", study)
    written = tmp_path / "results" / "study"
    first = {path: path.read_bytes() for path in written.rglob("summary.csv")}
    (written / "report.html").unlink()
    done = subprocess.run(
        [sys.executable, "-c", REPLAY % (HEAVY,)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert "asked: a stored answer" in done.stdout, done.stderr
    assert "IMPORTED []" in done.stdout
    assert "COMPILED []" in done.stdout
    assert first == {path: path.read_bytes() for path in written.rglob("summary.csv")} != {}
    assert (written / "report.html").read_text().count("<svg") >= 2


def charges(folder):
    entries = tacit.Ledger(folder / "incidents.ledger").entries()
    return [entry["name"] for entry in entries if entry["kind"] == "charge"]


def test_a_mistake_in_the_last_analysis_costs_nothing(run, folder):
    study = folder / "study.toml"
    text = study.read_text()
    for old, new, says in (
        ('column = "kind"', 'column = "kinds"', "Analysis 'kind': No column 'kinds'"),
        ('column = "kind"', 'column = "kind"\nprior = [1, 2]', "Expected 4 numbers in prior"),
        ("{ epsilon = 0.5,", "{ epsilon = 0.7,", "Over budget: requested epsilon 1.1"),
    ):
        assert old in text
        study.write_text(text.replace(old, new))
        for words in (["run", study], ["run", study, "--dry-run"]):
            said = run(*words, ok=False)
            assert says in said
            assert re.search(r"[Nn]othing was|no budget was spent", said), said
    assert charges(folder) == []
    study.write_text(text)
    run("run", study, "--analysis", "harm")
    assert charges(folder) == ["harm"]
    # Under the same name another question: found before the other analysis is paid for.
    study.write_text(text.replace('success = "yes"', 'success = "no"'))
    assert "'harm' was used for a different question" in run("run", study, ok=False)
    assert charges(folder) == ["harm"]


def test_a_study_file_may_begin_with_a_mark_and_a_path_at_home(run, folder, monkeypatch):
    """As editors on Windows write it, and as people write paths."""
    study = folder / "study.toml"
    text = study.read_text(encoding="utf-8")
    study.write_text(text, encoding="utf-8-sig")
    assert "A dry run" in run("run", study, "--dry-run")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    moved = text.replace('"incidents.csv"', '"~/incidents.csv"')
    assert moved != text
    study.write_text(moved, encoding="utf-8")
    assert "A dry run" in run("run", study, "--dry-run")
    study.write_text(text, encoding="utf-16")
    assert "its text is not UTF-8. Save it as UTF-8" in run("run", study, "--dry-run", ok=False)


def test_files_in_the_place_of_others_are_told_apart(run, folder):
    table = folder / "incidents.csv"
    assert f"tacit init {table} writes a study file" in run("run", table, ok=False)
    run("run", folder / "study.toml")
    results = folder / "results" / "study" / "harm"
    for wrong in ("posterior.nc", "summary.csv", "certificate.json"):
        said = run("fit", results / wrong, ok=False)
        assert "release.json" in said, wrong
    slip = (folder / "study.toml").read_text().replace('{ name = "harm"', '{ nmae = "harm"')
    (folder / "slip.toml").write_text(slip)
    assert "is 'nmae' meant to be it?" in run("run", folder / "slip.toml", ok=False)


def test_results_that_cannot_be_written_are_found_before_the_charge(run, folder):
    study = folder / "study.toml"
    (folder / "results").write_text("a file")
    said = run("run", study, ok=False)
    assert "Cannot write results" in said
    assert "Nothing was spent" in said
    text = study.read_text()
    study.write_text(text.replace('"results"', json.dumps("long" * 100)))
    assert "File name too long" in run("run", study, ok=False)
    assert charges(folder) == []


def test_a_rerun_says_that_it_is_a_stored_answer(run, folder):
    study = folder / "study.toml"
    assert "To pay now: epsilon 0.9" in run("run", study)
    again = run("run", study)
    assert "To pay now: epsilon 0, delta 0" in again
    assert "harm: a stored answer of 20" in again
    assert "nothing was spent now" in again
    dry = run("run", study, "--dry-run")
    assert "stored: free" in dry
    assert "A dry run: nothing was spent" in dry


def test_two_studies_in_a_folder_keep_their_results_apart(run, folder):
    other = folder / "second.toml"
    text = (folder / "study.toml").read_text()
    other.write_text(text.replace("incidents.ledger", "second.ledger"))
    run("run", folder / "study.toml")
    before = (folder / "results" / "study" / "harm" / "summary.csv").read_text()
    run("run", other)
    assert (folder / "results" / "study" / "harm" / "summary.csv").read_text() == before
    assert (folder / "results" / "second" / "harm" / "summary.csv").exists()


def test_an_interrupt_says_what_was_spent_and_a_rerun_is_free(run, folder, monkeypatch, capfd):
    study = folder / "study.toml"
    posterior = tacit.BetaBernoulli.posterior

    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tacit.BetaBernoulli, "posterior", interrupted)
    monkeypatch.setattr(sys, "argv", ["tacit", "run", str(study)])
    with pytest.raises(SystemExit) as done:
        main()
    said = capfd.readouterr().err
    assert done.value.code == 130
    assert "'harm' had been charged" in said
    assert "Spent in all: epsilon 0.4" in said
    monkeypatch.setattr(tacit.BetaBernoulli, "posterior", posterior)
    assert "To pay now: epsilon 0.5" in run("run", study)
    assert charges(folder) == ["harm", "kind"]


def test_a_comparison_without_privacy_leaves_no_trace(run, folder):
    out = run("run", folder / "study.toml", "--public", "--analysis", "harm")
    assert "harm (not private)" in out
    assert not (folder / "incidents.ledger").exists()
    assert not (folder / "results").exists()


def test_what_a_run_wrote_can_be_fitted_again(run, folder, tmp_path):
    run("run", folder / "study.toml")
    harm = folder / "results" / "study" / "harm"
    run("fit", harm / "release.json", "-o", tmp_path / "again")
    assert (tmp_path / "again" / "summary.csv").read_text() == (harm / "summary.csv").read_text()
    sceptical = run("fit", harm / "release.json", "--set", "prior=[1, 5000]")
    assert "p" in sceptical
    said = run("fit", harm / "release.json", "--set", "priors=[1, 2]", ok=False)
    assert "did you mean prior?" in said
    assert "--set NAME=JSON" in run("fit", harm / "release.json", "--set", "prior", ok=False)


def test_a_budget_is_raised_without_saying_delta_again(run, folder):
    run("run", folder / "study.toml")
    ledger = folder / "incidents.ledger"
    said = run("ledger", "raise", ledger, "--epsilon", "3", "--reason", "more")
    assert "epsilon 3, delta 0.000001" in said


def test_a_study_may_have_a_ledger_with_a_filter(run, folder):
    study, ledger = folder / "study.toml", folder / "incidents.ledger"
    text = study.read_text()
    with_filter = text.replace("delta = 1e-6", 'delta = 1e-6\ncomposition = "gdp"', 1)
    gaussian = 'how = { mechanism = "Gaussian", epsilon = 0.4, delta = 1e-6 }'
    head, *analyses = with_filter.split("[[analysis]]")
    one = re.sub(r"how = .*", gaussian, analyses[0])
    several = [one.replace('"harm"', f'"harm {i}"', 1) for i in range(3)]
    study.write_text("[[analysis]]".join([head, *several]))
    planned = run("plan", study)
    assert "To pay now: epsilon 1.2, delta 0.000003." in planned
    assert "Added up by its filter: to pay now mu squared 0.03" in planned
    assert not ledger.exists()
    run("run", study, "--analysis", "harm 0")
    again = run("plan", study)
    assert "to pay now mu squared 0.02" in again
    shown = " ".join(run("ledger", "show", ledger).split())
    assert "Spent: epsilon 0.4, delta 0.000001" in shown
    assert "composition='gdp'" in shown
    assert "mu squared 0.01" in shown
    page = (folder / "results" / "study" / "report.html").read_text()
    assert "are not added up" in page
    assert "mu squared 0.01" in page
    assert "by composition='gdp': mu squared 0.01" in run("ledger", "verify", ledger)
    study.write_text(study.read_text().replace("gdp", "zcdp"))
    assert '"basic", "rdp" or "gdp"' in run("run", study, "--analysis", "harm 1", ok=False)
    study.write_text(text)
    assert "created with composition = 'gdp', not 'basic'" in run("run", study, ok=False)


def test_a_plan_says_how_much_epsilon_is_needed(run, folder, tmp_path):
    study = folder / "study.toml"
    run("run", study, "--analysis", "kind")
    assert "--n-units 4000" in run("plan", study)
    guess = "\n[plan]\nn_units = 400\nrepeats = 2\nguess = { harm = { no = 0.8, yes = 0.2 } }\n"
    study.write_text(study.read_text() + guess)
    picture = tmp_path / "plan.png"
    out = run("plan", study, "--analysis", "harm", "--half-width", "0.1", "--plot", picture)
    assert re.search(r"harm: for ± 0\.1: about epsilon 0\.\d", out)
    assert "To pay now: epsilon 0.4, delta 0. Left in the budget: epsilon 0.5" in out
    assert "it would leave epsilon 0.1" in out
    assert picture.stat().st_size > 1000
    hidden = study.read_text().replace("incidents.csv", "nowhere.csv")
    study.write_text(hidden)
    run("plan", study, "--analysis", "harm", "--repeats", 2)  # opens no data


def test_init_reads_the_header_alone(run, folder, tmp_path):
    table = folder / "mine.csv"
    table.write_bytes(b'id,sex,age,"odd ""name"""\n\xff\xfe,secret,\x00,1\n')
    study = folder / "mine.toml"
    out = run("init", table, "-o", study)
    assert "only the header" in out
    text = study.read_text()
    assert "secret" not in text
    assert all(name in text for name in ("sex", "age", 'odd \\"name\\"'))
    assert "Expected" in run("plan", study, ok=False)  # nothing is asked with a placeholder
    assert "is there already" in run("init", table, "-o", study, ok=False)

    table.write_bytes(b'"id";"sex, or gender"\n')
    run("init", table, "-o", folder / "semicolons.toml")
    assert 'separator = ";"' in (folder / "semicolons.toml").read_text()
    for encoding, name in (("latin-1", "Führungskraft"), ("cp1252", "Gehalt in €")):
        table.write_bytes(f"id;{name}\nx;y\n".encode(encoding))
        run("init", table, "-o", folder / f"{encoding}.toml")
        text = (folder / f"{encoding}.toml").read_text(encoding="utf-8")
        assert f'encoding = "{encoding}"' in text
        assert f'name = "{name}"' in text
        assert '# decimal = ","' in text

    table.write_bytes(b'id,sex,age,"odd ""name"""\n')

    codebook = tmp_path / "codebook.csv"
    codebook.write_text(
        "Name,Type,Levels,Low,High,Bounds,Default\n"
        "sex,categorical,f|m,,,,f\n"
        "age,integer,,18,100,,\n"
        "ward,code,1; 2; 3,,,,\n"
        'odd ""name"",real,,,,0..2.5,\n'.replace('""', '"')
    )
    study.unlink()
    run("init", table, "-o", study, "--dictionary", codebook)
    text = study.read_text().replace('# neighbours = "rep', 'neighbours = "rep')
    text = text.replace("# epsilon", "epsilon").replace("# delta", "delta")
    for key in ("[[analysis]]", "name =", "model =", "column =", "how ="):
        text = text.replace(f"\n# {key}", f"\n{key}")
    study.write_text(text)
    assert "first" in run("plan", study)
    columns = {column.name: column for column in Study.load(study).schema.columns}
    assert columns["sex"] == tacit.Categorical("sex", ["f", "m"], default="f")
    assert columns["age"] == tacit.Integer("age", 18, 100)
    assert columns['odd "name"'] == tacit.Real('odd "name"', 0, 2.5)
    assert "ward" not in columns

    for line, says in (("sex,hat,,,,,", "Unknown type"), ("sex,categorical,,,,,", "line 2")):
        codebook.write_text(f"name,type,levels,low,high,bounds,default\n{line}\n")
        said = run("init", table, "-o", folder / "x.toml", "--dictionary", codebook, ok=False)
        assert says in said


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", ".hidden", "x" * 101, "a\nb", "", "a:"])
def test_names_that_are_no_folders_are_refused(run, folder, name):
    study = folder / "study.toml"
    text = study.read_text()
    study.write_text(text.replace('name = "kind"\nmodel', f"name = {json.dumps(name)}\nmodel"))
    assert "simple name" in run("run", study, ok=False)
    assert not (folder / "incidents.ledger").exists()

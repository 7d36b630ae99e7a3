"""Documents that show code show code that runs."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli import app
from tacit.datasets import STUDY, hospital_incidents
from tacit.spec.release import Release
from tacit.study.file import Study

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _shorten_nuts(monkeypatch):
    """A few short trees, for pages that show NUTS: what is printed differs in its numbers alone."""
    infer = pytest.importorskip("numpyro.infer")
    mcmc, nuts = infer.MCMC, infer.NUTS

    def short(kernel, *, num_warmup, num_samples, **options):
        few = {"num_warmup": min(num_warmup, 20), "num_samples": min(num_samples, 20)}
        return mcmc(kernel, **few, **options)

    monkeypatch.setattr(infer, "MCMC", short)
    monkeypatch.setattr(infer, "NUTS", lambda model: nuts(model, max_tree_depth=4))


WITH_NUTS = [page for page in PAGES if "numpyro.infer" in page.read_text()]


@pytest.mark.parametrize(
    ("page", "short"),
    [
        *(pytest.param(page, page in WITH_NUTS, id=page.name) for page in PAGES),
        *(
            pytest.param(page, False, id=f"{page.name}, NUTS as shown", marks=pytest.mark.slow)
            for page in WITH_NUTS
        ),
    ],
)
@pytest.mark.no_cover
def test_code_on_a_page_runs(page, short, tmp_path, monkeypatch, capsys):
    """In order and in one session, as a reader would; a text block shows what Python printed.

    A block with a title is a file. Of consoles, lines that call `tacit` run where such a file is.
    """
    if short:
        _shorten_nuts(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    session, printed, files = {"__name__": "page"}, None, 0
    blocks = re.findall(r'```(\w+)(?: title="([\w.]+)")?\n(.*?)```', page.read_text(), re.DOTALL)
    for language, title, code in blocks:
        if title:
            Path(title).write_text(code)
            files += 1
        for line in re.findall(r"^\$ tacit ([^#\n]+)", code, re.MULTILINE) if files else ():
            result = CliRunner().invoke(app, shlex.split(line))
            assert result.exit_code == 0, (line, result.output, result.exception)
        if language == "python":
            exec(compile(code, page.name, "exec"), session)
            printed = capsys.readouterr().out
        elif language == "text" and printed is not None:
            assert _shape(printed) == _shape(code)
            printed = None


def _shape(text: str) -> list[str]:
    """The output without its numbers, which are noise, and without its blanks."""
    text = re.sub(r"head \w+", "head", text)
    return [
        "".join(re.sub(r"-?\d+\.?\d*(e[-+]?\d+)?", "#", line).split()) for line in text.splitlines()
    ]


def test_the_release_on_the_page_is_one(tmp_path):
    page = (ROOT / "docs" / "releases-made-elsewhere.md").read_text()
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    release = Release.from_json(text)
    assert Release.from_json(release.to_json()).to_dict() == json.loads(text)  # nothing left out
    assert all(f"| `{field}` |" in page for field in json.loads(text))
    (tmp_path / "smokers.release").write_text(text)
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "smokers.release"), "--seed", "1"])
    assert result.exit_code == 0
    assert tacit.BetaBernoulli("smoker", success="yes").posterior(release).mean() < 0.25


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_claim_of_the_papers_has_its_files():
    """A row names files that exist and names that are in them, or says that it is not done."""
    rows = [
        line.strip("| ").split(" | ")
        for line in (ROOT / "docs" / "reproductions" / "README.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| source")
    ]
    assert len(rows) > 100
    source = [path.read_text() for path in (ROOT / "src" / "tacit").rglob("*.py")]
    for row in rows:
        if "**not done**" in row[-1]:
            continue
        assert len(row) == 5, row
        _, _, where, shown, _ = row
        texts = []
        for name in re.findall(r"`([^`]+)`", f"{where} {shown}"):
            if re.fullmatch(r"[\w/.-]+\.(py|md)", name):
                found = [
                    path for path in (ROOT / name, ROOT / "src" / "tacit" / name) if path.exists()
                ]
                assert found, name
                texts.append(found[0].read_text())
            else:
                words = re.findall(r"\w+", name.removeprefix("tacit."))
                assert any(words[0] in text for text in [*texts, *source]), name
        assert texts, row


def test_the_example_is_the_demos_study():
    assert (ROOT / "examples" / "study.toml").read_text() == STUDY
    assert Study.load(ROOT / "examples" / "study.toml").analyses


def test_the_simulator_knows_its_truth():
    incidents = hospital_incidents(patients=20_000, seed=3)
    harm = incidents.table["harm"]
    share = (harm == "yes").sum() / (harm != "").sum()
    assert abs(share - incidents.truth["harm"]["yes"]) < 0.02  # over six standard errors
    assert abs(sum(incidents.truth["kind"].values()) - 1) < 1e-9

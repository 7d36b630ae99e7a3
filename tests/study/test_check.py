"""`tacit check`: what a custodian sees of the cells, on a terminal alone."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from typer.testing import CliRunner

import tacit
from tacit import cli
from tacit.cli import checking as command
from tacit.study.check import NOTICE, check
from tacit.study.file import Study

RUNNER = CliRunner()
STUDY = """
[data]
source = "visits.csv"
ledger = "visits.ledger"
[schema]
neighbours = "replace_one"
columns = [
    { name = "town", type = "categorical", levels = ["Nörd", "Süd"] },
    { name = "bmi", type = "real", low = 10, high = 60 },
]
[budget]
epsilon = 1
[[analysis]]
name = "towns"
model = "DirichletCategorical"
column = "town"
how = { mechanism = "Laplace", epsilon = 0.5 }
"""


def schema(column, **options):
    return tacit.Schema(column, **({"neighbours": "replace_one"} | options))


@pytest.mark.parametrize(
    ("column", "cells", "matched", "says"),
    [
        (tacit.Categorical("x", ["no", "yes"]), ["no", "YES", "yes"], 2, "1 of them differ"),
        (tacit.Categorical("x", ["no", "yes"]), ["0", "1", "1.0", ""], 0, "3 of them are 0 and 1"),
        (tacit.Categorical("x", ["Nörd"]), ["Nörd".encode("cp1252")], 0, "encoding='cp1252'"),
        (tacit.Categorical("x", ["Nörd"]), ["NÃ¶rd", "Nörd"], 1, "1 of them match in UTF-8"),
        (tacit.Categorical("x", ["a", "b"]), ["a"], 1, "levels that no cell has: 'b'"),
        (tacit.Categorical("x", ["a"], default="a"), ["a", "b"], 1, "the 1 cells .* count as 'a'"),
        (tacit.Categorical("x", codes={"1": "m"}), ["1.0", "2", "m"], 2, "'2' x 1"),
        (tacit.Real("x", 0, 99), ["3,5", "1.003,5", "4.5"], 1, "1 of them have decimal commas"),
        (tacit.Real("x", 0, 99), ["34 years", "34"], 1, "1 of them go on after a number"),
        (tacit.Integer("x", 0, 9), ["3", "2.5", "99", "-1"], 1, r"1 of them have decimals: Real\("),
        (tacit.Integer("x", 0, 9), [3.0, 99.0, None], 1, "1 of them are numbers above high=9"),
        (tacit.Time("x", "2025", "2026"), ["31.12.2025"], 0, "format='%d.%m.%Y'"),
        (tacit.Time("x", "2025", "2026"), ["12/31/2025", "1/2/2026"], 0, "2 .* format='%m/%d/%Y'"),
        (tacit.Time("x", "2025", "2026", every="hour"), ["31.12.2025 09:30"], 0, "%d.%m.%Y %H:%M"),
        (tacit.Tokens("x", ["war"], 9), ["War!", "peace", None], 1, "'peace' x 1"),
    ],
)
def test_what_is_likely_wrong_is_said(column, cells, matched, says):
    found = check({"x": cells}, schema(column))
    assert found.columns[0].matched == matched
    assert re.search(says, "\n".join(found.lines(0.95)))
    assert found.passes(0.95) == (found.columns[0].share == 1)


def test_empty_cells_are_no_wrong_spelling():
    cells = ["a", "", None, "NA", "n/a", "NULL", float("nan")]
    (found,) = check({"x": cells}, schema(tacit.Categorical("x", ["a"]))).columns
    assert (found.cells, found.matched, found.empty, found.share) == (7, 1, 6, 1)
    assert check({"x": []}, schema(tacit.Categorical("x", ["a"]))).passes(1)


def test_rows_of_units_are_counted_against_the_bound():
    data = {"x": ["a"] * 6, "who": ["p", "p", "p", "q", "", None]}
    described = schema(tacit.Categorical("x", ["a"]), unit="who", max_rows_per_unit=2)
    found = check(data, described)
    assert found.units is not None
    assert (found.units.units, found.units.kept, found.units.rows) == (2, 3, 6)
    assert not found.passes(0.95)
    assert "at most 3 rows of one; 3 of 6 rows are used" in "\n".join(found.lines(0.95))


def test_cells_cannot_write_to_the_terminal():
    """Escapes, line ends and letters that hide others are spelt out."""
    cells = ["\x1b[2J\x1b]0;owned\x07", "a\r\nok 'x'", "\u202etxt", "\x9b31m", b"\x9b\xff"]
    found = check({"x": [*cells, "y" * 10**6]}, schema(tacit.Categorical("x", ["a"])))
    lines = list(found.lines(0.95))
    assert all(line.isprintable() for line in lines)
    assert len(" ".join(lines)) < 2000


def test_a_wall_shows_no_cell(wall):
    described = wall.schema
    for data in (wall, tacit.Public({"smoker": ["no"]}, described), "https://data.example/visits"):
        with pytest.raises(tacit.errors.SourceError, match="records themselves"):
            check(data, described)
    with pytest.raises(tacit.errors.SourceError, match="matrix"):
        check(csr_matrix(np.eye(2)), described)
    assert wall.remaining.epsilon == 1


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    rows = "town,bmi\n" + "Nörd,23.5\nSüd,24\n" * 5
    (tmp_path / "visits.csv").write_bytes(rows.encode("latin-1"))
    return tmp_path / "study.toml"


def test_the_command_prints_on_a_terminal_and_keeps_nothing(study, monkeypatch):
    before = sorted(study.parent.iterdir())
    shown = RUNNER.invoke(cli.app, ["check", str(study)])
    assert isinstance(shown.exception, tacit.errors.StudyError)  # a pipe, not a terminal
    assert "terminal" in str(shown.exception)
    assert RUNNER.invoke(cli.app, ["check", str(study), "--quiet"]).stdout == ""
    printed = []
    monkeypatch.setattr(command, "out", type("Out", (), {"print": staticmethod(printed.append)}))
    monkeypatch.setattr(command, "on_terminal", lambda: True)
    low = RUNNER.invoke(cli.app, ["check", str(study)])
    passed = RUNNER.invoke(cli.app, ["check", str(study), "--least", "0"])
    assert (low.exit_code, passed.exit_code) == (1, 0)
    assert printed[0] == NOTICE
    assert any("encoding='cp1252'" in line for line in printed)
    assert sorted(study.parent.iterdir()) == before  # no ledger either: nothing was opened
    with_encoding = study.read_text(encoding="utf-8").replace(
        "[schema]", 'encoding = "latin-1"\n[schema]'
    )
    study.write_text(with_encoding, encoding="utf-8")
    assert RUNNER.invoke(cli.app, ["check", str(study), "--quiet"]).exit_code == 0
    loaded = Study.load(study)
    counts = tacit.Public(loaded.source, loaded.schema).release(
        tacit.queries.Counts("town"), tacit.Exact()
    )
    assert counts.value.tolist() == [5, 5, 0]


def test_nothing_else_calls_it():
    """No import of it but in the command itself: neither in `run`, nor in what serves others."""
    source = Path(tacit.__file__).parent
    importing = {}
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            for node in ast.iter_child_nodes(function):
                names = [node.module] if isinstance(node, ast.ImportFrom) else []
                names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
                if "tacit.study.check" in names:
                    importing[str(path.relative_to(source))] = getattr(
                        function, "name", "the module"
                    )
    assert importing == {"cli/checking.py": "check"}
    assert "open(" not in (source / "study" / "check.py").read_text(encoding="utf-8").replace(
        "open_source(", ""
    )

"""What the wall shows, and what it never does."""

import ast
import copy
import logging
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.wall.statistics.counts import CountsAnswer
from tests.conftest import SMOKERS, smoking

QUERY = tacit.queries.Counts("smoker")
WALL = Path(tacit.wall.__file__).parent


def open_wall(data=SMOKERS, schema=None, budget=None) -> tacit.Wall:
    schema, budget = schema or smoking(), budget or tacit.Budget(100, 1e-3)
    return tacit.Wall(data, schema, budget=budget, ledger=":memory:")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"schema": None}, "Expected a schema"),
        ({"budget": None}, "Expected budget=tacit.Budget"),
        ({"ledger": None}, 'Expected ledger="<path>"'),
        ({"budget": 1.0}, "Expected budget=tacit.Budget"),
    ],
)
def test_what_is_left_out_is_asked_for(arguments, says):
    good = {"schema": smoking(), "budget": tacit.Budget(1), "ledger": ":memory:"}
    with pytest.raises(tacit.TacitError, match=says):
        tacit.Wall(SMOKERS, **{**good, **arguments})


def test_over_budget_says_the_numbers_and_reads_nothing(monkeypatch):
    wall = open_wall(budget=tacit.Budget(1, 1e-6))
    wall.release(QUERY, tacit.Laplace(0.75))
    monkeypatch.setattr(CountsAnswer, "evaluate", pytest.fail)
    with pytest.raises(tacit.OverBudgetError) as caught:
        wall.release(QUERY, tacit.Gaussian(0.5, 1e-7))
    assert caught.value.requested == "epsilon 0.5, delta 0.0000001"
    assert caught.value.remaining == "epsilon 0.25, delta 0.000001"
    assert "No data were read" in str(caught.value)


def test_only_public_data_may_be_exact():
    with pytest.raises(tacit.errors.BudgetError, match=r"only tacit\.Public"):
        open_wall().release(QUERY, tacit.Exact())
    with pytest.raises(tacit.errors.BudgetError, match=r"tacit\.Laplace"):
        open_wall().release(QUERY, 0.5)
    release = tacit.Public(SMOKERS, smoking()).release(QUERY, tacit.Exact())
    assert release.value.tolist() == [5, 2, 1]
    assert release.certificate.data == "public data"
    assert "no privacy guarantee" in str(release.certificate)


def test_public_noise_can_be_seeded_and_the_walls_cannot():
    def twice(**options):
        public = tacit.Public(SMOKERS, smoking(), **options)
        return [public.release(QUERY, tacit.Laplace(0.01)).value.tolist() for _ in range(2)]

    assert twice(seed=1) == twice(seed=1) != twice(seed=2)
    assert twice(seed=1)[0] != twice(seed=1)[1]
    assert twice() != twice()
    with pytest.raises(TypeError):
        tacit.Wall(SMOKERS, smoking(), budget=tacit.Budget(1), ledger=":memory:", seed=1)


def test_n_comes_out_only_where_it_is_public():
    assert open_wall().release(QUERY, tacit.Laplace(1)).n == 8
    hidden = open_wall(schema=smoking("add_remove")).release(QUERY, tacit.Laplace(1))
    assert hidden.n is None
    people = smoking(unit="who", max_rows_per_unit=2)
    assert open_wall(schema=people).release(QUERY, tacit.Laplace(1)).n == 4


def test_a_quote_is_free_and_right():
    wall = open_wall(budget=tacit.Budget(1, 1e-6))
    quote = wall.quote(QUERY, tacit.Laplace(0.5))
    assert (quote.noise[0].scale, quote.cost) == (4.0, tacit.Budget(0.5))
    assert wall.remaining.epsilon == 1
    assert wall.release(QUERY, tacit.Laplace(0.5)).noise == quote.noise
    assert tacit.Public(SMOKERS, smoking()).quote(QUERY, tacit.Laplace(0.5)).cost is None


def test_outputs_lie_on_the_grid_and_change():
    wall = open_wall()
    for how in (tacit.Laplace(1), tacit.Gaussian(1, 1e-6)):
        releases = [wall.release(QUERY, how) for _ in range(20)]
        values = np.array([release.value for release in releases])
        grid = releases[0].noise[0].grid
        np.testing.assert_array_equal(np.round(values / grid) * grid, values)
        assert len({tuple(row) for row in values}) > 10


def test_it_shows_public_facts_and_cannot_be_copied():
    wall = open_wall()
    assert repr(wall) == "Wall(columns: smoker; protects one row)"
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            spread(wall)
    assert "smoker" in repr(tacit.Public(SMOKERS, smoking()))


def test_the_answers_shape_does_not_depend_on_the_data(caplog, capfd, recwarn):
    """A new category, a huge number, no rows at all: the same names, labels, warnings and logs."""
    schema = tacit.Schema(
        tacit.Categorical("smoker", ["no", "yes"]),
        tacit.Integer("age", 0, 3),
        unit="who",
        max_rows_per_unit=2,
        neighbours="add_remove",
    )
    tables = [
        {"smoker": [], "age": [], "who": []},
        {"smoker": ["yes"], "age": [1], "who": ["a"]},
        {"smoker": ["cigar", None, "\x00"], "age": [10**40, "n/a", float("nan")], "who": [1, 1, 1]},
    ]

    def ask(table):
        query = tacit.queries.Counts(["smoker", "age"])
        return open_wall(table, schema).release(query, tacit.Laplace(1))

    for table in tables:
        ask(table)  # compiled now, where it is not: Numba logs that
    caplog.set_level(logging.DEBUG)
    seen = set()
    for table in tables:
        release = ask(table)
        facts = release.to_dict()
        for varying in ("integers", "certificate"):
            facts.pop(varying)
        seen.add(repr(facts))
        out = capfd.readouterr()
        warned = [str(w.message) for w in recwarn if w.category is not DeprecationWarning]
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        seen.add(repr((out.out, out.err, said, warned)))
        recwarn.clear()
    assert len(seen) == 2


ROOMS = ["wall", "draws", "stores", "sources", "kernels", "accounting", "laws"]


def code_of(room):
    files = sorted((WALL.parent / room).rglob("*.py"))
    assert files
    return files


@pytest.mark.parametrize("room", ROOMS)
def test_trusted_code_keeps_its_own_rules(room):
    """No user-space generator, no import of what believes, files to read in one sitting."""
    for path in code_of(room):
        source = path.read_text()
        assert len(source.splitlines()) <= 300, path.name
        for node in ast.walk(ast.parse(source)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            for name in names:
                if room != "kernels":  # whose examples are for the contract test
                    assert not name.startswith(("random", "np.random", "jax.random")), path.name
                assert not name.startswith(("numpy.random", "secrets.choice"))
                assert not name.startswith(("tacit.models", "tacit.methods", "tacit.infer"))


def test_an_officer_can_read_what_must_be_trusted():
    """Tier 1 is what counts and moments need; a wall that allows less is less to read."""
    lines = {path: len(path.read_text().splitlines()) for path in code_of("wall")}
    second = sum(n for path, n in lines.items() if path.parent.name == "steps")
    first, both = sum(lines.values()) - second, sum(lines.values())
    assert first <= 1500
    assert both <= 3000
    others = [sum(len(path.read_text().splitlines()) for path in code_of(r)) for r in ROOMS[1:]]
    page = (WALL.parents[2] / "CONTRIBUTING.md").read_text()
    listed = [int(row) for row in re.findall(r"^\| `\w+/`.*?\| (\d+) \|", page, re.MULTILINE)]
    np.testing.assert_allclose(listed, [first, both, *others], rtol=0, atol=50)


def test_every_proof_label_is_in_the_proofs():
    """Each label of the code is stated once, on one of the pages, and each statement has code."""
    code = "".join(path.read_text() for path in WALL.parent.rglob("*.py"))
    pages = {path.name: path.read_text() for path in WALL.parent.rglob("PROOFS*.md")}
    assert sorted(pages) == [
        "PROOFS-APPENDIX.md",
        "PROOFS-DRAWS.md",
        "PROOFS-FILTERS.md",
        "PROOFS-STEPS.md",
        "PROOFS-STORES.md",
        "PROOFS.md",
    ]
    stated = {
        name: sorted(re.findall(r"\*\*\[([\w-]+)\]\*\*", page)) for name, page in pages.items()
    }
    everywhere = sorted(label for labels in stated.values() for label in labels)
    assert everywhere == sorted(set(re.findall(r"# proof: ([\w-]+)", code)))
    for name, page in pages.items():  # the table at the top lists what follows
        rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
        assert sorted(re.findall("`(.*?)`", " ".join(rows))) == stated[name]


def test_the_tables_of_the_proofs_name_the_files_of_each_label():
    files = {}
    for path in WALL.parent.rglob("*.py"):
        for label in re.findall(r"# proof: ([\w-]+)", path.read_text()):
            files.setdefault(label, set()).add(str(path.relative_to(WALL.parent)))
    for page in WALL.parent.rglob("PROOFS*.md"):
        for line in page.read_text().splitlines():
            if line.startswith("| `"):
                _, labels, _, where, _ = line.split("|")
                known = set().union(*(files[label] for label in re.findall("`(.*?)`", labels)))
                assert set(re.findall("`(.*?)`", where)) == known, labels

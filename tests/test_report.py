"""report.html without a browser: what it says is right, escaped, and of no raw data."""

import math
import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

import tacit
from tacit import report
from tacit.report.answers import answers, question
from tacit.report.privacy import Price, translated
from tacit.report.rounding import Estimate

SCHEMA = tacit.Schema(
    tacit.Categorical("smoker <b>", ["no", "yes"]),
    tacit.Integer("age", 0, 120),
    unit="patient",
    max_rows_per_unit=2,
    neighbours="replace_one",
)
CANARY = "canary-51b"
TABLE = {
    "smoker <b>": np.array(["no", "no", "yes", CANARY] * 50),
    "age": np.arange(200) % 90,
    "patient": np.arange(200) // 2,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    wall = tacit.Wall(TABLE, SCHEMA, budget=tacit.Budget(3, 1e-6), ledger=folder / "x.ledger")
    model = tacit.BetaBernoulli("smoker <b>", success="yes")
    posteriors = {
        "smoking": tacit.fit(model, wall, tacit.Laplace(0.5), name="smoking", draws=100, seed=1),
        "again": tacit.fit(model, wall, tacit.Laplace(0.5), name="smoking", draws=100, seed=1),
        "age": tacit.fit(tacit.NormalMean("age", sd=9), wall, tacit.Laplace(1), draws=100, seed=1),
    }
    path = folder / "report.html"
    report.write(path, posteriors, ledger=tacit.Ledger(folder / "x.ledger"))
    return posteriors, path.read_text(encoding="utf-8")


def test_one_file_for_three_readers(made):
    _, text = made
    for words in (
        "What share of the rows has smoker &lt;b&gt; = yes?",
        "What this means for one patient",
        "Certificate of smoking",
        "With and without the privacy noise",
        "Methods and citation",
        "(scale 8, grid 1)",
        "epsilon = 1.5 in total",
    ):
        assert words in text
    assert "<b>" not in text
    assert "<script" not in text
    assert CANARY not in text
    outside = text.replace("http://www.w3.org/", "")  # names of XML, which nothing loads
    assert "http://" not in outside
    assert "https://" not in outside


def test_of_two_levels_the_answer_is_about_the_second(made):
    schema = tacit.Schema(
        tacit.Categorical("ill", [False, True]),
        tacit.Categorical("ward", ["a", "b", "c"]),
        neighbours="replace_one",
    )
    rows = {"ill": [True, False, False] * 40, "ward": ["a", "b", "b", "c"] * 30}
    public = tacit.Public(rows, schema, seed=1)
    network = tacit.BayesNet({"ill": ["ward"]})
    posterior = tacit.fit(network, public, tacit.Laplace(2), draws=50, seed=1)
    assert question(posterior) == "How does ill depend on ward?"
    said = answers(posterior, 0.9)
    assert len(said) == 3
    assert all(text.startswith("ill = True where ward = ") for text in said)
    network = tacit.BayesNet({"ill": ["ward"], "ward": []})
    assert question(posterior) == question(tacit.fit(network, public, tacit.Laplace(2), draws=9))
    text = str(made[0]["smoking"].certificate)
    assert "scale 8, grid 1" in text
    assert not re.search(r"\d\.\d{7}|[{}]", text)


def test_a_charge_that_is_shown_twice_counts_once(made):
    posteriors, _ = made
    price = Price.of([p.certificate for p in posteriors.values()], SCHEMA)
    assert price.epsilon == 1.5
    assert price.factor == "4.49"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 1000.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
def test_the_worked_example_is_the_largest_probability_that_privacy_allows(epsilon, delta):
    """Over all pairs of chances that (epsilon, delta) allows, both ways."""
    price, probability = Price(epsilon, delta, SCHEMA), 0.01
    most = price.at_most(probability)
    grown = math.exp(min(epsilon, 700))
    allowed = np.linspace(0, 1, 200_001)
    fits = (allowed <= grown * probability + delta + 1e-12) & (
        1 - probability <= grown * (1 - allowed) + delta + 1e-12
    )
    assert most == pytest.approx(allowed[fits].max(), abs=1e-5)


def test_certificates_are_translated_whatever_they_say(made):
    posteriors, _ = made
    certificate = posteriors["smoking"].certificate
    said = " ".join(translated(certificate, SCHEMA))
    assert "3 numbers were released at once. One patient can change them by at most 4" in said
    assert "no more than 18 up or down (scale 8, grid 1)" in said
    event = {"noise": "new", "range": 2.5}
    odd = replace(certificate, events=(event,), delta=Decimal("0.000001"))
    said = " ".join(translated(odd, SCHEMA))
    assert "range 2.5" in said
    assert "delta 0.000001" in said


def test_numbers_have_the_digits_that_their_uncertainty_leaves():
    found = Estimate.of("p", 0.134567, 0.1143, 0.1552, share=True)
    assert (found.mean, found.low, found.high) == ("13.5%", "11.4%", "15.5%")
    found = Estimate.of("rows", 2342.4, 2309.2, 2375.0, share=False)
    assert str(found) == "2,342 (2,309 to 2,375)"


@pytest.mark.filterwarnings("ignore::tacit.spec.errors.InferenceWarning")
def test_a_point_has_no_interval_on_the_page(made, tmp_path):
    posteriors, _ = made
    point = replace(posteriors["smoking"], draws={"p": np.full((1, 1), 0.25)}, noise="tempered")
    report.write(tmp_path / "r.html", {"smoking": point})
    text = (tmp_path / "r.html").read_text()
    assert "Share: 25%; a single point, whose error is not known." in text
    assert "nan" not in text.split("</style>")[1].split("<svg")[0]


def test_what_cannot_be_written_is_refused_in_words(made, tmp_path):
    posteriors, _ = made
    with pytest.raises(tacit.errors.FileError, match="Nothing was spent"):
        report.write(tmp_path / "no" / "report.html", posteriors)
    with pytest.raises(tacit.errors.ModelError, match="posteriors by name"):
        report.write(tmp_path / "report.html", {})


def test_public_data_make_no_promise(tmp_path):
    public = tacit.Public(TABLE, SCHEMA)
    model = tacit.BetaBernoulli("smoker <b>", success="yes")
    posterior = tacit.fit(model, public, tacit.Exact(), draws=100)
    report.write(tmp_path / "r.html", {"smoking": posterior})
    text = (tmp_path / "r.html").read_text()
    assert "makes no promise" in text
    assert "e^epsilon" not in text

"""report.html in a browser: it asks nothing of a network, everything is seen, and by everyone."""

from contextlib import contextmanager

import numpy as np
import pytest

import tacit
from tacit import report

WIDTHS = {"desktop": 1280, "phone": 375}
HOSTILE = "<script>alert(1)</script>"


# Words of a figure that reach beyond it by more than two pixels.
_CUT_OFF = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
  const room = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < room.left - 2 || box.right > room.right + 2 || box.top < room.top - 2
      || box.bottom > room.bottom + 2;
  }).map(text => text.textContent);
})"""


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    """A page of several models, with a warning, a ledger and names that attack."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(1)
    n = 400
    table = {
        "ward": rng.choice(["north", "south", HOSTILE], n),
        "month": rng.integers(1, 7, n),
        "ill": rng.choice(["no", "yes"], n),
        "bmi": rng.normal(25, 4, n),
        "age": rng.normal(50, 15, n),
        "patient": np.arange(n),
    }
    schema = tacit.Schema(
        tacit.Categorical("ward", ["north", "south", HOSTILE]),
        tacit.Integer("month", 1, 6),
        tacit.Categorical("ill", ["no", "yes"]),
        tacit.Real("bmi", 10, 60),
        tacit.Real("age", 0, 100),
        unit="patient",
        max_rows_per_unit=1,
        neighbours="replace_one",
    )
    ledger = folder / "x.ledger"
    wall = tacit.Wall(table, schema, budget=tacit.Budget(9, 1e-6), ledger=ledger)
    models = {
        "illness": tacit.BetaBernoulli("ill", success="yes"),
        "by ward": tacit.BayesNet({"ward": [], "ill": ["ward"]}),
        "weight": tacit.LinearRegression("bmi", ["age"]),
        HOSTILE: tacit.HMM(2, "ward", "month", ["ill"]),
    }
    how = tacit.Laplace(1)
    fits = {k: tacit.fit(m, wall, how, draws=60, seed=1) for k, m in models.items()}
    fits["weight"] = fits["weight"].warned(("this is a test of warnings",))
    path = folder / "report.html"
    report.write(path, fits, title=f"A test {HOSTILE}", ledger=tacit.Ledger(ledger))
    return path


@contextmanager
def opened(chromium, path, *, width, scheme="light"):
    """The page, with what the console said and what was asked of the network."""
    viewport = {"width": width, "height": 900}
    context = chromium.new_context(viewport=viewport, color_scheme=scheme)
    page = context.new_page()
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("dialog", lambda dialog: page.said.append(dialog.message))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_everything_is_seen_and_the_console_is_silent(chromium, page_path, size, scheme):
    with opened(chromium, page_path, width=WIDTHS[size], scheme=scheme) as page:
        figures = page.locator("figure svg")
        assert figures.count() >= 10
        for figure in figures.all():
            box = figure.bounding_box()
            assert box["width"] >= 200
            assert box["height"] >= 80
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= WIDTHS[size]
        assert page.evaluate(_CUT_OFF) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[size]
        assert page.said == []
        assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []
        assert page.locator("script").count() == 0
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_barrier(chromium, page_path, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with opened(chromium, page_path, width=375, scheme=scheme) as page:
        # Axe is a script, which the page's policy forbids: it is tried without the policy.
        text = page_path.read_text().replace("Content-Security-Policy", "x-none")
        page.set_content(text)
        found = Axe().run(page)
        page.set_content(text.replace("<svg", "<img src='data:,'><svg", 1))
        broken = Axe().run(page)
    assert [each["id"] for each in broken.response["violations"]] == ["image-alt"]
    assert found.response["violations"] == [], found.generate_report()
    assert len(found.response["passes"]) > 10


def test_a_page_is_read_by_keyboard_and_printed(chromium, page_path):
    with opened(chromium, page_path, width=1280) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        targets = page.locator("nav a").evaluate_all("found => found.map(a => a.hash.slice(1))")
        assert len(targets) >= 8
        for target in targets:
            assert page.locator(f"[id='{target}']").count() == 1
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        assert page.locator("figure svg").first.is_visible()
        assert len(page.pdf()) > 10_000

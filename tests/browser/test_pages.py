"""The pages of a server in a browser: at a desk and on a phone, in light and dark, by everyone."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

import tacit
from tests.custodian.serving import serving, write_smokers

WIDTHS = {"desktop": 1280, "phone": 375}
NAME = "smokers of the wards, asked in the spring of a year with a long name"
PAGES = [
    "/",
    "/data/smokers",
    f"/data/smokers/release?name=ana/{NAME}",
    "/data/smokers/plan",
    "/custody",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with releases, accounts, a question that waits and a data set that is stopped."""
    more = 'about = "People who smoke."\npolicy = { largest_epsilon = 1.0 }'
    with serving(write_smokers(tmp_path_factory.mktemp("pages"), more)) as started:
        wall = tacit.connect(started.url, started.token("ana"))
        query = tacit.queries.Counts("smoker")
        wall.release(query, tacit.Laplace(0.5), name=NAME)
        wall.release(query, tacit.Gaussian(0.5, 1e-6), name="second")
        with pytest.raises(tacit.errors.PolicyError):
            wall.release(query, tacit.Laplace(2), name="a large one")
        started.accounts.stop("smokers", "a fault to look at")
        started.officer = started.accounts.add("officer", role="custodian")
        yield started


@contextmanager
def opened(chromium, server, *, width, scheme="light", bypass_csp=False):
    """A custodian's page, with what the console said and what was asked of a network."""
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=bypass_csp
    )
    page = context.new_page()
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(f"{server.url}/sign-in")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("Your token").fill(server.officer)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Data sets").wait_for()
    yield page
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_everything_is_seen_and_the_console_is_silent(chromium, server, size, scheme):
    with opened(chromium, server, width=WIDTHS[size], scheme=scheme) as page:
        for path in PAGES:
            page.goto(server.url + path)
            assert page.locator("h1").count() == 1, path
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= WIDTHS[size], path
            small = page.evaluate(
                "[...document.querySelectorAll('button, input:not([type=hidden]), select')]"
                ".map(e => e.getBoundingClientRect()).filter(b => b.height < 24).length"
            )
            assert small == 0, path  # to be hit by a finger
            if folder := os.environ.get("TACIT_SCREENSHOTS"):
                name = path.strip("/").replace("/", "-").partition("?")[0] or "catalogue"
                shot = Path(folder) / f"{name}-{size}-{scheme}.png"
                page.screenshot(path=str(shot), full_page=True)
        assert page.said == []
        assert [url for url in page.asked if not url.startswith(server.url)] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_axe_finds_no_barrier(chromium, server, size, scheme):
    from axe_playwright_python.sync_playwright import Axe

    # Axe is a script, which the pages' policy forbids.
    with opened(chromium, server, width=WIDTHS[size], scheme=scheme, bypass_csp=True) as page:
        for path in [*PAGES, "/data/none"]:
            page.goto(server.url + path)
            found = Axe().run(page)
            assert found.response["violations"] == [], (path, found.generate_report())
        page.evaluate("document.querySelector('h1').insertAdjacentHTML('afterend', '<img src=x>')")
        broken = Axe().run(page)
    assert [each["id"] for each in broken.response["violations"]] == ["image-alt"]


def test_a_custodian_decides_and_an_analyst_calculates_by_keyboard(chromium, server):
    with opened(chromium, server, width=1280) as page:
        page.get_by_role("link", name="Accounts and approvals").click()
        page.get_by_label("Reason").fill("the board agreed")
        page.get_by_role("button", name="Approve").press("Enter")
        page.get_by_text("None.").wait_for()
        page.get_by_role("link", name="smokers").click()
        page.get_by_text("approved by officer: the board agreed").wait_for()
        page.get_by_role("link", name="What would a question cost?").click()
        page.get_by_label("About how many units").fill("400")
        page.get_by_role("button", name="Calculate").press("Enter")
        page.get_by_role("heading", name="It would cost epsilon 0.1").wait_for(timeout=60_000)
        page.get_by_role("button", name="Sign out").press("Enter")
        page.get_by_label("Your token").wait_for()
        page.goto(f"{server.url}/custody")
        assert page.url.endswith("/sign-in")
        assert page.said == []

"""Debian's Chromium, driven by Playwright; where it is missing, tests are skipped and say so."""

import shutil

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    """A running browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium: `make test-browser` installs Debian's, as root")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()

"""The documentation site builds without a warning, is whole, and says what the code says."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def _in_nav(items):
    for item in items:
        for target in item.values():
            yield from _in_nav(target) if isinstance(target, list) else [target]


def test_every_page_is_in_the_navigation_once():
    nav = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(_in_nav(nav)) == sorted(pages)


@pytest.mark.parametrize("name", ["study-file.md", "command-line.md", "api.md"])
def test_the_reference_says_what_the_code_says(name):
    written = runpy.run_path(str(ROOT / "tools" / "reference_pages.py"))["page"](name)
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == written, "run make docs"


class _Loads(HTMLParser):
    """What a browser fetches to show a page, other than where its links lead."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        loads = tag in ("script", "img", "iframe", "source")
        if tag == "link" and facts.get("rel") not in ("canonical", "next", "prev"):
            loads = True
        address = facts.get("src") or (facts.get("href") if tag == "link" else None)
        if loads and address:
            self.found.append(address)


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("zensical")
    shutil.copytree(DOCS, tmp_path / "docs")  # the proofs are links to where they stand
    (tmp_path / "zensical.toml").write_text((ROOT / "zensical.toml").read_text())
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", built.stdout + built.stderr)  # without colours
    assert built.returncode == 0, said
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        seen = _Loads()
        seen.feed(page.read_text(encoding="utf-8"))
        assert seen.found
        for address in seen.found:
            assert not re.match(r"(https?:)?//", address), (page, address)

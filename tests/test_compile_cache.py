"""Compiled programs are kept where nobody else can write, and nowhere if there is no such place."""

import os
import stat
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tacit.compile_cache import cache_folder, keep_programs


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAX_ENABLE_COMPILATION_CACHE", raising=False)
    return tmp_path / "cache"


class Config(SimpleNamespace):
    def update(self, name, value):
        setattr(self, name, value)


def kept(already=None):
    jax = SimpleNamespace(config=Config(jax_compilation_cache_dir=already))
    keep_programs(jax)
    return jax.config.jax_compilation_cache_dir


def test_the_folder_is_the_users_alone(home):
    old = os.umask(0)
    try:
        folder = cache_folder()
    finally:
        os.umask(old)
    assert folder == home / "tacit" / "jax"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert kept() == str(folder)
    folder.chmod(0o777)
    assert cache_folder() is None
    assert kept() is None


def test_what_the_user_said_stands(home, monkeypatch):
    assert kept("/elsewhere") == "/elsewhere"
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "false")
    assert kept() is None
    assert not home.exists()


def test_where_no_folder_can_be_made_there_is_none(home):
    home.write_text("a file")
    assert cache_folder() is None
    assert kept() is None


_NOWHERE = """
from numba.core import caching

class Nowhere:
    @classmethod
    def from_function(cls, function, file):
        return None  # what each place says that cannot be written to

for kind in (caching.CompileResultCacheImpl, caching.CodeLibraryCacheImpl):
    kind._locator_classes = [Nowhere]

import tacit

data = {"x": [0.5, 2.0, 1.0]}
schema = tacit.Schema(tacit.Real("x", 0, 3), neighbours="replace_one")
wall = tacit.Wall(data, schema, budget=tacit.Budget(9, 1e-6), ledger=":memory:")
print(wall.release(tacit.queries.Moments("x"), tacit.Laplace(1)).n)
"""


def test_a_wall_answers_where_no_compiled_code_can_be_kept():
    """As for a user whose home and package folder are both read-only."""
    command = [sys.executable, "-c", _NOWHERE]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "3", ran.stderr[-2000:]

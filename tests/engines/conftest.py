"""Real engines: PostgreSQL of `tests/postgres.py`, and Spark on Java 17.

Where one is missing its tests are skipped and say so; `make test-engines` installs both.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "canary/p@ss:wörd"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session for all tests: to start it takes some ten seconds."""
    sql = pytest.importorskip("pyspark.sql", reason='pip install "tacit[spark]" is missing')
    java = next(iter(sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))), None)
    if java is None:
        pytest.skip("no Java 17: `make test-engines` installs Debian's, as root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        folder = tempfile.mkdtemp(prefix="tacit-spark-")
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", folder)
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

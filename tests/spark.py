"""Spark on this machine, on Debian's Java 17: `make test-engines` installs what is missing."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def running(**settings: str) -> Iterator[Any]:
    """A session on this machine; to start it takes some ten seconds."""
    from pyspark.sql import SparkSession

    java = next(iter(sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*"))), None)
    if java is None:
        pytest.skip("no Java 17: `make test-engines` installs Debian's, as root")
    os.environ |= {"JAVA_HOME": str(java), "PYSPARK_PYTHON": sys.executable}
    folder = tempfile.mkdtemp(prefix="tacit-spark-")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": folder,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        **settings,
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

"""One session of Spark for all tests; where it is missing, they are skipped and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark import running


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason='pip install "tacit[spark]" is missing')
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAVA_HOME", "PYSPARK_PYTHON"):  # what Spark is started with ends with it
            patch.setenv(name, os.environ.get(name, ""))
        with running(**{"spark.sql.shuffle.partitions": "2"}) as session:
            yield session

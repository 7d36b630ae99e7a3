"""One server and one session for all tests; where one is missing, tests are skipped and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.servers import MissingEngine, Server, running_postgres, running_spark


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    pytest.importorskip("adbc_driver_postgresql", reason='pip install "tacit[postgres]" is missing')
    try:
        with running_postgres() as server:
            yield server
    except MissingEngine as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason='pip install "tacit[spark]" is missing')
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JAVA_HOME", "PYSPARK_PYTHON"):  # what Spark is started with ends with it
            patch.setenv(name, os.environ.get(name, ""))
        try:
            with running_spark(**{"spark.sql.shuffle.partitions": "2"}) as session:
                yield session
        except MissingEngine as missing:
            pytest.skip(str(missing))

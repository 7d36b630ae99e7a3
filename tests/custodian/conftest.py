import pytest

from tests.custodian.serving import serving, write_smokers


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(write_smokers(tmp_path_factory.mktemp("custody"))) as started:
        yield started

"""From one command to a posterior, as a new user would; and a server with a certificate."""

import os
import re
import shutil
import subprocess
import sys

import pytest

import tacit
from tests.custodian.serving import PEOPLE, Serving, ended, first_line, serving, write_smokers
from tests.custodian.test_serving import COUNTS


def test_what_the_demo_prints_can_be_pasted(tmp_path):
    command = [sys.executable, "-m", "tacit.cli", "serve", "--demo", "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
    )
    try:
        assert "Serving incidents at" in first_line(process)
        said = ""
        while "Truth" not in said:
            said += process.stdout.readline()
        code = said[said.index("import tacit") : said.index("Truth")]
        pasted = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert pasted.returncode == 0, pasted.stderr
        p = float(re.search(r"^p +([\d.]+)", pasted.stdout, re.MULTILINE)[1])
        assert abs(p - 0.18) < 0.06  # the released noise has sd 0.01 here: six of them
        assert "(0.5, 0)-differential privacy for all rows of one patient" in pasted.stdout
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
    elsewhere = tmp_path / "tacit-custody-demo"
    (elsewhere / "custody.toml").unlink()
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "is not a demo's" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_server_with_a_certificate_of_its_own(tmp_path):
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            *subject,
            *files,
        ],
        check=True,
        capture_output=True,
    )
    path = write_smokers(tmp_path)
    own = 'port = 0\ncertificate = "cert.pem"\nkey = "key.pem"'
    path.write_text(path.read_text().replace("port = 0", own))
    with serving(path) as server:
        assert server.url.startswith("https://")
        token = server.token("ana")
        with pytest.raises(tacit.errors.RemoteError, match=r"Cannot trust 127\.0\.0\.1"):
            tacit.connect(f"{server.url}/smokers", token)
        wall = tacit.connect(f"{server.url}/smokers", token, authority=tmp_path / "cert.pem")
        assert wall.release(COUNTS, tacit.Laplace(1)).n == PEOPLE


def test_a_server_that_is_gone_is_waited_for_and_then_named(tmp_path, monkeypatch):
    with serving(write_smokers(tmp_path)) as server:
        wall = server.wall("ana")
        assert isinstance(server, Serving)
        ended(server)
        monkeypatch.setattr("tacit.custodian.client._PATIENCE", 1.0)
        with pytest.raises(tacit.errors.RemoteError, match=r"Cannot reach .*paid once"):
            wall.release(COUNTS, tacit.Laplace(1), name="it")


def test_the_token_may_come_from_the_environment(server, monkeypatch):
    monkeypatch.setitem(os.environ, "TACIT_TOKEN", server.token("env"))
    assert tacit.connect(f"{server.url}/smokers").n_units == PEOPLE

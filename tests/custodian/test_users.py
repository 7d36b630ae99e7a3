"""Two users of one machine: the analyst's cannot reach the server's files, processes or sockets."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from tacit.custodian.custody import Custody
from tacit.custodian.supervisor import Supervisor
from tests.custodian.serving import PEOPLE, serving, write_smokers
from tests.custodian.test_serving import COUNTS

ANALYST, WORKER, WEB = "nobody", "daemon", "games"
# A socket can be connected to by who may write to it.
TRY = 'for path in "$@"; do if [ -r "$path" ] || [ -w "$path" ]; then echo "$path"; fi; done'
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can take the part of others")


def run_as(user: str, *command: str) -> subprocess.CompletedProcess[str]:
    entry = pwd.getpwnam(user)
    owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", **owner)


def _can_run(user: str) -> bool:
    try:
        run_as(user, sys.executable, "-c", "import tacit.custodian.worker")
    except (OSError, KeyError, subprocess.CalledProcessError):
        return False
    return True


def opened(user: str, *paths: Path | str) -> list[str]:
    """Which of these a user can open, list or connect to."""
    return run_as(user, "/bin/sh", "-c", TRY, "-", *map(str, paths)).stdout.split()


@AS_ROOT
def test_the_analysts_user_cannot_reach_what_the_server_has(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:3]):  # the test's own folders are root's alone
        folder.chmod(0o755)
    path = write_smokers(tmp_path / "custody")
    (tmp_path / "custody" / "smokers.csv").chmod(0o600)
    (tmp_path / "readable").write_text("a file that it can read")
    with serving(path) as server:
        assert server.wall("ana").release(COUNTS, tacit.Laplace(1), name="it").n == PEOPLE
        (worker,), (web,) = server.children("worker"), server.children("web")
        state = tmp_path / "custody" / "state"
        kept = [state, *state.rglob("*"), *(tmp_path / "custody").glob("smokers.*")]
        assert len(kept) >= 7
        memory = [f"/proc/{each}/{what}" for each in (worker, web) for what in ("environ", "mem")]
        readable = tmp_path / "readable"
        assert opened(ANALYST, *kept, *memory, readable) == [str(readable)]


@AS_ROOT
@pytest.mark.skipif(
    os.getuid() == 0 and not (_can_run(WORKER) and _can_run(WEB)),
    reason="this Python is in a folder that other users cannot read",
)
def test_each_process_has_its_own_user_and_files(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:3]):  # the test's own folders are root's alone
        folder.chmod(0o755)
    path = write_smokers(tmp_path / "custody", f'user = "{WORKER}"')
    path.write_text(path.read_text().replace("port = 0", f'port = 0\nuser = "{WEB}"'))
    data = tmp_path / "custody"
    entry = pwd.getpwnam(WORKER)
    for each in (data, data / "smokers.csv"):
        os.chown(each, entry.pw_uid, entry.pw_gid)
    (data / "smokers.csv").chmod(0o600)
    path.chmod(0o600)
    with serving(path) as server:
        token = server.token("ana")
        wall = tacit.connect(f"{server.url}/smokers", token)
        assert wall.release(COUNTS, tacit.Laplace(1), name="it").n == PEOPLE
        (worker,), (web,) = server.children("worker"), server.children("web")
        for process, user in ((worker, WORKER), (web, WEB)):
            assert os.stat(f"/proc/{process}").st_uid == pwd.getpwnam(user).pw_uid
            status = Path(f"/proc/{process}/status").read_text()
            uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
            assert set(uids) == {str(pwd.getpwnam(user).pw_uid)}
        state = data / "state" / "web"
        records = [data / "smokers.csv", data / "smokers.ledger", path]
        accounts = [state, state / "accounts.sqlite", state / "smokers.socket"]
        memory = [f"/proc/{worker}/environ", f"/proc/{worker}/mem"]
        assert opened(ANALYST, *records, *accounts, *memory, f"/proc/{web}/environ") == []
        # Nor has the web process the records or the ledger, nor the worker the accounts.
        assert opened(WEB, *records, *memory) == []
        assert opened(WEB, *accounts) == list(map(str, accounts))
        assert opened(WORKER, path, *accounts) == []
        assert opened(WORKER, data / "smokers.csv") == [str(data / "smokers.csv")]


def make_and_close(custody):
    made = Supervisor(custody)
    for child in (made.web, *made.workers.values()):
        for each in child.sockets:
            each.close()


@AS_ROOT
def test_a_link_in_the_web_process_folder_gives_it_nothing(tmp_path):
    """Whoever has that process can put links there, and the next start is root's."""
    path = write_smokers(tmp_path)
    path.write_text(path.read_text().replace("port = 0", f'port = 0\nuser = "{WEB}"'))
    custody, web = Custody.load(path), tmp_path / "state" / "web"
    make_and_close(custody)
    (tmp_path / "smokers.ledger").write_text("the custodian's")
    (web / "link").symlink_to(tmp_path / "smokers.ledger")
    make_and_close(custody)
    assert (tmp_path / "smokers.ledger").stat().st_uid == 0
    assert (web / "link").lstat().st_uid == pwd.getpwnam(WEB).pw_uid
    (web / "accounts.sqlite").unlink()
    (web / "accounts.sqlite").symlink_to(tmp_path / "smokers.ledger")
    with pytest.raises(tacit.errors.FileError, match="symbolic links"):
        Supervisor(custody)


def test_users_need_root(tmp_path, monkeypatch):
    path = write_smokers(tmp_path, 'user = "daemon"')
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(tacit.errors.StudyError, match="started as root"):
        Supervisor(Custody.load(path))
    monkeypatch.setattr(os, "getuid", lambda: 0)
    path = write_smokers(tmp_path, 'user = "no-such-user"')
    with pytest.raises(tacit.errors.StudyError, match="no user 'no-such-user'"):
        Supervisor(Custody.load(path))

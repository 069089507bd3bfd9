"""``tools/gate``: what it says of a commit, and that nothing goes on when it is ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT_S = 120.0


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a repository with this gate, and with `.ci/run` to be written."""
    root = tmp_path / "repository"
    (root / "tools").mkdir(parents=True)
    (root / ".ci").mkdir()
    shutil.copy(ROOT / "tools" / "gate", root / "tools")
    (root / ".gitignore").write_text(".build/\n")
    git(root, "init", "--quiet", "--initial-branch", "main")
    return root


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    done = subprocess.run(
        ["git", *who, *words], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def begun(root: Path, run: str) -> subprocess.Popen[str]:
    """Start the gate on a commit whose `.ci/run` is this script."""
    (root / ".ci" / "run").write_text(run)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "One")
    temporary = root.parent / "temporary"
    temporary.mkdir()
    return subprocess.Popen(
        ["env", "--default-signal", f"TMPDIR={temporary}", "bash", "tools/gate"],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_commit_that_passes_is_noted_by_its_tree(repository: Path) -> None:
    gate = begun(repository, "echo looked at: $PWD $CI\n")
    said, _ = gate.communicate(timeout=LIMIT_S)
    assert gate.returncode == 0, said
    first, last = said.splitlines()
    assert first.startswith(f"looked at: {repository.parent}/temporary/isolane-gate-")
    assert last.endswith(" One")
    assert (repository / ".build" / "gate.log").read_text() == f"{first}\n"
    noted = (repository / ".git" / "gate-passed").read_text()
    assert noted.strip() == git(repository, "rev-parse", "HEAD^{tree}")
    assert not list((repository.parent / "temporary").iterdir())


def test_one_that_fails_is_not(repository: Path) -> None:
    gate = begun(repository, "echo no; exit 3\n")
    said, _ = gate.communicate(timeout=LIMIT_S)
    assert gate.returncode == 1
    assert said.startswith("no\ngate: FAILED after ")
    assert not (repository / ".git" / "gate-passed").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_it_has_begun_ends_with_it(repository: Path, how: signal.Signals) -> None:
    told = repository.parent / "told"
    run = f"""\
(trap '' INT; until [ -e {told}.ended ]; do sleep 0.05; done; sleep 0.3; echo done >>{told}) &
exec python3 -c '
import pathlib, time
try:
    pathlib.Path("{told}.new").touch()
    pathlib.Path("{told}.new").rename("{told}")
    time.sleep(86400)
except KeyboardInterrupt:
    print("cleaning up")
    pathlib.Path("{told}.ended").touch()
'
"""
    gate = begun(repository, run)
    until(told.exists)
    os.killpg(gate.pid, how)  # as a terminal does
    said, _ = gate.communicate(timeout=LIMIT_S)
    assert gate.returncode == 130, said
    assert said.splitlines() == ["cleaning up", "gate: ended"]
    assert told.read_text() == "done\n", "it is waited for"
    assert not list((repository.parent / "temporary").iterdir())
    assert not (repository / ".git" / "gate-passed").exists()

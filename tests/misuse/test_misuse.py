"""Hostile and hasty inputs: each is answered in one line, and leaves the host as it was.

The inputs are rows of ``tests/misuse/table``: a new one is a line there.
"""

from __future__ import annotations

import fnmatch
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import SETTLE_S, STARVES, quiet_host
from tests.look import look
from tests.misuse.row import Row
from tests.misuse.session import NAME, WIRE, Done, Session, held
from tests.misuse.table import ROWS

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

NEVER = re.compile(
    r"Traceback|internal error|libbpf|panicked|Exception ignored|errors\.pydantic\.dev"
    r"|\(details: |\b[A-Z]\w*(?:Error|Exception)\b|<class |object at 0x"
)
"""What no user is to see: tracebacks, names of exceptions, raw words of libraries."""
USAGE = re.compile(r"Usage: isolane|Try 'isolane")


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    quiet_host()
    # Not tmp_path: others than root are to read what lies there.
    with tempfile.TemporaryDirectory(prefix="isolane-misuse-") as folder:
        Path(folder).chmod(0o755)
        made = Session(Path(folder))
        try:
            made.prepare()
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def in_force(session: Session) -> Iterator[None]:
    """A policy on the wire; its routers wait."""
    done = session.carry_out(Row("apply policy.yaml", 0, where="wire"))
    assert done.status == 0, done.stderr
    session.seen.clear()
    yield
    done = session.carry_out(Row("clear", 0, where="wire"))
    assert done.status == 0, done.stderr


def cases() -> list[object]:
    """Rows that need a policy in force come last: it is applied once."""
    order = sorted(ROWS, key=lambda name: ("host", "wire", "policy").index(ROWS[name].where))
    return [pytest.param(name, id=name) for name in order]


@pytest.mark.beside
@pytest.mark.looks_itself
@pytest.mark.parametrize("name", cases())
def test_misuse(name: str, session: Session, request: pytest.FixtureRequest) -> None:
    row = ROWS[name]
    if row.where == "policy":
        request.getfixturevalue("in_force")
    spaces = () if row.where == "host" else (f"/run/netns/{WIRE}",)
    before = session.seen.pop(spaces, None) or look(spaces)
    with held(row.lock.replace("{name}", NAME)):
        done = session.carry_out(row)
    problems = [*_status(row, done), *_words(row, done), *_left(row, done)]
    deadline = time.monotonic() + SETTLE_S
    while (after := look(spaces)) != before and time.monotonic() < deadline:
        time.sleep(0.02)
    problems += [f"{k}: {before[k]} became {after[k]}" for k in before if before[k] != after[k]]
    if not problems:
        session.seen = {spaces: after}
    told = f"{done.status}\n--- stdout\n{done.stdout[:2000]}\n--- stderr\n{done.stderr[:3000]}"
    assert not problems, "\n".join(["", *problems, f"isolane {row.command}: {told}"])


def _status(row: Row, done: Done) -> Iterator[str]:
    if done.status is None:
        yield f"it did not end within {row.limit_s} s"
    elif done.status != row.status:
        yield f"status {done.status}, not {row.status}"


def _words(row: Row, done: Done) -> Iterator[str]:
    for stream, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if found := NEVER.search(text):
            yield f"{found[0]!r} on {stream}"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    said = [line for line in lines if not USAGE.match(line) and not STARVES.match(line)]
    if row.says and not any(re.search(row.says, line) for line in said):
        yield f"no line of stderr matches {row.says!r}"
    if len(said) > (row.lines if row.says else 0):
        yield f"{len(said)} lines on stderr"
    if row.prints is not None:
        if not re.search(row.prints, done.stdout):
            yield f"stdout does not match {row.prints!r}"
    elif row.status not in (0, 4) and done.stdout:
        yield "something is on stdout though it failed"


def _left(row: Row, done: Done) -> Iterator[str]:
    if done.left:
        yield f"left behind: {', '.join(done.left)}"
    extra = [name for name in done.changed if not any(fnmatch.fnmatch(name, p) for p in row.leaves)]
    if extra:
        yield f"made, changed or removed in its directory: {', '.join(extra)}"


def test_rows_are_many_and_about_every_command() -> None:
    from isolane.cli.app import COMMANDS  # noqa: PLC0415 - the whole command line

    assert len(ROWS) >= 240
    words = [set(row.command.split()) for row in ROWS.values()]
    for command in COMMANDS:
        assert any(command in some for some in words), command

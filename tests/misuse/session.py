"""Carrying out rows: what all of them share, and one after the other."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.commands import Job, command_server
from tests.live import COMMAND, LIMIT_S, environment
from tests.look import Look, files
from tests.misuse.files import FILES, GOOD
from tests.misuse.row import Content, Link, Made, Row
from tests.wires import bring_up, ip, pair

ROOT = Path(__file__).parents[2]
NAME = f"misuse-{os.getpid()}"
"""Of the policy, its cgroups, and the namespaces of this session."""
WIRE, FAR = f"e2e-{NAME}", f"e2e-{NAME}-far"
KEPT = ("PATH", "HOME", "TERM", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Done:
    """What came of a row."""

    status: int | None
    """None: it took longer than it may."""
    stdout: str
    stderr: str
    left: tuple[str, ...] = ()
    """Temporary files that it left, and processes."""
    changed: tuple[str, ...] = ()
    """Files of its directory that it made, changed or removed."""


@dataclass
class Session:
    """Directories and a namespace with a wire, for all rows."""

    folder: Path
    rows: int = 0
    run: Path = field(init=False)
    """The folder of a run that went well."""
    seen: dict[tuple[str, ...], Look] = field(default_factory=dict)
    """What the host looked like after the last row, which is before the next one."""

    def __post_init__(self) -> None:
        self.run = self.folder / "a-run"

    def prepare(self) -> None:
        """Make the run and the wire that rows are about."""
        row = Row(f"run good.yaml --on sim -o {self.run}", 0, ".*", lines=99)
        done = self.carry_out(row)
        assert done.status == 0, done.stderr
        for name in (WIRE, FAR):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        pair((WIRE, "w0"), (FAR, "w0"), 10)
        ip("-n", WIRE, "addr", "add", "198.18.0.1/24", "dev", "w0")
        pair((WIRE, "w1"), (FAR, "w1"), 20)  # it stays down
        ip("netns", "exec", FAR, "ethtool", "-K", "w0", "gro", "on")  # it takes XDP frames
        bring_up((WIRE, "w0"), (FAR, "w0"))

    def close(self) -> None:
        """Remove what :meth:`prepare` made."""
        for name in (WIRE, FAR):
            with contextlib.suppress(AssertionError):
                ip("netns", "del", name)

    def carry_out(self, row: Row) -> Done:
        """Do what the row says, in a new directory; see also :meth:`here`."""
        self.rows += 1
        here = self.here
        here.mkdir()
        (self.folder / "tmp").mkdir(exist_ok=True)
        words = shlex.split(self._filled(row.command))
        for name, content in {**_named(words), **row.files}.items():
            _make(here / name, content, self)
        given = files(here)
        fresh = row.fresh or row.prefix
        done = self._fresh(row, words) if fresh else self._quick(row, words)
        found = files(here)
        names = sorted({*given, *found})
        changed = tuple(name for name in names if given.get(name) != found.get(name))
        return replace(done, changed=changed)

    @property
    def here(self) -> Path:
        """Directory of the row that is being carried out, or was last."""
        return self.folder / f"row-{self.rows}"

    def _filled(self, text: str) -> str:
        """Fill in what stands in braces."""
        known = {
            "run": self.run, "here": self.here, "tmp": self.folder / "tmp", "far": FAR,
            "wire": WIRE, "python": sys.executable,
        }  # fmt: skip
        for name, value in known.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def _environment(self, row: Row) -> dict[str, str]:
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        env |= {"TMPDIR": str(self.folder / "tmp"), "ISOLANE_POLICY": NAME, "LC_ALL": "C.UTF-8"}
        env["PYTHONPATH"] = str(ROOT / "python")
        for name, value in row.env.items():
            env.pop(name, None)
            if value is not None:
                env[name] = self._filled(value)
        return env

    def _streams(self) -> tuple[Path, Path]:
        """Files that catch what the row prints, outside its directory."""
        out, err = self.folder / f"out-{self.rows}", self.folder / f"err-{self.rows}"
        out.touch(0o666)
        err.touch(0o666)
        return out, err

    def _quick(self, row: Row, words: list[str]) -> Done:
        out, err = self._streams()
        job = Job(
            words,
            self._environment(row),
            stdin=self._filled(row.stdin),
            stdout=self._filled(row.stdout) or str(out),
            stderr=self._filled(row.stderr) or str(err),
            cwd=str(self.here),
            limits=row.limits,
            limit_s=row.limit_s,
        )
        if row.where != "host":
            job = replace(job, netns=f"/run/netns/{WIRE}")
        ended = command_server(environment()).do(job)
        return self._done(ended.status, ended.pid, out, err)

    def _fresh(self, row: Row, words: list[str]) -> Done:
        out, err = self._streams()
        inside = () if row.where == "host" else ("nsenter", f"--net=/run/netns/{WIRE}")
        command = [*inside, *(self._filled(word) for word in row.prefix), *COMMAND, *words]

        def become() -> None:
            os.setpgid(0, 0)
            targets = (row.stdin, row.stdout or str(out), row.stderr or str(err))
            for number, target in enumerate(map(self._filled, targets)):
                opened = os.open(target, os.O_WRONLY if number else os.O_RDONLY)
                os.dup2(opened, number)
                os.close(opened)
            for name, limit in row.limits.items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (limit, limit))

        process = subprocess.Popen(
            command, cwd=self.here, env=self._environment(row),
            preexec_fn=become,  # noqa: PLW1509 - nothing here has threads
        )  # fmt: skip
        status: int | None
        try:
            status = process.wait(row.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        return self._done(status, process.pid, out, err)

    def _done(self, status: int | None, pid: int, out: Path, err: Path) -> Done:
        left = [str(path) for path in (self.folder / "tmp").iterdir()]
        shutil.rmtree(self.folder / "tmp")
        left += self._processes(pid)
        return Done(
            status,
            out.read_text(errors="backslashreplace"),
            err.read_text(errors="backslashreplace"),
            tuple(left),
        )

    @staticmethod
    def _processes(group: int) -> list[str]:
        """Processes that outlived the command; they are ended."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return []
            time.sleep(0.001)  # some helpers end a moment later
        os.killpg(group, signal.SIGKILL)
        return [f"a process of group {group}"]


def _named(words: list[str]) -> dict[str, Content]:
    """Files that the command names and that everybody may use."""
    return {word: FILES[word] for word in words if word in FILES}


def _make(path: Path, content: Content, session: Session) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_dir():
        path.unlink(missing_ok=True)  # that of a copied run
    if isinstance(content, Link):
        path.symlink_to(session._filled(content.to))
    elif isinstance(content, Made):
        _make_odd(path, content)
    elif content == "a-run":  # a copy of the run, to be spoilt by what follows
        shutil.copytree(session.run, path)
    elif isinstance(content, str):
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    else:
        path.write_bytes(content)


def _make_odd(path: Path, content: Made) -> None:
    if content.kind == "directory":
        path.mkdir()
    elif content.kind == "fifo":
        os.mkfifo(path)
    elif content.kind == "dangling":
        path.symlink_to(path.with_name("absent") / "absent")
    elif content.kind == "unreadable":
        path.write_text(GOOD)
        path.chmod(0)
    else:  # never the host's own node: a program that goes wrong would destroy it
        minor = {"null": 3, "full": 7}[content.kind]
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
    """Hold a lock, as another command would; nothing for an empty path."""
    if not path:
        yield
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield

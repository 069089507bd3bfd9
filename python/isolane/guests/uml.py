"""A User-Mode Linux guest: a whole kernel in a process, on any host, without virtualisation.

The guest lives in PID and mount namespaces of its own. When the process that started it ends, by
whatever signal, the kernel kills the first process of that PID namespace, and with it all others.
Its root is this host's file system without ``/root`` and ``/home``, and read-only: not by the
guest's word, but in the mount namespace of the process that is the guest.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from isolane.children import die_with_parent
from isolane.errors import NotSupported, TestbedError

KERNEL: Final = "linux.uml"
PACKAGE: Final = "user-mode-linux"
READY: Final = "isolane: guest is ready"
"""What the guest's first process writes when its script is done."""
_BEGIN, _END, _NONE = "isolane: begin", "isolane: end", "isolane: none"
"""What it writes around a file that it is asked for."""
DIRECTORY: Final = Path("/run/isolane/guests")
_MEMORY: Final = "/dev/shm"  # noqa: S108 - where the guest's kernel makes its memory's file
_OWN_FOLDER: Final = "uml"
"""The guest's kernel makes it, and empties it first if it is there."""
_HIDDEN: Final = ("/root", "/home")
_LAST_LINES: Final = 5
_STACK: Final = "\nStack:"
_ENDING_S: Final = 5.0
_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_/]*")
_FIRST: Final = (
    "stty -echo",
    "export PATH=/usr/sbin:/usr/bin:/sbin:/bin",
    "mount -t proc proc /proc",
    "mount -t sysfs sysfs /sys",
    "mount -t tmpfs -o size=1m tmpfs /tmp",
)
_ANSWERING: Final = f"""\
while read -r name; do
    echo '{_BEGIN}'
    if [ -r "/proc/$name" ]; then cat "/proc/$name"; else echo '{_NONE}'; fi
    echo '{_END}'
done"""


@dataclass(frozen=True)
class UmlPlan:
    """A guest to be started.

    Parameters
    ----------
    name
        Names its folder: letters, digits and hyphens.
    script
        Shell commands that the guest's first process does before it is ready.
    memory_mb
        Its memory, MiB.
    """

    name: str
    script: str = ""
    memory_mb: int = 64


class UmlGuest:
    """One guest; it runs between entry and exit.

    Parameters
    ----------
    plan
        What to start. It is started in the network namespace of the thread that enters.
    limit_s
        Longest time until it is ready, s.
    directory
        Gets a folder of the guest's name, which is removed again.

    Raises
    ------
    NotSupported
        On entry, if there is no guest kernel on this host.
    TestbedError
        On entry, if the guest does not get ready: with the last lines of its console.
    """

    def __init__(self, plan: UmlPlan, limit_s: float = 60.0, directory: Path = DIRECTORY) -> None:
        self.plan = plan
        self.folder = directory / plan.name
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._console = b""

    def __enter__(self) -> Self:
        if shutil.which(KERNEL) is None:
            raise NotSupported(
                f"not supported on this host: there is no {KERNEL} (apt-get install {PACKAGE})"
            )
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            raise TestbedError(f"a guest named {self.plan.name} is there: {self.folder}") from None
        try:
            self._start()
            self._await(READY, 0, "was not ready")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    @property
    def last_lines(self) -> str:
        """The last lines of its console, in one line; of a panic without the stack."""
        self._read_console(0.0)
        text = self._console.decode(errors="replace")
        lines = text.partition(_STACK)[0].splitlines()
        return " | ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip())

    def proc(self, name: str) -> str:
        """Read a file under ``/proc`` of the guest, such as ``net/dev``.

        Raises
        ------
        TestbedError
            If there is no such file, or the guest does not answer within its time.
        """
        process = self._process
        if process is None or process.stdin is None or not _NAME.fullmatch(name):
            raise TestbedError(f"guest {self.plan.name} cannot be asked for {name!r}")
        begun = len(self._console)
        try:
            os.write(process.stdin.fileno(), f"{name}\n".encode())
        except BrokenPipeError:
            raise self._failed("has ended") from None
        self._await(_END, begun, f"did not answer for {name}")
        text = self._console[begun:].decode(errors="replace").replace("\r\n", "\n")
        found = text.partition(f"{_BEGIN}\n")[2].partition(_END)[0]
        if found.strip() == _NONE:
            raise TestbedError(f"guest {self.plan.name} has no /proc/{name}")
        return found

    def close(self) -> None:
        """End it, with all its processes, and remove its folder."""
        if self._process is not None:
            self._process.kill()  # with it the PID namespace that it began, see unshare(1)
            self._process.wait(_ENDING_S)
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        init = self.folder / "init"
        lines = ("#!/bin/sh", *_FIRST, self.plan.script, f"echo '{READY}'", _ANSWERING)
        init.write_text("\n".join(lines) + "\n")
        init.chmod(0o700)
        guest = shlex.join([KERNEL, *self._arguments(init)])
        # The shell stays: a guest that were the first process of its namespace could not abort.
        inside = "\n".join(["set -e", self._read_only(), *self._mounts(), f"{guest}; exit"])
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl(2)
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _read_only(self) -> str:
        """Return commands that make all that is mounted read-only, but for the guest's folder."""
        folder = shlex.quote(str(self.folder))
        return f"""\
mount --bind {folder} {folder}
findmnt --list --noheadings --output TARGET | while IFS= read -r target; do
    [ "$target" = {folder} ] || ! mountpoint -q "$target" || mount -o remount,bind,ro "$target"
done"""

    def _mounts(self) -> list[str]:
        """Return commands that make the guest's view of this host's files; they vanish with it."""
        # The guest's memory is a file there, which must be executable.
        size = f"size={self.plan.memory_mb + 32}m,mode=0700"
        mounts = [
            f"mount -t tmpfs -o {size} isolane-guest {_MEMORY}",
            "mount -t proc -o ro proc /proc",
        ]
        hidden = [path for path in _HIDDEN if Path(path).is_dir()]
        return mounts + [f"mount -t tmpfs -o size=4k,ro none {path}" for path in hidden]

    def _arguments(self, init: Path) -> list[str]:
        return [
            f"mem={self.plan.memory_mb}M",
            f"umid={_OWN_FOLDER}",
            f"uml_dir={self.folder}",
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"),
            f"init={init}",
            *("con=null", "con0=fd:0,fd:1", "quiet", "panic=-1"),
        ]

    def _await(self, words: str, begun: int, failed: str) -> None:
        """Wait until the console says something, after what it has said until `begun`."""
        deadline_s = time.monotonic() + self._limit_s
        while words.encode() not in self._console[begun:]:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise self._failed(f"{failed} within {self._limit_s:g} s")
            running = self.is_running
            self._read_console(min(left_s, 0.1))
            if not running and words.encode() not in self._console[begun:]:
                raise self._failed(f"{failed} and has ended")

    def _failed(self, what: str) -> TestbedError:
        return TestbedError(f"guest {self.plan.name} {what}; its console: {self.last_lines or '-'}")

    def _read_console(self, wait_s: float) -> None:
        """Take what the guest has written meanwhile, after waiting for something."""
        process = self._process
        if process is None or process.stdout is None:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(wait_s):
                return
        while found := process.stdout.read(65_536):
            self._console += found

"""A guest: a virtual machine in a process, from its start to its end, and what it is asked.

The guest lives in PID, network and mount namespaces of its own: of this host's networks it has the
NICs that it is given, and nothing else. When the process that started it ends, by whatever signal,
the kernel kills the first process of that PID namespace, and with it all others. All files of this
host are read-only for it, by the mount namespace and not by the guest's word.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, Self

from isolane.children import die_with_parent
from isolane.errors import TestbedError
from isolane.guests.console import Console
from isolane.guests.guest_answers import BEGIN, END, READY, WORK, files_in
from isolane.guests.own_core import stay_on
from isolane.procfs import children, descendants, family, thread_name, threads_of

GuestPart = Literal["processors", "programs", "emulator"]
"""What a thread of this host does for a guest: it runs the guest's code as one of its processors
(under User-Mode Linux its kernel alone), or a program in it, or does what else a guest needs."""
DIRECTORY: Final = Path("/run/isolane/guests")
_HIDDEN: Final = ("/root", "/home")
_ENDING_S: Final = 1.0
_UNBEGUN_S: Final = 1.0
"""How long unshare(1) may take to start its child, when the guest is ended at once."""
_GATHER_S: Final = 0.0005
"""How long more of an answer is waited for at a time: a serial line brings it letter by letter."""
_COMM: Final = 15
"""Characters that the kernel keeps of a program's name."""
_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_/]*")


@dataclass(frozen=True)
class GuestPlan:
    """What each guest has, whatever runs it.

    Parameters
    ----------
    name
        Names its folder: letters, digits and hyphens.
    script
        Shell commands that the guest's first process does before it is ready.
    core
        The core of this host that it runs on once it is ready; until then, and if None: any that
        the starting thread may use.
    """

    name: str
    script: str = ""
    core: int | None = None


class Guest(ABC):
    """One guest; it runs between entry and exit.

    Parameters
    ----------
    plan
        What to start. It ends, at the latest, with the thread that enters.
    limit_s
        Longest time until it is ready, s.
    directory
        Gets a folder of the guest's name, which is removed again.

    Raises
    ------
    NotSupported
        On entry, if this host lacks what runs it.
    TestbedError
        On entry, if the guest does not get ready: with the last lines of its console.
    """

    PROGRAM: ClassVar[str]
    """Name of the program that is the guest."""

    def __init__(self, plan: GuestPlan, limit_s: float = 60.0, directory: Path = DIRECTORY) -> None:
        self._name = plan.name
        self._core = plan.core
        self.folder = directory / plan.name
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._console = Console()
        self._deadline_s = 0.0
        self._asked: tuple[str, ...] = ()
        self._questions = 0

    @staticmethod
    @abstractmethod
    def mark(folder: Path) -> str:
        """Return the word of its command line that says whose folder it has."""

    @abstractmethod
    def _check(self) -> None:
        """Raise NotSupported if this host cannot run it."""

    @abstractmethod
    def _prepare(self) -> None:
        """Write its files into its folder, which is new."""

    @abstractmethod
    def _mounts(self) -> list[str]:
        """Return commands that make its view of this host's files; they vanish with it."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command that is the guest."""

    def _environment(self) -> str:
        """Return variables that it is given beyond this process's, as the shell writes them."""
        return ""

    def _redirections(self) -> str:
        """Return what the shell opens for it."""
        return ""

    def _descriptors(self) -> list[int]:
        """Return this process's open files that it is given."""
        return []

    def __enter__(self) -> Self:
        self.start()
        try:
            while not self.is_ready(0.1):
                pass
        except BaseException:
            self.close()
            raise
        return self

    def start(self) -> None:
        """Start it and do not wait: several guests boot side by side; see :meth:`is_ready`."""
        self._check()
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            raise TestbedError(f"a guest named {self._name} is there: {self.folder}") from None
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        self._deadline_s = time.monotonic() + self._limit_s

    def is_ready(self, wait_s: float = 0.0) -> bool:
        """Tell whether it is ready, after waiting for a sign of it.

        Raises
        ------
        TestbedError
            When it has ended, or its time is over: with the last lines of its console.
        """
        if not self._says(READY, "was not ready", self._deadline_s, wait_s):
            return False
        if self._core is not None:
            stay_on(self._core, self.threads)
        return True

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    @property
    def process(self) -> int:
        """Number of the process that all others of it come from.

        Raises
        ------
        TestbedError
            When it is not started.
        """
        if self._process is None:
            raise TestbedError(f"guest {self._name} is not started")
        return self._process.pid

    def threads(self) -> list[int]:
        """Return all threads of this host that are the guest, its start-up shell's included."""
        return descendants(self._process.pid) if self._process is not None else []

    def parts(self) -> dict[GuestPart, list[int]]:
        """Return the same threads by what they do for the guest."""
        members = family(self._process.pid) if self._process is not None else []
        every = [thread for process in members for thread in threads_of(process)]
        emulator = next((p for p in members if thread_name(p) == self.PROGRAM[:_COMM]), None)
        if emulator is None:  # it is just starting, or has ended
            return {"processors": [], "programs": [], "emulator": every}
        processors, programs = self._processors(emulator), self._programs(emulator)
        rest = [thread for thread in every if thread not in {*processors, *programs}]
        return {"processors": processors, "programs": programs, "emulator": rest}

    @abstractmethod
    def _processors(self, emulator: int) -> list[int]:
        """Return the threads that are the guest's processors."""

    def _programs(self, emulator: int) -> list[int]:  # noqa: ARG002 - one sort of guest has them
        """Return the threads that run the guest's programs and nothing else."""
        return []

    @property
    def last_lines(self) -> str:
        """The last lines of its console, in one line; of a panic without the stack."""
        self._read_console(0.0)
        return self._console.last_lines

    def proc(self, name: str) -> str:
        """Read a file under ``/proc`` of the guest, such as ``net/dev``.

        Raises
        ------
        TestbedError
            If there is no such file, or the guest does not answer within its time.
        """
        self.ask(name)
        return self.answer()[name]

    def ask(self, *names: str) -> None:
        """Ask for files under ``/proc`` of the guest, and do not wait; see :meth:`answer`.

        So several guests answer side by side.

        Raises
        ------
        TestbedError
            If there can be no such file, or the guest has ended.
        """
        process = self._process
        for name in names:
            if process is None or process.stdin is None or not _NAME.fullmatch(name):
                raise TestbedError(f"guest {self._name} cannot be asked for {name!r}")
        self._asked = names
        self._tell(" ".join(f"/proc/{name}" for name in names))

    def _tell(self, words: str) -> None:
        """Send the guest a line, with a number of its own."""
        process = self._process
        if process is None or process.stdin is None:
            raise TestbedError(f"guest {self._name} is not started")
        self._questions += 1
        self._console.clear()
        try:
            os.write(process.stdin.fileno(), f"{self._questions} {words}\n".encode())
        except BrokenPipeError:
            raise self._failed("has ended") from None

    def tell_work(self, orders: Mapping[str, str]) -> None:
        """Give each work that its script has started an order; see :meth:`await_work`."""
        self._asked = tuple(orders)
        self._tell(" ".join(f"{order} {work}" for work, order in orders.items()))

    def await_work(self) -> None:
        """Wait until all have it; raise TestbedError if a program or the guest has ended."""
        said = [line.strip() for line in self._between().splitlines()]
        if ended := [work for work in self._asked if f"{WORK} {work}" not in said]:
            raise TestbedError(f"the work of guest {self._name} has ended: {', '.join(ended)}")

    def answer(self) -> dict[str, str]:
        """Return the files that it was asked for last, by name.

        Raises
        ------
        TestbedError
            If one of them does not exist, or the guest does not answer within its time.
        """
        found = files_in(self._between())
        for name in self._asked:
            if name not in found:
                raise TestbedError(f"guest {self._name} has no /proc/{name}")
        return found

    def _between(self) -> str:
        """Wait for the answer to the last question, and return it."""
        # The line's end belongs to it: there is a 12 for each 1.
        begin, end = (f"{words} {self._questions}\n" for words in (BEGIN, END))
        self._await(end, f"did not answer for {', '.join(self._asked)}")
        return self._console.text.partition(begin)[2].partition(end)[0]

    def close(self) -> None:
        """End it, with all its processes, and remove its folder."""
        process, self._process = self._process, None
        if process is not None:
            self._end(process)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent == DIRECTORY:
            with contextlib.suppress(OSError):  # others have guests
                DIRECTORY.rmdir()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End all of its processes, and wait until they have gone."""
        deadline_s = time.monotonic() + _UNBEGUN_S
        while process.poll() is None:
            # With the first process of a PID namespace all others go, and before it: so unshare(1),
            # its parent, ends last. Until it has that child it is killed itself.
            first = children(process.pid)
            for number in first:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            if not first and time.monotonic() > deadline_s:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.005 if not first else _ENDING_S)

    def _start(self) -> None:
        self._prepare()
        guest = f"{self._environment()} {shlex.join(self._command())} {self._redirections()}"
        hidden = [path for path in _HIDDEN if Path(path).is_dir()]
        # The shell stays: a guest that were the first process of its namespace could not abort.
        inside = "\n".join(
            [
                "set -e",
                self._read_only(),
                *self._mounts(),
                "mount -t proc -o ro proc /proc",
                *(f"mount -t tmpfs -o size=4k,ro none {path}" for path in hidden),
                f"{guest}; exit",
            ]
        )
        self._process = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=self._as_guest,  # noqa: PLW1509 - a few system calls
            pass_fds=self._descriptors(),
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _as_guest(self) -> None:
        die_with_parent()
        if self._core is not None:
            os.sched_setaffinity(0, {self._core, *os.sched_getaffinity(0)})

    def _read_only(self) -> str:
        """Return commands that make all that is mounted read-only, but for the guest's folder."""
        folder = shlex.quote(str(self.folder))
        return f"""\
mount --bind {folder} {folder}
findmnt --list --noheadings --output TARGET | while IFS= read -r target; do
    [ "$target" = {folder} ] || ! mountpoint -q "$target" || mount -o remount,bind,ro "$target"
done"""

    def _await(self, words: str, failed: str) -> None:
        """Wait until the console says something."""
        deadline_s = time.monotonic() + self._limit_s
        while not self._says(words, failed, deadline_s, 0.1):
            time.sleep(_GATHER_S)

    def _says(self, words: str, failed: str, deadline_s: float, wait_s: float) -> bool:
        """Tell whether the console has said something, after a look at it."""
        running = self.is_running  # before the look: what it says at its end is seen, too
        left_s = max(0.0, deadline_s - time.monotonic())
        self._read_console(min(left_s, wait_s))
        if self._console.says(words):
            return True
        if not running:
            raise self._failed(f"{failed} and has ended")
        if not left_s:
            raise self._failed(f"{failed} within {self._limit_s:g} s")
        return False

    def _failed(self, what: str) -> TestbedError:
        return TestbedError(f"guest {self._name} {what}; its console: {self.last_lines or '-'}")

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
            self._console.add(found)

"""Runs the command again and again without starting an interpreter each time.

``python -m tests.command_server FD``: reads jobs (:class:`tests.commands.Job`), one JSON object a
line, from the descriptor, and answers on it. Everything is imported once; each job is a fork that
becomes what a fresh process would be: directory, environment, limits, streams, network namespace.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from isolane.cli import main
from isolane.report.assets import environment
from isolane.spec.base import SpecModel
from isolane.spec.descriptions import descendants
from isolane.stored_model import StoredModel


def imported() -> None:
    """Import what commands import when they are at work."""
    for name in ("cli", "spec", "results", "trials", "trials.live", "trials.sim", "analysis", "run",
                 "report", "enforce", "verify", "export", "calibrate", "reproduce", "doctor",
                 "testbed", "guests", "external", "netback"):  # fmt: skip
        package = importlib.import_module(f"isolane.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith(("test_", "conftest")):
                importlib.import_module(f"isolane.{name}.{module.name}")
    for name in ("scipy.stats", "pyroute2"):  # loaded when they are first used: half a second
        importlib.import_module(name)
    for model in (*descendants(SpecModel), *descendants(StoredModel)):  # likewise
        model.model_rebuild()
    environment().get_template("page.html.j2")  # likewise: compiled


def become(job: dict[str, Any]) -> None:
    """Make this process what the job says."""
    os.setpgid(0, 0)
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, stream(number, job[name]))
    descriptor = os.open(job["netns"], os.O_RDONLY | os.O_CLOEXEC)
    if os.fstat(descriptor).st_ino != Path("/proc/self/ns/net").stat().st_ino:
        os.setns(descriptor) if hasattr(os, "setns") else _setns(descriptor)
    os.close(descriptor)
    os.sched_setaffinity(0, job["cores"])
    for name, limit in job["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (limit, limit))
    sys.argv = ["isolane", *job["arguments"]]
    while job["begin_file"] and not Path(job["begin_file"]).exists():
        time.sleep(0.001)


def stream(number: int, target: str) -> TextIO | None:
    """Open a standard stream as an interpreter does when it starts; None for a closed one."""
    if target == "closed":
        os.close(number)
        return None
    opened = os.open(target, os.O_WRONLY if number else os.O_RDONLY)
    os.dup2(opened, number)
    os.close(opened)
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    if number == 0:
        return open(0, encoding=encoding, closefd=False)
    if number == 1:
        return open(1, "w", encoding=encoding, closefd=False)
    return open(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)


def _setns(descriptor: int) -> None:
    from isolane.testbed import kernel  # noqa: PLC0415 - Python 3.11 has no os.setns

    kernel.setns_net(descriptor)


def begun(job: dict[str, Any]) -> int:
    """Return 0 in a process that is to become a job in the background, its number in the server.

    Between them is one that waits for its end, and writes its status down before anybody else can
    have its number.
    """
    reading, writing = os.pipe()
    waiting = os.fork()
    if waiting:
        os.close(writing)
        with open(reading) as told:  # noqa: PTH123 - a descriptor
            return int(told.read())
    os.close(reading)
    child = os.fork()
    if child == 0:
        os.close(writing)
        return 0
    os.write(writing, str(child).encode())
    os.close(writing)
    ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    new = Path(f"{job['ended_file']}.new")
    with contextlib.suppress(FileNotFoundError):  # the test has ended, and nobody asks any more
        new.write_text(str(status))
        new.rename(job["ended_file"])
    os.waitpid(child, 0)
    os._exit(0)


def waited(child: int, limit_s: float) -> int | None:
    """Return the exit status; None when it had to be killed because it took too long."""
    deadline = time.monotonic() + limit_s
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.001)


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Answer jobs until there are no more; the job, in the process that has become one."""
    imported()
    jobs = channel.makefile("r", encoding="utf-8")
    gc.freeze()  # what is there stays: the collector need not touch, and thereby copy, its pages
    channel.sendall(b'"ready"\n')
    for line in jobs:
        job = json.loads(line)
        _reap()
        child = begun(job) if job["ended_file"] else os.fork()
        if child == 0:
            jobs.close()
            channel.close()
            become(job)
            return dict(job)
        status = None if job["ended_file"] else waited(child, job["limit_s"])
        answer = {"status": status, "pid": child}
        channel.sendall(json.dumps(answer).encode() + b"\n")
    return None


def _reap() -> None:
    """Ask after those that have waited for jobs in the background."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def leave(status: object) -> None:
    """End as an interpreter does, without taking everything apart that was imported.

    Threads come first: a pool of processes closes its queue from one, and multiprocessing's exit
    functions close the same descriptors.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    code = status if isinstance(status, int) else 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        os.write(2, f"Exception ignored in: <stdout> {error}\n".encode())
        code = 120
    os._exit(code)


def carry_out(job: dict[str, Any]) -> object:
    """Run the command, or what is run in its place; return its exit status."""
    try:
        if job["code"]:
            exec(job["code"], {"__name__": "__main__"})
        else:
            main()
    except SystemExit as stop:
        return stop.code or 0
    return 0


if __name__ == "__main__" and (given := serve(socket.socket(fileno=int(sys.argv[1])))):
    leave(carry_out(given))

"""Runs probes side by side, each in a child process with a time limit."""

from __future__ import annotations

import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import NoReturn

from isolane.doctor.answers import Answer, Probe

_KILL_WAIT_S = 10.0
"""How long to wait for a killed child to end; one that hangs in the kernel is left to init."""


@dataclass
class _Child:
    probe: Probe
    pid: int
    pipe: int
    deadline: float
    data: bytearray = field(default_factory=bytearray)


def answer_all(probes: Iterable[Probe]) -> dict[str, Answer]:
    """Run all probes at once and return their answers by capability id.

    A probe that fails or exceeds its time gives ``unknown``, with the reason, for all of its
    capabilities. What it had in folders for temporary files goes with it.
    """
    answers: dict[str, Answer] = {}
    with _folder() as folder, _children() as children:
        for probe in probes:
            with _signals_held():
                children.append(_start(probe, folder))
        waiting = {child.pipe: child for child in children}
        while waiting:
            for child in _next_done(waiting):
                del waiting[child.pipe]
                answers.update(_answers_of(child))
    return answers


@contextmanager
def _folder() -> Iterator[str | None]:
    """Make the folder that is the children's for temporary files; None where none can be made."""
    try:
        made = TemporaryDirectory(prefix="isolane-doctor-", ignore_cleanup_errors=True)
    except OSError:
        yield None
        return
    with made as folder:
        yield folder


@contextmanager
def _children() -> Iterator[list[_Child]]:
    """Keep the list of children; at the end of the block, kill by pid those that still run."""
    children: list[_Child] = []
    try:
        yield children
    finally:
        for child in children:
            os.close(child.pipe)
            _end(child.pid)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold signals back between a fork and its entry in the list, so that no child is forgotten.

    By handlers and not by this thread's mask: another thread of this process could take the signal,
    and Python would still interrupt this one.
    """
    held: list[int] = []
    before = {}
    try:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, lambda got, _: held.append(got))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in held:
            signal.raise_signal(one)


def _start(probe: Probe, folder: str | None) -> _Child:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        tempfile.tempdir = folder or tempfile.tempdir
        _be_the_child(probe, writing)
    os.close(writing)
    return _Child(probe, pid, reading, time.monotonic() + probe.seconds)


def _be_the_child(probe: Probe, pipe: int) -> NoReturn:
    """Run the probe and write its answers; never returns into the parent's code."""
    try:
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
        try:
            found = dict(probe.function())
        except PermissionError as error:
            found = _unknown(
                probe,
                f"only root can try this ({error.strerror or error}); run the doctor with sudo",
            )
        except Exception as error:  # noqa: BLE001 - whatever a host does, the doctor goes on
            found = _unknown(probe, f"the attempt failed: {error}")
        text = json.dumps({name: (answer.status, answer.detail) for name, answer in found.items()})
        os.write(pipe, text.encode())
    finally:
        os._exit(0)


def _next_done(waiting: dict[int, _Child]) -> list[_Child]:
    """Wait until children have answered or exceeded their time; return these."""
    now = time.monotonic()
    patience = max(0.0, min(child.deadline for child in waiting.values()) - now)
    readable, _, _ = select.select(list(waiting), [], [], patience)
    done = []
    for pipe in readable:
        chunk = os.read(pipe, 65536)
        if chunk:
            waiting[pipe].data += chunk
        else:
            done.append(waiting[pipe])
    now = time.monotonic()
    late = [child for child in waiting.values() if child.deadline <= now and child not in done]
    for child in late:
        child.data.clear()
    return done + late


def _answers_of(child: _Child) -> dict[str, Answer]:
    if child.data:
        found = json.loads(child.data)
        return {name: Answer(status, detail) for name, (status, detail) in found.items()}
    if child.deadline <= time.monotonic():
        return _unknown(child.probe, f"no answer within {child.probe.seconds:g} s")
    return _unknown(child.probe, "the attempt ended without an answer")


def _unknown(probe: Probe, detail: str) -> dict[str, Answer]:
    return dict.fromkeys(probe.answers, Answer("unknown", detail))


def _end(pid: int) -> None:
    """Kill and reap one child; a child that is done is only reaped."""
    deadline = time.monotonic() + _KILL_WAIT_S
    with suppress(ProcessLookupError, ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == 0:
            os.kill(pid, signal.SIGKILL)
            while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.005)  # no handle to wait on with a limit before pidfd

"""Time slices of threads, on kernels that know them and on those that do not."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from pathlib import Path
from typing import cast

import pytest

from isolane import scheduling
from isolane.enforce import transaction
from isolane.enforce.host_access import Host
from isolane.enforce.policy_plan import SLICE_NS, scheduled
from isolane.enforce.policy_state import State
from isolane.enforce.setting import Desired
from isolane.enforce.settings import Scheduling, Slice, tasks
from isolane.procfs import started

NO_HOST = cast("Host", None)


def threads(found: dict[int, tuple[int, int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel tell this of its threads."""

    def told(thread: int) -> tuple[int, int, int]:
        if thread not in found:
            raise ProcessLookupError
        return found[thread]

    monkeypatch.setattr(scheduling, "get_scheduling", told)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        ({0: (os.SCHED_OTHER, 0, 2_800_000)}, True),
        ({0: (os.SCHED_BATCH, 5, 0)}, False),
        ({0: (os.SCHED_FIFO, 0, 0), 2: (os.SCHED_OTHER, 0, 0)}, False),
        ({0: (os.SCHED_FIFO, 0, 0), 2: (os.SCHED_OTHER, 0, 2_800_000)}, True),
        ({0: (os.SCHED_FIFO, 0, 0)}, True),
    ],
)
def test_any_ordinary_thread_tells(
    found: dict[int, tuple[int, int, int]], known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads(found, monkeypatch)
    assert scheduling.has_slices() == known
    assert scheduled(os.SCHED_BATCH, 0) == [os.SCHED_BATCH, 0, SLICE_NS if known else 0]


def test_a_kernel_without_slices_takes_a_policy_and_shows_no_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = os.getpid()
    told = {0: (os.SCHED_OTHER, 0, 0), thread: (os.SCHED_OTHER, 0, 0)}
    threads(told, monkeypatch)

    def schedule(thread: int, policy: int, nice: int, slice_ns: int) -> None:  # noqa: ARG001
        told[thread] = (policy, nice, 0)

    monkeypatch.setattr(scheduling, "set_scheduling", schedule)
    began = started(thread)
    assert began is not None
    setting = Scheduling("vr1", "thread of eth0", thread, began)
    (tmp_path / "state").mkdir()
    state = State.load(tmp_path / "state")
    wanted = Desired(setting, scheduled(os.SCHED_BATCH, 0))
    transaction.apply([wanted], state, NO_HOST, {"policy": "p"})
    assert told[thread] == (os.SCHED_BATCH, 0, 0)
    assert transaction.drifts(state, transaction.read_all(state, NO_HOST)) == []
    assert transaction.clear(state, NO_HOST) == []
    assert told[thread] == (os.SCHED_OTHER, 0, 0)


@pytest.mark.parametrize(
    ("thread", "takes"),
    [
        ((os.SCHED_OTHER, 0, 2_800_000), True),
        ((os.SCHED_BATCH, 5, 2_800_000), True),
        ((os.SCHED_OTHER, 0, 0), False),  # an older kernel
        ((os.SCHED_IDLE, 0, 2_800_000), False),
        ((os.SCHED_FIFO, 0, 0), False),
        (None, False),  # it has ended
    ],
)
def test_whoever_the_fair_scheduler_serves_takes_a_slice(
    thread: tuple[int, int, int] | None, takes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads({} if thread is None else {7: thread}, monkeypatch)
    assert scheduling.takes_slice(7) == takes


@pytest.mark.parametrize(
    ("meanwhile", "afterwards"),
    [
        ((os.SCHED_BATCH, -5, SLICE_NS), (os.SCHED_BATCH, -5, 2_800_000)),
        ((os.SCHED_FIFO, 0, 0), (os.SCHED_FIFO, 0, 0)),
    ],
)
def test_a_slice_comes_and_goes_and_what_others_change_meanwhile_stays(
    meanwhile: tuple[int, int, int],
    afterwards: tuple[int, int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thread = os.getpid()
    told = {thread: (os.SCHED_OTHER, 3, 2_800_000)}
    threads(told, monkeypatch)

    def give(which: int, policy: int, _flags: int, nice: int, slice_ns: int) -> None:
        told[which] = (policy, nice, slice_ns)

    monkeypatch.setattr(scheduling, "_set", give)
    later = -1  # a thread of its process that begins under the policy
    monkeypatch.setattr(tasks, "threads_of", lambda _: [thread, later])
    began = started(thread)
    assert began is not None
    (tmp_path / "state").mkdir()
    state = State.load(tmp_path / "state")
    wanted = Desired(Slice("vm1", "thread", thread, began), SLICE_NS)
    transaction.apply([wanted], state, NO_HOST, {"policy": "p"})
    assert told[thread] == (os.SCHED_OTHER, 3, SLICE_NS)
    assert transaction.drifts(state, transaction.read_all(state, NO_HOST)) == []
    told |= {thread: meanwhile, later: (os.SCHED_OTHER, 3, SLICE_NS)}
    assert transaction.clear(state, NO_HOST) == []
    assert told == {thread: afterwards, later: (os.SCHED_OTHER, 3, 0)}


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: real-time threads")
@pytest.mark.parametrize("policy", scheduling.REAL_TIME)
def test_a_real_time_thread_gets_its_priority_back(policy: int, tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        os.sched_setscheduler(child, policy, os.sched_param(7))
        began = started(child)
        assert began is not None
        setting, state = Scheduling("nic", "thread of nic0", child, began), State.load(tmp_path)
        wanted = scheduled(os.SCHED_OTHER, -20)
        transaction.apply([Desired(setting, wanted)], state, NO_HOST, {})
        assert setting.read(NO_HOST) == wanted
        assert transaction.clear(State.load(tmp_path), NO_HOST) == []
        assert os.sched_getscheduler(child) == policy
        assert os.sched_getparam(child).sched_priority == 7
        # A state file of before has no priority: the lowest is better than none at all.
        setting.write(NO_HOST, wanted)
        setting.write(NO_HOST, [policy, 0, 0])
        assert os.sched_getparam(child).sched_priority == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ([os.SCHED_FIFO, 0, 0, 50], (os.SCHED_FIFO, 0, 50, 0)),
        ([os.SCHED_RR, 0, 0], (os.SCHED_RR, 0, 1, 0)),
        ([os.SCHED_OTHER, -20, 100_000], (os.SCHED_OTHER, -20, 0, 100_000)),
    ],
)
def test_the_kernel_is_told_the_priority(
    value: list[int], asked: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, ...]] = []

    def call(
        _numbers: object, _thread: int, attributes: ctypes.Array[ctypes.c_char], _: int
    ) -> None:
        fields = struct.unpack("=IIQiIQQQ", attributes.raw[:48])
        told.append((fields[1], *fields[3:6]))

    monkeypatch.setattr(scheduling, "_call", call)
    thread = os.getpid()
    Scheduling("nic", "thread", thread, started(thread) or 0).write(NO_HOST, value)
    assert told == [asked]

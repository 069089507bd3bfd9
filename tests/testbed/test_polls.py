"""Who polls which interface, told by a trace of the kernel's.

The trace has the polls of the whole machine, by names of interfaces that are the same in each test
bed: the tests that run beside others wait for all of this file, once.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from isolane.testbed import Testbed, kernel
from isolane.testbed.bed_polling import RARE_PAUSE_NS

from tests import machine

pytestmark = pytest.mark.root

LIMIT_S = 300.0
MANY = 150_000


@pytest.fixture(scope="module", autouse=True)
def nobody_beside() -> Iterator[None]:
    with machine.alone():
        yield


@pytest.mark.parametrize("receive", ["threaded", "softirq"])
def test_polls_stay_on_their_cores(receive: str, journal: Any, plan: Any, traffic: Any) -> None:
    """Whoever sends, and after a pause, the DUT's NICs are polled by the DUT's core."""
    setting = plan("direct", 2, receive=receive)
    dut, measure = setting.dut_cores[0], setting.measure_cores[0]
    with Testbed(setting, journal) as bed:
        for pause in (0.0, 0.5):  # ten thousand times as long as from poll to poll
            time.sleep(pause)

            def send() -> None:
                for wire in bed.wires:
                    traffic.blast(wire, traffic.frame(wire), MANY, measure)

            assert polling_cores(send, "isl-in", "isl-r") == [{dut}, {measure}]
        for ifname, pids in bed.receive_threads.items():
            assert ifname.startswith("isl-in")
            assert all(os.sched_getaffinity(pid) == {dut} for pid in pids)


def test_the_receiver_is_polled_often_only_while_a_trial_needs_it(journal: Any, plan: Any) -> None:
    """What is done between two trials is done on its core."""
    with Testbed(plan("direct", 2, receive="softirq"), journal) as bed:

        def beyond_rarely() -> int:
            """Polls of one interface beyond those that its timer makes when it is seldom due."""
            began = time.monotonic()  # to begin and to end a trace may take as long
            with polls() as seen:
                time.sleep(0.1)
            took_ns = 1e9 * (time.monotonic() - began)
            found = [n for (_, device), n in seen.items() if device.startswith("isl-r")]
            return max(found, default=0) - round(took_ns / RARE_PAUSE_NS) - 2

        assert beyond_rarely() <= 0
        bed.receive_often()
        deadline = time.monotonic() + LIMIT_S
        while beyond_rarely() <= 0:
            assert time.monotonic() < deadline, "it is polled as rarely as before"
        bed.receive_rarely()
        time.sleep(RARE_PAUSE_NS / 1e9)
        assert beyond_rarely() <= 0


def test_a_program_of_the_receivers_changes_no_thread_and_loses_nothing(
    journal: Any, plan: Any, traffic: Any
) -> None:
    """Attached after the test bed was built: same threads, same cores, nothing unaccounted."""
    setting = plan("direct", receive="softirq")
    measure = setting.measure_cores[0]
    with Testbed(setting, journal) as bed:
        wire = bed.wires[0]
        traffic.attach_drop(wire.rcv_netns, wire.rcv_ifname)
        accounting = traffic.account(bed, wire)
        sent = 0

        def send() -> None:
            nonlocal sent
            traffic.blast(wire, traffic.frame(wire), MANY, measure)
            sent += MANY

        dut = set(setting.dut_cores)
        assert polling_cores(send, wire.rcv_ifname, "isl-in0") == [{measure}, dut]
        accounting.balance(sent)


def test_polls_follow_the_sender_without_moderation(journal: Any, plan: Any, traffic: Any) -> None:
    """The counter-test: it is the timer that keeps them in place; and it can be stopped."""
    setting = plan("direct", receive="softirq")
    dut, measure = setting.dut_cores[0], setting.measure_cores[0]
    with Testbed(setting, journal) as bed:
        wire = bed.wires[0]
        bed.stop_polling()
        deadline = time.monotonic() + LIMIT_S
        while True:  # the last timer may be late
            with polls() as seen:
                time.sleep(0.2)
            if "isl-in0" not in {device for _, device in seen}:
                break
            assert time.monotonic() < deadline, "it is polled all the same"

        def send() -> None:
            traffic.blast(wire, traffic.frame(wire), MANY, measure)

        (cores,) = polling_cores(send, "isl-in0")
        assert measure in cores
        bed.start_polling()
        assert polling_cores(send, "isl-in0") == [{dut}]


def polling_cores(send: Callable[[], None], *devices: str) -> list[set[int]]:
    """Send until each of these was polled, and return by which cores; names may be beginnings.

    A core that somebody else has for as long as frames are sent polls nothing meanwhile.
    """
    deadline = time.monotonic() + LIMIT_S
    found: list[set[int]] = [set() for _ in devices]
    while not all(found):
        assert time.monotonic() < deadline, f"polled: {found}"
        with polls() as seen:
            send()
        for cores, name in zip(found, devices, strict=True):
            cores |= {core for core, device in seen if device.startswith(name)}
    return found


@contextlib.contextmanager
def polls() -> Any:
    """Count NAPI polls by (core, device), from a trace of our own."""
    seen: Counter[tuple[int, str]] = Counter()
    try:
        tracefs = kernel.open_detached("tracefs")
    except OSError:
        pytest.skip("needs tracefs (CONFIG_FTRACE)")
    name = f"instances/isolane-test-{os.getpid()}"
    os.mkdir(name, dir_fd=tracefs)
    try:
        write(tracefs, f"{name}/buffer_size_kb", "20000")
        machine.await_removed_namespaces()
        write(tracefs, f"{name}/events/napi/napi_poll/enable", "1")
        yield seen
        write(tracefs, f"{name}/events/napi/napi_poll/enable", "0")
        with os.fdopen(os.open(f"{name}/trace", os.O_RDONLY, dir_fd=tracefs)) as trace:
            for line in trace:
                if "napi_poll:" in line:
                    core = int(line.partition("[")[2][:3])
                    seen[core, line.partition("for device ")[2].split()[0]] += 1
    finally:
        os.rmdir(name, dir_fd=tracefs)
        os.close(tracefs)


def write(directory: int, path: str, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY, dir_fd=directory), "w") as file:
        file.write(text)

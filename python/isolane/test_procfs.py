from __future__ import annotations

import os
import shutil
import subprocess
import threading
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from isolane.procfs import (
    TICK_NS,
    CoreTicks,
    all_ticks,
    core_ticks,
    cpu_ns,
    memory_info,
    named_processes,
    napi_threads_by_name,
    started,
    thread_name,
    words_of,
)


def test_ticks_of_this_host_only_grow_and_all_is_their_sum() -> None:
    before, whole, after = core_ticks(), all_ticks(), core_ticks()
    assert set(before) == set(after)
    assert set(os.sched_getaffinity(0)) <= set(after)
    for core, ticks in after.items():
        spent = ticks.since(before[core])
        # What the core was idle may decrease: proc(5), iowait; idle on some kernels.
        assert min(astuple(replace(spent, idle=0, iowait=0))) >= 0
    # The kernel rounds each core's ticks down, and their sum once.
    slack = 8 * len(before)
    assert sum(t.total for t in before.values()) - slack <= whole.total
    assert whole.total <= sum(t.total for t in after.values()) + slack


def test_ticks_are_read_in_the_order_of_the_kernel() -> None:
    ticks = CoreTicks(user=1, nice=2, system=4, idle=8, iowait=16, irq=32, softirq=64, steal=128)
    assert ticks.total == 255
    assert ticks.busy_ns == (255 - 24) * TICK_NS
    assert ticks.since(ticks) == CoreTicks(0, 0, 0, 0, 0, 0, 0, 0)
    assert os.sysconf("SC_CLK_TCK") * TICK_NS == 1_000_000_000
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    assert all_ticks().user >= int(fields[1])
    assert all_ticks().steal >= int(fields[8])


def test_a_task_has_one_start_and_none_when_it_has_gone(tmp_path: Path) -> None:
    assert started() == started(os.getpid()) == started("self")
    # A name with blanks and brackets does not shift the fields.
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to(str(shutil.which("sleep")))
    process = subprocess.Popen([odd, "60"])
    try:
        mine, later = started(), started(process.pid)
        assert mine is not None
        assert later is not None
        assert later >= mine
    finally:
        process.kill()
        process.wait()
    assert started(process.pid) is None
    assert cpu_ns(process.pid) == 0


def test_a_process_has_its_words_from_its_first_moment() -> None:
    """Its parent goes on when execve(2) has not given it its command line yet: one time in 40."""
    for _ in range(300):
        process = subprocess.Popen(["/bin/sleep", "60"])
        try:
            assert words_of(process.pid) == (b"/bin/sleep", b"60")
        finally:
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert words_of(process.pid) == (), "a zombie has none"
            process.wait()
    assert words_of(process.pid) == ()


def test_kernel_threads_have_no_words() -> None:
    if thread_name(2) != "kthreadd":
        pytest.skip("process 2 is no kernel thread here: a PID namespace of its own")
    assert words_of(2) == ()


def test_processes_have_names() -> None:
    found = dict(named_processes())
    assert found[os.getpid()] == Path("/proc/self/comm").read_text().rstrip("\n")
    assert napi_threads_by_name(["no such one"]) == {"no such one": []}


def test_memory_is_in_bytes_and_huge_pages_are_counted() -> None:
    memory = memory_info()
    assert memory["MemTotal"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    pages = Path("/proc/sys/vm/nr_hugepages")
    if pages.exists():
        assert memory["HugePages_Total"] == int(pages.read_text())


def test_cpu_time_of_a_thread_grows_by_what_it_works() -> None:
    before = cpu_ns(threading.get_native_id())
    if not before:
        pytest.skip("this kernel counts no CPU time of threads (CONFIG_SCHED_INFO)")
    end = before + 5_000_000
    while cpu_ns(threading.get_native_id()) < end:
        sum(range(1000))

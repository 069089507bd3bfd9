"""The host is afterwards as it was before: after success, failure, signals, and after kill -9."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from isolane.errors import NotSupported, TestbedError
from isolane.guests import DIRECTORY
from isolane.guests.leftovers import processes_of
from isolane.netback import DIRECTORY as SOCKETS
from isolane.procfs import named_processes
from isolane.testbed import Journal, Testbed, bed_builder, clean, exclusive, netns
from isolane.testbed import journal as journals

from tests.commands import Begun
from tests.live import LIMIT_S, begin

pytestmark = pytest.mark.root

SOURCE = Path(__file__).parents[2] / "python"
PROGRAM = """
import sys, time
from isolane.cli import signals
from isolane.testbed import *
signals.turn_into_interrupts()
keep_s, *names = sys.argv[3:]
path, _, qemu = sys.argv[1].partition(" ")
kind = "vm" if path in ("tap", "netback") else "container"
machine = Machine("tcg", "virtio") if qemu else UML
plan = BedPlan(tuple(RouterPlan(name, kind, path, None, machine) for name in names),
               sys.argv[2], 50_000, (0,), (1,), 4)
while True:
    try:
        lock = exclusive()
        journal = lock.__enter__()
        break
    except Exception:
        time.sleep(0.02)
print("begin", flush=True)
while True:
    with Testbed(plan, journal):
        print("built", flush=True)
        time.sleep(float(keep_s))
"""


@contextlib.contextmanager
def running(
    path: str = "direct",
    receive: str = "threaded",
    names: tuple[str, ...] = ("vr-1", "vr-2"),
    keep_s: float = 0.05,
    after: str = "begin",
) -> Iterator[Begun]:
    """A process that builds and removes a test bed again and again, once it has said a word."""
    with tempfile.TemporaryDirectory(prefix="isolane-cleanup-") as folder:
        process = begin(Path(folder), path, receive, keep_s, *names, code=PROGRAM)
        try:
            deadline = time.monotonic() + LIMIT_S
            while after not in Path(folder, "stdout").read_text().splitlines():
                told = Path(folder, "stderr").read_text()
                assert process.poll() is None, f"ended with {process.returncode}: {told}"
                assert time.monotonic() < deadline, f"no {after}: {told}"
                time.sleep(0.002)
            yield process
        finally:
            process.kill()
            process.wait()


def host() -> dict[str, Any]:
    """What a test bed could have left on this host."""
    directory = netns.NETNS_DIR
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    journal = sorted(path.name for path in journals.RUN_DIR.glob("journal-*"))
    names = sorted(p.name for p in directory.iterdir()) if directory.exists() else None
    return {
        "namespaces": [name for name in names if name.startswith("isolane-")] if names else [],
        "directory": names is None,
        "mounts": sorted(line.split()[4] for line in mounts if "/isolane-" in line),
        "links": [p.name for p in Path("/sys/class/net").iterdir() if p.name.startswith("isl-")],
        "journals": journal,
        "threads": napi_threads(),
        "guests": [one for name in ("vr-1", "vr-2") for one in processes_of(DIRECTORY / name)],
        "folders of guests": DIRECTORY.exists(),
        "sockets of a network back-end": SOCKETS.exists(),
    }


def napi_threads() -> set[str]:
    """Names of threads that poll NICs of test beds, those of other hosts' on this machine, too."""
    return {name for _, name in named_processes() if name.startswith("napi/isl-")}


def unchanged(before: dict[str, Any]) -> bool:
    """Kernel threads of removed devices end a moment after their devices; others' at any time."""
    deadline = time.monotonic() + LIMIT_S
    while (now := host_but_for(before["threads"])) != {**before, "threads": set()}:
        assert time.monotonic() < deadline, (before, now)
        time.sleep(0.01)
    return True


def host_but_for(threads: set[str]) -> dict[str, Any]:
    """The same, with the kernel threads that were not there before."""
    now = host()
    return {**now, "threads": now["threads"] - threads}


@pytest.mark.parametrize("path", ["direct", "bridge", "macvlan", "none"])
def test_nothing_is_left_after_success(path: str, journal: Any, plan: Any) -> None:
    before = host()
    with Testbed(plan(path, 1 if path == "none" else 3), journal):
        assert "isolane-gen" in host()["namespaces"]
        assert host()["links"] == []  # not even for a moment does the host see a device
    assert unchanged(before)
    assert clean() == []


class _OopsError(Exception):
    pass


def test_nothing_is_left_after_an_exception(journal: Any, plan: Any) -> None:
    before = host()
    with pytest.raises(_OopsError), Testbed(plan(), journal):
        raise _OopsError
    assert unchanged(before)


@pytest.mark.parametrize(
    "failing", ["_settings", "_bridge", "_veth", "_offloads", "_bring_up", "_upper", "_addresses"]
)
def test_nothing_is_left_after_a_failing_step(
    failing: str, journal: Any, plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        with netns.step(f"doing {failing}", "a feature (CONFIG_IT)"):
            raise OSError(95, "Operation not supported")

    monkeypatch.setattr(bed_builder.Builder, failing, fail)
    before = host()
    path = "bridge" if failing == "_bridge" else "macvlan"
    with (
        pytest.raises(NotSupported, match=f"doing {failing}: this kernel lacks a feature"),
        Testbed(plan(path, 2), journal),
    ):
        pass
    assert unchanged(before)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal_at_any_moment(sent: int, journal: Journal) -> None:
    before = host()
    with released(journal):
        draw = random.Random(7)
        for _ in range(4):
            with running() as process:
                time.sleep(draw.uniform(0, 0.4))
                process.send_signal(sent)
                assert process.wait(LIMIT_S) != 0
            # Without any cleaning up by somebody else:
            assert unchanged(before)


ENDING = """
import sys
from isolane.testbed import *
plan = BedPlan(tuple(RouterPlan(name, "container", sys.argv[1], None) for name in ("vr-1", "vr-2")),
               "threaded", 50_000, (0,), (1,), 4)
def interrupt(*_):
    raise KeyboardInterrupt
with exclusive() as journal:
    bed = Testbed(plan, journal)
    bed.__enter__()
    print("built", flush=True)
    if sys.argv[2] == "in its removal":
        bed._thread.do = interrupt
        bed.__exit__(None, None, None)
    interrupt()
"""


@pytest.mark.parametrize("where", ["before its removal", "in its removal"])
def test_a_bed_is_removed_at_the_end_of_the_process_if_nothing_else_did(
    where: str, journal: Journal
) -> None:
    """A signal may raise between any two operations, also of the ``with`` statement itself."""
    before = host()
    with released(journal):
        done = subprocess.run(
            [sys.executable, "-c", ENDING, "bridge", where],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.returncode != 0) == ("built\n", True)
        assert done.stderr.splitlines()[-1] == "KeyboardInterrupt", done.stderr
        assert unchanged(before)


@pytest.mark.parametrize(
    ("path", "receive"),
    [
        ("direct", "softirq"),
        ("bridge", "threaded"),
        ("macvlan", "softirq"),
        ("tap", "softirq"),
        ("tap qemu", "softirq"),
        ("netback", "softirq"),
    ],
)
def test_clean_after_kill_9_at_any_moment(
    path: str, receive: str, journal: Journal, request: pytest.FixtureRequest
) -> None:
    if path == "tap qemu":
        request.getfixturevalue("needs_qemu_guests")
    before = host()
    draw = random.Random(path)
    killed = found = 0
    deadline = time.monotonic() + LIMIT_S
    guests = path.startswith(("tap", "netback"))
    while killed < (3 if guests else 5) or not found:
        assert time.monotonic() < deadline, "none was killed while it had something to leave behind"
        with released(journal), running(path, receive) as process:
            time.sleep(draw.uniform(0, 3.0 if guests else 0.4))  # a guest boots in 1.5 s
            process.kill()
            process.wait()
        killed += 1
        found += bool(clean())
        assert unchanged(before)


def test_clean_leaves_alone_what_is_the_users(journal: Journal, plan: Any) -> None:
    mine = "isolane-foo"
    subprocess.run(["ip", "netns", "add", mine], check=True)
    try:
        before = host()
        with Testbed(plan(), journal):
            pass
        with released(journal), running(names=("vr-1",), keep_s=LIMIT_S, after="built") as process:
            process.kill()
            process.wait()
        # The user has taken a name over that the journal of the dead run has, too.
        subprocess.run(["ip", "netns", "delete", "isolane-vr-1"], check=True)
        subprocess.run(["ip", "netns", "add", "isolane-vr-1"], check=True)
        try:
            removed = clean()
            assert [f"network namespace isolane-{n}" for n in ("gen", "rcv", "dut")] == removed
            there = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True)
            assert {mine, "isolane-vr-1"} <= {line.split()[0] for line in there.stdout.splitlines()}
        finally:
            subprocess.run(["ip", "netns", "delete", "isolane-vr-1"], check=True)
        assert unchanged(before)
    finally:
        subprocess.run(["ip", "netns", "delete", mine], check=True)


def test_clean_beside_somebody_who_deletes_a_namespace_of_a_dead_run(journal: Journal) -> None:
    """The other ends of its links go some time after its name: each time at another moment."""
    before = host()
    for _ in range(6):
        with released(journal), running(after="built") as process:
            process.kill()
            process.wait()
        if (netns.NETNS_DIR / "isolane-vr-1").exists():  # else it was being removed already
            subprocess.run(["ip", "netns", "delete", "isolane-vr-1"], check=True)
        clean()
        assert unchanged(before)


def test_a_users_namespace_in_the_way_is_named_and_survives(journal: Any, plan: Any) -> None:
    before = host()
    subprocess.run(["ip", "netns", "add", "isolane-vr-1"], check=True)
    try:
        with (
            pytest.raises(TestbedError, match="/run/netns/isolane-vr-1 exists and is not Isolane"),
            Testbed(plan(), journal),
        ):
            pass
        assert host()["namespaces"] == [*before["namespaces"], "isolane-vr-1"]
    finally:
        subprocess.run(["ip", "netns", "delete", "isolane-vr-1"], check=True)
    assert clean() == []


def test_a_second_run_is_refused_with_the_first_ones_pid(journal: Journal) -> None:
    with released(journal), running() as process:
        with pytest.raises(TestbedError) as refused, exclusive():
            pass
        message = str(refused.value)
        assert message.startswith(f"another run is under way (pid {process.pid}, started 20")
        assert f"command {sys.executable} -m tests.command_server" in message
        process.kill()
        process.wait()
        with exclusive():  # the lock of a killed process is free at once
            clean()


@contextlib.contextmanager
def released(journal: Journal) -> Iterator[None]:
    """Let another process have the lock that the fixture holds."""
    holder = next(
        int(link.name)
        for link in Path("/proc/self/fd").iterdir()
        if link.resolve() == journals.RUN_DIR / "lock"
    )
    fcntl.flock(holder, fcntl.LOCK_UN)
    try:
        yield
    finally:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert journal.made == set()

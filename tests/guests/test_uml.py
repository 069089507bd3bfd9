"""Guests that really boot: ready, asked through their kernel, ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from isolane.errors import NotSupported, TestbedError
from isolane.guests import UmlGuest, UmlPlan
from isolane.guests.uml import READY

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("needs_guest_kernel")]

LIMIT_S = 300.0


def guest(folder: Path, name: str = "one", script: str = "", memory_mb: int = 64) -> UmlGuest:
    return UmlGuest(UmlPlan(name, script, memory_mb=memory_mb), LIMIT_S, folder)


def processes_of(folder: Path) -> list[int]:
    """Processes that name the folder in their command line, this one's excepted."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in command:
                found.append(int(entry.name))
    return found


def await_none(folder: Path) -> None:
    end_s = time.monotonic() + LIMIT_S
    while processes_of(folder):
        assert time.monotonic() < end_s, processes_of(folder)
        time.sleep(0.05)


def test_a_guest_boots_is_asked_and_ends(tmp_path: Path) -> None:
    with guest(tmp_path, script="ip link set lo up; ip address add 198.18.0.1/24 dev lo") as one:
        assert one.is_running
        assert "lo:" in one.proc("net/dev")
        assert one.proc("sys/kernel/ostype").strip() == "Linux"
        assert one.proc("version") != Path("/proc/version").read_text()
        assert len(one.proc("kallsyms")) > 100_000, "many lines, and all of them"
        for name, words in (("nothing", "has no /proc/nothing"), ("../etc/passwd", "cannot be")):
            with pytest.raises(TestbedError, match=words):
                one.proc(name)
        assert processes_of(tmp_path)
    await_none(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_its_programs_keep_their_registers(tmp_path: Path) -> None:
    """Three at a time, interrupted all the time, calculate what the same program does here."""
    work = 'BEGIN { for (i = 1; i < 300000; i++) s += sqrt(i); printf "%.6f\\n", s }'
    expected = subprocess.run(["awk", work], check=True, capture_output=True, text=True).stdout
    script = f"""\
for n in 1 2 3; do awk '{work}' >/tmp/$n & done
wait
cat /tmp/1 /tmp/2 /tmp/3
perl -MPOSIX -e 'print POSIX::floor(41.9), "\\n"'  # copies much, and reads what it has copied
"""
    with guest(tmp_path, script=script) as one:
        lines = one.last_lines.split(" | ")
    assert lines == [expected.strip()] * 3 + ["41", READY], lines


def test_its_view_of_this_host_is_read_only_and_without_peoples_files(tmp_path: Path) -> None:
    script = """\
echo "root: $(ls -A /root /home 2>/dev/null | grep -v : | wc -w)"
mount -o remount,rw /
for folder in /usr /run /tmp/.. /dev/shm/..; do
    touch $folder/isolane-was-here 2>/dev/null && echo "written"
done
ls /usr/bin >/dev/null && echo "programs are there"
"""
    with guest(tmp_path, script=script) as one:
        lines = one.last_lines
    assert "root: 0" in lines
    assert "programs are there" in lines
    assert "written" not in lines
    for folder in ("/usr", "/run", "/", "/dev"):
        assert not Path(folder, "isolane-was-here").exists()


def test_a_guest_that_gives_up_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="guest one was not ready and has ended") as raised:
        guest(tmp_path, script="echo 'no such luck'; exit 1").__enter__()
    assert "no such luck" in str(raised.value)
    await_none(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_never_ready_is_ended_after_the_limit(tmp_path: Path) -> None:
    slow = UmlGuest(UmlPlan("slow", "sleep 86400"), limit_s=1.0, directory=tmp_path)
    with pytest.raises(TestbedError, match="guest slow was not ready within 1 s"):
        slow.__enter__()
    await_none(tmp_path)


def test_one_that_dies_is_told_when_it_is_asked(tmp_path: Path) -> None:
    with guest(tmp_path) as one:
        for process in processes_of(tmp_path):
            with contextlib.suppress(ProcessLookupError):  # it went with the one before it
                os.kill(process, signal.SIGKILL)
        with pytest.raises(TestbedError, match="has ended"):
            one.proc("net/dev")


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with guest(tmp_path) as one:
        with pytest.raises(TestbedError, match="a guest named one is there"):
            guest(tmp_path).__enter__()
        assert one.is_running


def test_a_host_without_a_guest_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotSupported, match="apt-get install user-mode-linux"):
        guest(tmp_path).__enter__()


CHILD = """\
import sys, time
from pathlib import Path
from isolane.guests import UmlGuest, UmlPlan
from isolane.guests.uml import READY
with UmlGuest(UmlPlan("orphan"), 300.0, Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(3600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_guest_ends_with_whoever_started_it(tmp_path: Path, number: signal.Signals) -> None:
    words = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert len(processes_of(tmp_path)) > 1
        child.send_signal(number)
        child.wait(LIMIT_S)
    await_none(tmp_path)

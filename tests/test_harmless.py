"""Pure tests run without the rights to change the host, at idle priority (tools/harmless)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from isolane.doctor.cgroups import mounts

HARMLESS = Path(__file__).parent.parent / "tools" / "harmless"


def harmless(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([HARMLESS, *command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("space", ["--net", "--mount", "--uts"])
def test_what_would_change_the_host_fails(space: str) -> None:
    done = harmless("unshare", space, "true")
    assert done.returncode != 0
    assert "not permitted" in done.stderr


def test_cgroups_can_only_be_read() -> None:
    """Live tests, which run at the same time, see every cgroup of the machine."""
    cgroups = mounts(Path("/proc/self/mountinfo").read_text())
    found = {*cgroups[0].values(), *([cgroups[1]] if cgroups[1] else [])}
    if os.geteuid():
        pytest.skip("who is not root can write none anyway")
    assert found
    for mount in sorted(found):
        done = harmless("mkdir", str(mount / f"isolane-harmless-{os.getpid()}"))
        assert done.returncode != 0, mount
        assert "Read-only file system" in done.stderr


def test_it_runs_on_what_nobody_else_needs() -> None:
    done = harmless(sys.executable, "-c", "import os; print(os.sched_getscheduler(0))")
    assert done.stdout.strip() == str(os.SCHED_IDLE)


def test_the_status_is_the_commands() -> None:
    assert harmless("sh", "-c", "exit 7").returncode == 7
    assert harmless().returncode == 2

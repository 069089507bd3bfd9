from __future__ import annotations

import os
from pathlib import Path

import pytest

from isolane.enforce.cpu_cgroups import Groups, shares_of, weight_of
from isolane.errors import NotSupported

V1 = """\
proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def v2(folder: Path, controllers: str) -> Groups:
    """Cgroups v2, as far as a directory can stand for them."""
    (folder / "cgroup.controllers").write_text(controllers)
    return Groups(
        "isolane", f"proc /proc proc rw 0 0\ncgroup2 {folder} cgroup2 rw,nsdelegate 0 0\n"
    )


def test_version_1_is_found_where_the_cpu_controller_is() -> None:
    groups = Groups("isolane", V1)
    assert groups.version == 1
    assert groups.path("vr1") == Path("/sys/fs/cgroup/cpu,cpuacct/isolane/vr1")
    assert groups.path("") == groups.top == Path("/sys/fs/cgroup/cpu,cpuacct/isolane")


def test_version_2_is_found_when_it_has_the_cpu_controller(tmp_path: Path) -> None:
    groups = v2(tmp_path, "cpuset cpu io memory\n")
    assert groups.version == 2
    assert groups.path("vr1") == tmp_path / "isolane" / "vr1"


def test_version_1_serves_where_version_2_has_no_cpu_controller(tmp_path: Path) -> None:
    """Hybrid: v2 is mounted, but the controllers are version 1's."""
    (tmp_path / "cgroup.controllers").write_text("")
    hybrid = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n{V1}"
    assert Groups("isolane", hybrid).version == 1


@pytest.mark.parametrize("controllers", ["", "cpuset memory"])
def test_without_the_cpu_controller_it_is_said_how_to_get_it(
    tmp_path: Path, controllers: str
) -> None:
    with pytest.raises(NotSupported, match=r"cpu controller.*mount -t cgroup"):
        _ = v2(tmp_path, controllers).version


def test_settings_of_version_1() -> None:
    groups = Groups("isolane", V1)
    assert groups.settings(100, None) == {
        "cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1",
    }  # fmt: skip
    assert groups.settings(300, 0.5)["cpu.shares"] == "3072"
    assert groups.settings(300, 0.5)["cpu.cfs_quota_us"] == "5000"
    assert groups.settings(300, 0.5)["cpu.cfs_period_us"] == "10000"
    # The kernel takes no quota below 1 ms, so that the period is longer.
    assert groups.settings(100, 0.01)["cpu.cfs_quota_us"] == "1000"
    assert groups.settings(100, 0.01)["cpu.cfs_period_us"] == "100000"
    assert groups.settings(1, None)["cpu.shares"] == "10"
    assert groups.settings(10_000, None)["cpu.shares"] == "102400"


def test_settings_of_version_2(tmp_path: Path) -> None:
    groups = v2(tmp_path, "cpu")
    assert groups.settings(100, None) == {"cpu.weight": "100", "cpu.max": "max 10000"}
    assert groups.settings(10_000, 1.5) == {"cpu.weight": "10000", "cpu.max": "15000 10000"}


def test_a_process_is_moved_by_version_2(tmp_path: Path) -> None:
    groups = v2(tmp_path, "cpu")
    groups.path("vr1").mkdir(parents=True)
    groups.move(77, "isolane/vr1")
    assert (groups.path("vr1") / "cgroup.procs").read_text() == "77"


def test_the_group_of_a_thread_is_told_below_the_root() -> None:
    groups = Groups("isolane")  # this host's
    found = groups.of_thread(os.getpid())
    assert found is not None
    assert (groups.root / found).is_dir()
    assert groups.of_thread(2**22 + 1) is None


@pytest.mark.parametrize("weight", [1, 7, 100, 333, 10_000])
def test_a_weight_is_read_back_from_shares_as_it_was_given(weight: int) -> None:
    assert weight_of(shares_of(weight)) == weight
    assert (shares_of(100), weight_of(1024)) == (1024, 100)

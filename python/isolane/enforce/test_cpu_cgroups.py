from __future__ import annotations

import os
from pathlib import Path

import pytest

from isolane.enforce.cpu_cgroups import Groups, shares_of, weight_of
from isolane.errors import NotSupported

V1 = """\
22 26 0:20 / /proc rw,nosuid - proc proc rw
30 22 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:30 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory
33 30 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
ON_A_HOST = V1.format(root="/")


def v2(folder: Path, controllers: str) -> Groups:
    """Cgroups v2, as far as a directory can stand for them."""
    (folder / "cgroup.controllers").write_text(controllers)
    return Groups(
        "isolane", f"31 30 0:29 / {folder} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
    )


def test_version_1_is_found_where_the_cpu_controller_is() -> None:
    groups = Groups("isolane", ON_A_HOST)
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
    hybrid = f"{ON_A_HOST}39 22 0:27 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert Groups("isolane", hybrid).version == 1


def test_of_two_mounts_the_later_one_is_seen() -> None:
    own = V1.format(root="/docker/4f").replace(" 0:29 /docker/4f /sys", " 0:29 /docker/4f /later")
    assert Groups("isolane", ON_A_HOST + own).root == Path("/later/fs/cgroup/cpu,cpuacct")
    assert Groups("isolane", own + ON_A_HOST).root == Path("/sys/fs/cgroup/cpu,cpuacct")


@pytest.mark.parametrize("controllers", ["", "cpuset memory"])
def test_without_the_cpu_controller_it_is_said_how_to_get_it(
    tmp_path: Path, controllers: str
) -> None:
    with pytest.raises(NotSupported, match=r"cpu controller.*mount -t cgroup"):
        _ = v2(tmp_path, controllers).version


def test_weights_and_caps_of_version_1() -> None:
    groups = Groups("isolane", ON_A_HOST)
    uncapped = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"}
    assert groups.cap_files(None) == uncapped
    assert groups.cap_files(0.5) == {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "5000"}
    # The kernel takes no quota below 1 ms, so that the period is longer.
    assert groups.cap_files(0.01) == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000"}
    for weight, shares in ((1, "10"), (100, "1024"), (300, "3072"), (10_000, "102400")):
        assert groups.weight_files(weight) == {"cpu.shares": shares}


def test_weights_and_caps_of_version_2(tmp_path: Path) -> None:
    groups = v2(tmp_path, "cpu")
    assert groups.weight_files(100) == {"cpu.weight": "100"}
    assert groups.cap_files(None) == {"cpu.max": "max 10000"}
    assert groups.cap_files(1.5) == {"cpu.max": "15000 10000"}


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


@pytest.mark.parametrize(
    ("root", "path", "below"),
    [
        ("/", "/", ""),
        ("/", "/isolane/vr1", "isolane/vr1"),
        ("/docker/4f", "/docker/4f/isolane/vr1", "isolane/vr1"),
        ("/docker/4f", "/docker/4f", ""),
        ("/docker/4f", "/docker/4f5/other", ""),
        ("/docker/4f", "/", ""),
    ],
)
def test_in_a_container_groups_are_told_below_what_is_seen_of_them(
    monkeypatch: pytest.MonkeyPatch, root: str, path: str, below: str
) -> None:
    groups = Groups("isolane", V1.format(root=root))
    read = Path.read_text

    def read_text(file: Path) -> str:
        return (
            f"2:memory:/x\n1:cpu,cpuacct:{path}\n" if file == Path("/proc/7/cgroup") else read(file)
        )

    monkeypatch.setattr(Path, "read_text", read_text)
    assert groups.of_thread(7) == below


@pytest.mark.parametrize("weight", [1, 7, 100, 333, 10_000])
def test_a_weight_is_read_back_from_shares_as_it_was_given(weight: int) -> None:
    assert weight_of(shares_of(weight)) == weight
    assert (shares_of(100), weight_of(1024)) == (1024, 100)


def test_cpu_time_of_a_cgroup_is_read_in_either_version(tmp_path: Path) -> None:
    two = v2(tmp_path, "cpu")
    assert two.cpu_ns("vr1") is None
    two.path("vr1").mkdir(parents=True)
    (two.path("vr1") / "cpu.stat").write_text("usage_usec 1500\nuser_usec 500\n")
    assert two.cpu_ns("vr1") == 1_500_000
    mount = f"31 30 0:29 / {tmp_path} rw - cgroup cgroup rw,cpu,cpuacct\n"
    one = Groups("isolane", mount)
    assert one.cpu_ns("vr1") is None, "the controller cpuacct is somewhere else"
    (one.path("vr1") / "cpuacct.usage").write_text("1234567\n")
    assert one.cpu_ns("vr1") == 1_234_567

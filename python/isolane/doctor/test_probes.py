"""The probes against what other means say about this host."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from isolane.doctor import examination, examine, guests, lacking
from isolane.doctor.answers import Finding
from isolane.doctor.capabilities import CAPABILITIES, GROUP_TITLES, REQUIREMENTS
from isolane.doctor.cgroups import mounts
from isolane.doctor.examination import PROBES
from isolane.doctor.machine import kernel_version
from isolane.doctor.nics import judge_nic, physical_nics
from isolane.errors import SpecError
from isolane.guests.tiny_machine import boot_sector


def needs_root(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that makes network namespaces."""
    skipped = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces: needs root")
    marked: Callable[..., None] = pytest.mark.root(skipped(test))
    return marked


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow is not hanging: each probe has all the time that it needs."""
    patient = tuple(replace(probe, seconds=600) for probe in PROBES)
    monkeypatch.setattr(examination, "PROBES", patient)
    monkeypatch.setattr(guests, "_LIMIT_S", 300.0)


def status(*names: str) -> dict[str, str]:
    return {finding.id: finding.status for finding in examine(names)}


def test_catalogue_and_probes_agree() -> None:
    answered = [name for probe in PROBES for name in probe.answers]
    assert sorted(answered) == sorted(CAPABILITIES)
    assert {known.group for known in CAPABILITIES.values()} == set(GROUP_TITLES)
    assert {name for needed in REQUIREMENTS.values() for name in needed} <= set(CAPABILITIES)


def test_host_lines() -> None:
    found = {finding.id: finding for finding in examine(("root", "cores", "kernel"))}
    assert set(found) == {"root", "cores", "kernel"}
    assert (found["root"].status == "no") == (os.geteuid() != 0)
    assert (found["cores"].status == "yes") == (len(os.sched_getaffinity(0)) >= 2)
    assert platform.release() in found["kernel"].detail


@needs_root
def test_links_are_judged_as_ip_does() -> None:
    found = status("bridge", "macvlan", "macvtap")
    for kind in ("bridge", "macvlan", "macvtap"):
        extra = "" if kind == "bridge" else "link d0"
        script = f"ip link add d0 type veth peer d1; ip link add x0 {extra} type {kind}"
        made = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], capture_output=True, check=False
        )
        assert (found[kind] == "yes") == (made.returncode == 0), kind


@needs_root
def test_queueing_disciplines_are_judged_as_tc_does() -> None:
    found = status(*(name for name in CAPABILITIES if name.startswith("qdisc-")))
    for name in ("htb", "tbf", "clsact"):
        script = f"ip link add d0 type veth; tc qdisc add dev d0 {name}"
        if name != "clsact":
            limits = " rate 20mbit burst 10000 latency 50ms" if name == "tbf" else ""
            script = script.replace(name, f"root {name}{limits}")
        made = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], capture_output=True, check=False
        )
        assert (found[f"qdisc-{name}"] == "yes") == (made.returncode == 0), name


@needs_root
def test_rules_are_judged_as_nft_does() -> None:
    masquerade = "add chain inet t n { type nat hook postrouting priority 100; }"
    script = f"nft add table inet t; nft '{masquerade}'; nft add rule inet t n masquerade"
    made = subprocess.run(
        ["unshare", "--net", "sh", "-c", script], capture_output=True, check=False
    )
    (found,) = examine(("nftables",))
    assert (found.status == "yes") == (made.returncode == 0), found.detail


@needs_root
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Others, too, examine this machine meanwhile: in folders and cgroups of their own.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def inventory() -> tuple[object, ...]:
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
        cgroup, mine = Path("/sys/fs/cgroup"), f"isolane-doctor-{os.getpid()}"
        groups = [*cgroup.glob(mine), *cgroup.glob(f"*/{mine}")]
        folders = sorted(tmp_path.iterdir())
        spaces = Path("/proc/self/ns/net").readlink(), Path("/proc/self/ns/mnt").readlink()
        return links.stdout, groups, folders, spaces

    before = inventory()
    examine(set(CAPABILITIES) - {"kvm"})
    assert inventory() == before


@needs_root
def test_a_guest_really_starts() -> None:
    (tcg,) = examine(("tcg",))
    if "not installed" in tcg.detail:
        pytest.skip(tcg.detail)
    assert tcg.status == "yes" or "isolane guest-kernel" in tcg.detail, tcg.detail


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (uml,) = examine(("uml",))
    assert (uml.status, "only root can try this" in uml.detail) == ("unknown", True)


@needs_root
def test_a_whole_guest_is_booted() -> None:
    (uml,) = examine(("uml",))
    if "not installed" in uml.detail:
        pytest.skip(uml.detail)
    assert uml.status == "yes" or "was not ready within" in uml.detail, uml.detail


def test_boot_sector_is_one() -> None:
    sector = boot_sector()
    assert len(sector) == 512
    assert sector[-2:] == b"\x55\xaa"


def test_lacking_needs_no_second_look_and_knows_its_jobs() -> None:
    def finding(name: str, state: str) -> Finding:
        return Finding(name, "host", name, state, "because", "x", "buy one")  # type: ignore[arg-type]

    looked = (finding("root", "no"), finding("perf", "no"), finding("kernel", "limited"))
    assert [lack.id for lack in lacking("measure", looked)] == ["root"]
    assert "buy one" in looked[0].lack()
    with pytest.raises(SpecError, match="measure, enforce, vm"):
        lacking("fly")


@pytest.mark.parametrize(
    ("release", "version"),
    [("6.1.0-18-amd64", (6, 1)), ("5.18.0", (5, 18)), ("6.18.44-fc", (6, 18)), ("odd", (0, 0))],
)
def test_kernel_version(release: str, version: tuple[int, int]) -> None:
    assert kernel_version(release) == version


def test_control_group_mounts() -> None:
    text = (
        "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
        "32 24 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 none rw\n"
        "33 24 0:29 / / rw,relatime - ext4 /dev/vda rw\n"
    )
    first, second = mounts(text)
    assert first == dict.fromkeys(("cpu", "cpuacct"), Path("/sys/fs/cgroup/cpu,cpuacct"))
    assert second == Path("/sys/fs/cgroup/unified")


@pytest.mark.parametrize(
    ("driver", "features", "expected"),
    [
        ("ixgbe", 0x0B, "yes"),
        ("e1000e", 0, "limited"),
        ("ice", None, "yes"),
        ("e1000e", None, "limited"),
    ],
)
def test_nic_modes(driver: str, features: int | None, expected: str) -> None:
    assert judge_nic(driver, features).status == expected


@needs_root
def test_every_nic_has_its_line() -> None:
    found = status("nic-xdp")
    assert set(found) == ({f"nic-xdp:{name}" for name in physical_nics()} or {"nic-xdp"})

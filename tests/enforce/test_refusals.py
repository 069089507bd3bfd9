"""What is refused, by which words, and that nothing has been changed then."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from isolane import _native
from isolane.enforce.policy_lock import locked
from pyroute2 import NetNS

from tests.enforce.rig import DUT, Rig, inside, shown
from tests.live import LIMIT_S, in_process

pytestmark = [pytest.mark.root, pytest.mark.native]


@pytest.fixture
def refused(rig: Rig) -> Iterator[Callable[..., str]]:
    """Apply something that is refused; at the end nothing has been changed by all that."""
    before = rig.host()

    def apply(*words: object, status: int = 1) -> str:
        said = rig.cli("apply", *words, status=status)
        assert "no policy is in force" in rig.cli("status")
        return said

    yield apply
    rig.assert_host(before)


@contextlib.contextmanager
def changed(*command: str, back: tuple[str, ...]) -> Iterator[None]:
    """Somebody else has changed something."""
    shown(*command)
    try:
        yield
    finally:
        shown(*back)


@contextlib.contextmanager
def others_program(netns: str, ifname: str) -> Iterator[None]:
    """Somebody else's XDP program, here the receiver's."""
    with NetNS(netns, flags=0) as links:
        index = links.link_lookup(ifname=ifname)[0]
    receiver = _native.Receiver(
        interfaces=[_native.Interface(netns=f"/run/netns/{netns}", ifindex=index)],
        cookie=1,
        flows=[1],
    )
    try:
        yield
    finally:
        receiver.close()


@pytest.mark.parametrize("where", ["isl-ni0", "isl-in1"])
def test_somebody_elses_xdp_program_stays(
    rig: Rig, refused: Callable[..., str], where: str
) -> None:
    netns = DUT if where == "isl-ni0" else "isolane-vr2"
    with others_program(netns, where):
        # On the second router's interface it is met when the first router is in force already.
        for words in ([], ["--adopt"]):
            said = refused(rig.file(), *words)
            assert where in said
            assert "the XDP program" in said
            assert "isl_receive" in said
            assert "nothing was changed" in said
        assert "isl_receive" in inside(netns, lambda: shown("ip", "link", "show", "dev", where))


def test_somebody_elses_queueing_discipline_stays(rig: Rig, refused: Callable[..., str]) -> None:
    at = ("dev", "isl-ni1", "root")
    with changed(
        "tc", "qdisc", "add", *at, "handle", "7:", "htb", back=("tc", "qdisc", "del", *at)
    ):
        file = rig.file(vr1="rate_min: 1Gbps")
        for words in ([], ["--adopt"]):
            said = refused(file, *words)
            assert "root qdisc of isl-ni1: the qdisc htb 7:" in said
        assert "htb 7:" in shown("tc", "qdisc", "show", "dev", "isl-ni1")
        # A policy that needs no shares of the link does not mind it.
        rig.cli("apply", rig.file())
        assert "htb 7:" in shown("tc", "qdisc", "show", "dev", "isl-ni1")
        rig.cli("clear")


def test_somebody_elses_classifier_stays_and_is_kept(rig: Rig) -> None:
    shown("tc", "qdisc", "add", "dev", "isl-q0", "clsact")
    where = ("dev", "isl-q0", "ingress")
    passes_all = ("bpf", "bytecode", "1,6 0 0 4294967295")
    shown("tc", "filter", "add", *where, "prio", "9", "protocol", "all", *passes_all)
    before = rig.host()
    rig.cli("apply", rig.file(vr1="rate_min: 1Gbps"))
    assert "isl_egress_tc" in shown("tc", "filter", "show", *where)
    assert "pref 9 bpf" in shown("tc", "filter", "show", *where)
    rig.cli("clear")
    rig.assert_host(before)


def test_somebody_elses_control_group_is_used_only_when_told_so(
    rig: Rig, refused: Callable[..., str]
) -> None:
    group = Path(f"/sys/fs/cgroup/cpu/{rig.group}/vr2")
    group.mkdir(parents=True)
    try:
        (group / "cpu.shares").write_text("777")
        (group / "tasks").write_text(str(os.getpid()))
        said = refused(rig.file(vr2="cpu_weight: 300"))
        assert str(group.parent) in said
        assert "--adopt" in said
        rig.cli("apply", rig.file(vr2="cpu_weight: 300"), "--adopt")
        assert (group / "cpu.shares").read_text() == "3072\n"
        assert len((group / "tasks").read_text().split()) > 1
        rig.cli("clear")
        assert (group / "cpu.shares").read_text() == "777\n"
        # A thread of this process that has just ended stays in the list for a moment.
        own, deadline = [str(os.getpid())], time.monotonic() + LIMIT_S
        while (tasks := (group / "tasks").read_text().split()) != own:
            assert time.monotonic() < deadline, tasks
            time.sleep(0.005)
    finally:
        Path("/sys/fs/cgroup/cpu/tasks").write_text(str(os.getpid()))
        group.rmdir()
        group.parent.rmdir()


def test_what_does_not_fit_the_host_is_refused(rig: Rig, refused: Callable[..., str]) -> None:
    assert "core 77" in refused(rig.file(vr1="cores: [77]"), status=2)
    nowhere = rig.folder / "nowhere.yaml"
    nowhere.write_text(rig.text().replace("isl-ni1", "eth77"))
    said = refused(nowhere, status=2)
    assert "there is no interface eth77" in said
    assert "isl-ni1" in said
    said = refused(rig.file(vr1="rate_min: 6Gbps", vr2="rate_min: 5Gbps"), status=2)
    assert "adds up to 11 Gbps" in said
    assert "10 Gbps" in said
    unstated = rig.folder / "unstated.yaml"
    unstated.write_text(rig.text(vr1="rate_min: 1Gbps").replace("rate: 10Gbps, ", ""))
    said = refused(unstated, status=2)
    assert "isl-ni0: its driver tells no speed" in said


def test_guarantees_above_the_link_are_refused_when_only_the_host_knows_the_way(
    make_rig: Callable[..., Rig],
) -> None:
    rig = make_rig(path="bridge")  # where frames leave is told by the bridge, not by the policy
    before = rig.host()
    text = rig.text(vr1="rate_min: 6Gbps", vr2="rate_min: 5Gbps")
    for number in range(2):
        uplinks = f"interfaces: {{isl-in{number}: isl-nb0, isl-out{number}: isl-nb1}}, "
        text = text.replace(uplinks, "")
    (rig.folder / "p.yaml").write_text(text)
    said = rig.cli("apply", rig.folder / "p.yaml", status=2)
    assert "rate_min adds up to 11000 Mbit/s (6000 + 5000)" in said
    assert "10000 Mbit/s" in said
    rig.assert_host(before)


def test_of_two_routers_with_one_address_the_one_that_had_it_not_waits(rig: Rig) -> None:
    """Frames for one could not be told from frames for the other."""
    rig.apply()
    before = set(rig.enforcer.threads()["vr2"])
    address = rig.wire("vr2").dst_mac
    shown("ip", "-n", "isolane-vr1", "link", "set", "dev", "isl-in0", "address", address)
    said = rig.cli("apply", rig.file())
    assert f"vr1 waits: isl-in0 has the same MAC address as vr2 (isl-in1), {address}" in said
    assert "vr1" not in rig.enforcer.threads()
    assert before == set(rig.enforcer.threads()["vr2"]), "whose frames go on by the policy"
    assert "waits" in rig.cli("status")


def test_a_macvlan_is_not_supported(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(path="macvlan")
    before = rig.host()
    assert "macvlan of isl-nm0" in rig.cli("apply", rig.file(), status=3)
    rig.assert_host(before)


@pytest.mark.parametrize(
    "entry",
    [
        "'; rm -rf x': {netns: isolane-vr1}",
        "a: {netns: '; touch pwned'}",
        "a: {netns: $(touch pwned)}",
        "a: {netns: ../../etc}",
        "a: {docker: '--help'}",
        "a: {docker: 'x; touch pwned'}",
        "a: {libvirt: '-c'}",
        "a: {interface: '../lo'}",
    ],
)
def test_names_that_are_no_names_are_refused(entry: str, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"isolane: 1\nname: p\nnics: {{eth1: {{rate: 1Gbps}}}}\nrouters:\n  {entry}\n")
    done = in_process("apply", file)
    assert done.returncode == 2
    assert f"{file}" in done.stderr
    assert "accepted: " in done.stderr


def rename(old: str, new: str) -> None:
    shown("ip", "link", "set", "dev", old, "down")
    shown("ip", "link", "set", "dev", old, "name", new)
    shown("ip", "link", "set", "dev", new, "up")


def test_names_never_reach_a_shell(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel lets interfaces have such names, so the policy has to."""
    monkeypatch.chdir(rig.folder)
    name = ";>a|`>b`$(>c)"
    rename("isl-ni0", name)
    file = rig.folder / "odd.yaml"
    file.write_text(rig.text(vr1="rate_min: 1Gbps").replace("isl-ni0", f'"{name}"'))
    rig.cli("apply", file)
    assert rig.data("status")["drift"] == []
    assert name in rig.cli("top", "--once", "--interval", "0.1")
    rig.cli("clear")
    assert sorted(path.name for path in rig.folder.iterdir()) == ["odd.yaml"]
    rename(name, "isl-ni0")


def test_a_second_command_names_the_lock(rig: Rig) -> None:
    with locked(rig.directory):
        said = rig.cli("apply", rig.file(), status=1)
        assert "another command is changing the policy" in said
        assert str(rig.directory / "lock") in said
    rig.cli("apply", rig.file())

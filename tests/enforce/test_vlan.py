"""Frames that carry a VLAN tag on the NIC reach their router untagged, whatever the NIC leaves out.

This kernel may have no VLANs of its own (CONFIG_VLAN_8021Q): the neighbours' frames are tagged by
BPF, as a VLAN interface tags them, and what a bridge would say of its ports is given.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from isolane.enforce.find.host_namespace import HostNamespace

from tests.enforce.lan import Lan, lan
from tests.enforce.test_tcp import NEIGHBOURS, assert_all_arrives, offloads

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("vlan_7")]

VLAN = 7
TAG = """
static long (*vlan_push)(void *skb, unsigned short proto, unsigned short tci) = (void *)18;

__attribute__((section("tc"), used)) int tag(void *skb)
{
	vlan_push(skb, __builtin_bswap16(0x8100), %d);
	return -1; /* TC_ACT_UNSPEC */
}
"""


@pytest.fixture(scope="module")
def tag(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Program that gives frames the tag, in the way of a VLAN interface: beside the frame."""
    if shutil.which("clang") is None:
        pytest.skip("no clang, which compiles the program that tags frames")
    folder = tmp_path_factory.mktemp("tag")
    (folder / "tag.c").write_text(TAG % VLAN)
    command = ["clang", "-O2", "-g", "-target", "bpf", "-c", "tag.c", "-o", "tag.o"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "tag.o"


@pytest.fixture
def vlan_7(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HostNamespace, "vlan_of", lambda _host, _port: VLAN)


def tag_frames(net: Lan, program: Path) -> None:
    for name in NEIGHBOURS:
        net.run(name, "tc", "qdisc", "add", "dev", "eth0", "clsact")
        net.run(name, "tc", "filter", "add", "dev", "eth0", "egress", "bpf", "da",
                "obj", str(program), "sec", "tc")  # fmt: skip


def tag_offload(net: Lan, name: str, ifname: str) -> str:
    lines = net.run(name, "ethtool", "-k", ifname).splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("tx-vlan-offload:")]
    return found


@pytest.mark.parametrize(("ip", "how"), [(4, "direct"), (6, "polled")])
def test_a_veth_gets_tags_into_its_frames_while_the_policy_is_in_force(
    ip: int, how: str, tag: Path
) -> None:
    with lan(ip, 1500, how) as net:
        tag_frames(net, tag)
        before = offloads(net)
        assert [tag_offload(net, name, "eth0") for name in NEIGHBOURS] == ["on", "on"]
        for forward in ("kernel", "xdp"):
            assert net.apply(f"forward: {forward}").notes == ()
            assert [tag_offload(net, name, "eth0") for name in NEIGHBOURS] == ["off", "off"]
            assert_all_arrives(net)
        assert net.enforcer.status().drift == ()
        net.enforcer.clear()
        assert offloads(net) == before


def test_a_tag_that_stays_beside_the_frame_hides_its_router_and_status_says_so(tag: Path) -> None:
    with lan(4, 1500) as net:
        tag_frames(net, tag)
        net.apply()
        net.run("west", "ethtool", "-K", "eth0", "txvlan", "on")
        assert net.transfer("west", "router", limit_s=1.0).received == 0
        (drift,) = net.enforcer.status().drift
        assert drift.setting.startswith("eth0 (")
        assert drift.setting.endswith("offload txvlan")
        net.apply()  # repairs it
        assert net.enforcer.status().drift == ()
        assert net.transfer("west", "router").intact


def test_an_offload_that_was_off_before_stays_off_afterwards(tag: Path) -> None:
    with lan(4, 1500) as net:
        tag_frames(net, tag)
        net.run("west", "ethtool", "-K", "eth0", "txvlan", "off")
        net.apply()
        assert_all_arrives(net)
        net.enforcer.clear()
        assert [tag_offload(net, name, "eth0") for name in NEIGHBOURS] == ["off", "on"]


@pytest.mark.parametrize("ip", [4, 6])
def test_the_demultiplexer_of_tc_takes_the_tag_off(ip: int, tag: Path) -> None:
    with lan(ip, 1500, "stacked") as net:
        tag_frames(net, tag)
        net.apply("rate_min: 1Gbps")
        assert_all_arrives(net)
        sample = net.enforcer.sample()
        assert sample is not None
        assert sample.routers[0].offered > 1000
        # No XDP program there needs the tag in the frame.
        assert [tag_offload(net, name, "eth0") for name in NEIGHBOURS] == ["on", "on"]

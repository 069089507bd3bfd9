"""A wrong policy is refused with file, line, key, value and what is accepted."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import parse_policy

GOOD = """\
isolane: 1
name: edge
nics:
  eth1: {rate: 1Gbps}
  eth2: {cores: [1]}
defaults: {cores: [1]}
routers:
  vr1:
    netns: vr1
    interfaces: {eth0: eth1}
    rate_min: 200Mbps
    cpu_max: 50%
  vr2:
    qemu: 4711
    interfaces: {tap0: eth1}
    rate_min: 300Mbps
    rate_max: 400Mbps
"""


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, "the case must change what it means to change"
    return GOOD.replace(old, new)


CASES = {
    "unknown key": (
        changed("cpu_max", "cpu_mx"),
        "bad.yaml:12: routers.vr1.cpu_mx: unknown key 'cpu_mx'; accepted: netns, pid,",
    ),
    "unknown key of a NIC": (
        changed("{rate: 1Gbps}", "{speed: 1Gbps}"),
        "bad.yaml:4: nics.eth1.speed: unknown key 'speed'; accepted: rate, cores",
    ),
    "identity in the defaults": (
        changed("{cores: [1]}\nrouters", "{netns: x}\nrouters"),
        "bad.yaml:6: defaults.netns: unknown key 'netns'; accepted: cpu_weight, cpu_max, cores,",
    ),
    "no identity": (
        changed("    netns: vr1\n", ""),
        "bad.yaml:8: routers.vr1: router 'vr1' has no identity; accepted: exactly one of netns,",
    ),
    "two identities": (
        changed("netns: vr1", "netns: vr1\n    docker: vr1"),
        "bad.yaml:8: routers.vr1: router 'vr1' has 2 ways to find it (netns, docker); accepted: ex",
    ),
    "the same router twice": (
        GOOD + "  vr3: {netns: /var/run/netns/vr1}\n",
        "bad.yaml:18: routers.vr3.netns: router 'vr3' is the same as 'vr1': netns /var/run/netns/v",
    ),
    "the same process twice": (
        GOOD + "  vr3: {pid: 4711}\n",
        "bad.yaml:18: routers.vr3.pid: router 'vr3' is the same as 'vr2': pid 4711; accepted: each",
    ),
    "a NIC that is also a router's own": (
        GOOD + "  vr3: {interface: eth2}\n",
        "bad.yaml:18: routers.vr3.interface: interface 'eth2' is shared (under nics) and router",
    ),
    "a name that a command would take for an option": (
        changed("netns: vr1", "docker: --privileged"),
        "bad.yaml:9: routers.vr1.docker: '--privileged' is not a container's name; accepted: lette",
    ),
    "a name with a shell's characters": (
        changed("netns: vr1", r'libvirt: "a\nb"'),
        "is not a domain's name; accepted: a name without '/'",
    ),
    "a namespace outside": (
        changed("netns: vr1", "netns: ../x"),
        "bad.yaml:9: routers.vr1.netns: '../x' is not a network namespace; accepted: a name (vr1) ",
    ),
    "an interface's name that is too long": (
        changed("{eth0: eth1}", "{eth0123456789012: eth1}"),
        "is not an interface's name; accepted: 1 to 15 characters",
    ),
    "an address that is none": (
        changed("qemu: 4711", "qemu: 4711\n    mac: 5254.0012.3456"),
        "bad.yaml:15: routers.vr2.mac: '5254.0012.3456' is not a MAC address; accepted: the addre",
    ),
    "an address of many": (
        changed("qemu: 4711", "qemu: 4711\n    mac: 33:33:00:00:00:01"),
        "bad.yaml:15: routers.vr2.mac: '33:33:00:00:00:01' is nobody's address; accepted: the add",
    ),
    "an address that is found": (
        changed("netns: vr1", "netns: vr1\n    mac: 52:54:00:12:34:56"),
        (
            "bad.yaml:10: routers.vr1.mac: mac of router 'vr1', whose addresses are found by its "
            "netns; accepted: with qemu, libvirt, process, incus, interface only"
        ),
    ),
    "an unknown NIC": (
        changed("{eth0: eth1}", "{eth0: eth3}"),
        (
            "bad.yaml:10: routers.vr1.interfaces.eth0: interface 'eth0' of router 'vr1' leaves by "
            "'eth3'; accepted: a NIC under nics (eth1, eth2)"
        ),
    ),
    "rate_min above rate_max": (
        changed("300Mbps", "500Mbps"),
        "bad.yaml:16: routers.vr2.rate_min: rate_min 500Mbps is above rate_max 400Mbps; accepted: ",
    ),
    "rate_min above a rate_max of another unit": (
        changed("400Mbps", "10kpps"),
        "rate_min 300Mbps is above rate_max 10kpps; accepted: at most rate_max",
    ),
    "over-committed link": (
        changed("200Mbps", "800Mbps"),
        (
            "bad.yaml:4: nics.eth1.rate: rate_min (vr1, vr2) adds up to 1.1 Gbps on eth1; "
            "accepted: at most 1 Gbps in all"
        ),
    ),
    "a relative rate": (
        changed("200Mbps", "0.5x"),
        "bad.yaml:11: routers.vr1.rate_min: '0.5x' is relative, and nothing is measured here; acce",
    ),
    "a rate of nothing": (
        changed("200Mbps", "0Mbps"),
        "bad.yaml:11: routers.vr1.rate_min: '0Mbps' is too little; accepted: 1kbps or more",
    ),
    "a rate without a unit": (
        changed("200Mbps", "200"),
        "bad.yaml:11: routers.vr1.rate_min: 200 has no unit; accepted: a number with a unit (pps, ",
    ),
    "unit in the wrong case": (
        changed("200Mbps", "200mbps"),
        (
            "unit 'mbps' of '200mbps' is not known; accepted: a number with a unit (pps, kpps, "
            "Mpps, bps, kbps, Mbps, Gbps) such as 200Mbps or 100kpps (did you mean Mbps?)"
        ),
    ),
    "two ceilings of the same kind": (
        changed("rate_max: 400Mbps", "rate_max: {egress: [400Mbps, 1Gbps]}"),
        "bad.yaml:17: routers.vr2.rate_max.egress: 2 rates of the same kind; accepted: one rate, ",
    ),
    "an unknown direction": (
        changed("rate_max: 400Mbps", "rate_max: {out: 1Gbps}"),
        "bad.yaml:17: routers.vr2.rate_max.out: unknown key 'out'; accepted: ingress, egress",
    ),
    "a cap without percent": (
        changed("50%", "0.5"),
        "bad.yaml:12: routers.vr1.cpu_max: 0.5 is not a percentage; accepted: a percentage of one ",
    ),
    "a cap above the cores": (
        changed("50%", "150%"),
        "bad.yaml:12: routers.vr1.cpu_max: cpu_max 150% on 1 core; accepted: at most 100%",
    ),
    "cores": (
        changed("{cores: [1]}\nrouters", "{cores: [1, 0, 1]}\nrouters"),
        "bad.yaml:6: defaults.cores: core 1 is given twice; accepted: a list of core numbers, 0 to",
    ),
    "no cores": (
        changed("{cores: [1]}\nrouters", "{cores: []}\nrouters"),
        "bad.yaml:6: defaults.cores: an empty list; accepted: a list of core numbers",
    ),
    "burst below a frame": (
        changed("cpu_max: 50%", "burst: 100B"),
        "bad.yaml:12: routers.vr1.burst: '100B' is out of range; accepted: 1518B (one frame) to 10",
    ),
    "priority": (
        changed("cpu_max: 50%", "priority: 8"),
        "bad.yaml:12: routers.vr1.priority: 8 is out of range; accepted: 0 to 7",
    ),
    "forwarding": (
        changed("cpu_max: 50%", "forward: xpd"),
        "forwarding 'xpd' is not known; accepted: kernel, xdp (did you mean xdp?)",
    ),
    "xdp in a virtual machine": (
        GOOD + "    forward: xdp\n",
        "bad.yaml:18: routers.vr2.forward: forward xdp for router 'vr2', a virtual machine; accept",
    ),
    "a key without a value": (
        changed("50%", ""),
        "bad.yaml:12: routers.vr1.cpu_max: nothing is given; accepted: a value, or the key left ou",
    ),
    "a router's name": (
        changed("  vr1:", "  Vr 1:"),
        "bad.yaml:8: routers.Vr 1: 'Vr 1' is not a name; accepted: 1 to 24 characters of a-z, 0-9 ",
    ),
    "no router": (
        "isolane: 1\nname: a\nrouters: {}\n",
        "bad.yaml:3: routers: no router; accepted: at least one",
    ),
    "no NIC": (
        "isolane: 1\nname: a\nrouters: {a: {pid: 1}}\n",
        "bad.yaml:1: no NIC, but router 'a' has no interface to itself; accepted: the host's inter",
    ),
    "no NIC for what is said of a machine's frames": (
        "isolane: 1\nname: a\nrouters: {a: {qemu: 9, cpu_weight: 5, priority: 1}}\n",
        "bad.yaml:1: no NIC, but router 'a' has no interface to itself; accepted: the host's inter",
    ),
    "a process twice": (
        "isolane: 1\nname: a\nrouters: {a: {qemu: 9}, b: {process: 9}}\n",
        "bad.yaml:3: routers.b.process: router 'b' is the same as 'a': process 9; accepted: each r",
    ),
    "a router twice": (
        GOOD + "  vr1: {pid: 1}\n",
        "bad.yaml:8: routers.vr1: key 'vr1' is given twice, in lines 8 and 18; accepted: each",
    ),
    "an experiment": (
        "isolane: 1\nname: a\nrouters: [{name: a}]\n",
        "bad.yaml:3: routers: a list is not what belongs here; accepted: a mapping",
    ),
    "nothing": ("", "bad.yaml: the file is empty; accepted: a policy in YAML"),
}


def test_the_good_one_is_good() -> None:
    assert parse_policy(GOOD).name == "edge"


@pytest.mark.parametrize("case", CASES)
def test_a_message_names_location_value_and_what_is_accepted(case: str) -> None:
    text, message = CASES[case]
    with pytest.raises(SpecError) as error:
        parse_policy(text, "bad.yaml")
    assert message in str(error.value)
    assert "accepted: " in str(error.value)
    assert len(str(error.value).splitlines()) == 1, "one fault, one line"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpu_weight": "abc"}, "vr1: cpu_weight=abc: 'abc' is not a whole number; accepted: 1 to"),
        ({"cpu_wieght": "2"}, "unknown key 'cpu_wieght'; accepted: cpu_weight, cpu_max, cores, "),
        ({"netns": "x"}, "netns=x: netns is how the router is found and cannot be set; accepted:"),
        ({"cores": "x"}, "cores=x: 'x' is not a core number; accepted: a list of core numbers"),
        ({"rate_max": "{in: 3pps}"}, "unknown key 'in'; accepted: ingress, egress"),
        ({"rate_max": "100Mbps"}, "rate_min 200Mbps is above rate_max 100Mbps; accepted: at most"),
        ({"cpu_max": "a: {"}, "vr1: cpu_max=a: {: 'a: {' is not a percentage; accepted: a perc"),
    ],
)
def test_a_wrong_change_is_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_policy(GOOD).with_changes("vr1", changes)
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_all_wrong_changes_are_told_at_once() -> None:
    with pytest.raises(SpecError) as error:
        parse_policy(GOOD).with_changes("vr1", {"queue": "1", "priority": "9", "speed": "1"})
    assert len(str(error.value).splitlines()) == 3


def test_a_change_to_an_unknown_router_is_refused() -> None:
    with pytest.raises(SpecError, match=r"router 'vr3' is not in policy edge; accepted: vr1, vr2 "):
        parse_policy(GOOD).with_changes("vr3", {"queue": "100"})

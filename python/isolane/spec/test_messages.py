from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import parse_experiment

GOOD = """\
isolane: 1
name: two
dut:
  cores: 1
traffic:
  frame_size: 64
routers:
  - name: victim
    path: direct
  - name: noise
    path: direct
load:
  victim: 0.27x
  noise: [0x, 1x]
trial:
  repeats: 3
"""


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, "the case must change what it means to change"
    return GOOD.replace(old, new)


def added(text: str) -> str:
    return GOOD + text


CASES = {
    "unknown key": (
        changed("  cores: 1", "  coers: 1"),
        (
            "bad.yaml:4: dut.coers: unknown key 'coers'; accepted: cores, receive, moderation, "
            "bridge_netfilter "
            "(did you mean cores?)"
        ),
    ),
    "unknown key at the root": (
        added("trail: {}\n"),
        (
            "bad.yaml:17: trail: unknown key 'trail'; accepted: isolane, name, title, "
            "description, dut, "
            "traffic, routers, load, arms, capacity, trial, published, objectives, not_runnable "
            "(did you mean trial?)"
        ),
    ),
    "unknown key in a list": (
        changed(
            "    path: direct\n  - name: noise", "    pth: 1\n    path: direct\n  - name: noise"
        ),
        "bad.yaml:9: routers[0].pth: unknown key 'pth'; accepted: name, kind, path, nic, hyper",
    ),
    "missing key": (
        changed("name: two\n", ""),
        "bad.yaml:1: key 'name' is missing; accepted: name: Name; the run folder",
    ),
    "wrong unit of a load": (
        changed("[0x, 1x]", "[0x, 1.5mpps]"),
        (
            "bad.yaml:14: load.noise[1]: unit 'mpps' of '1.5mpps' is not known; accepted: a "
            "number with "
            "a unit (pps, kpps, Mpps, bps, kbps, Mbps, Gbps, x) such as 400kpps or 0.5x (did "
            "you mean "
            "Mpps?)"
        ),
    ),
    "no unit of a load": (
        changed("0.27x", "400000"),
        "bad.yaml:13: load.victim: 400000 has no unit; accepted: a number with a unit (pps,",
    ),
    "wrong unit of a time": (
        changed("  repeats: 3", "  duration: 5 sec"),
        (
            "bad.yaml:16: trial.duration: unit 'sec' of '5 sec' is not known; accepted: a "
            "number with a "
            "unit (ns, us, ms, s, min, h)"
        ),
    ),
    "time without a unit": (
        changed("  repeats: 3", "  duration: 500000000"),
        "bad.yaml:16: trial.duration: 500000000 has no unit",
    ),
    "time out of range": (
        changed("  repeats: 3", "  duration: 10ms"),
        "bad.yaml:16: trial.duration: '10ms' is out of range; accepted: 50ms to 1h",
    ),
    "line rate in packets": (
        changed("  frame_size: 64", "  line_rate: 1Mpps"),
        (
            "bad.yaml:6: traffic.line_rate: unit 'Mpps' of '1Mpps' is not known; accepted: a "
            "number "
            "with a unit (bps, kbps, Mbps, Gbps)"
        ),
    ),
    "rate above the line": (
        changed("  frame_size: 64", "  line_rate: 1Gbps").replace("1x]", "1.5Mpps]"),
        (
            "bad.yaml:14: load.noise[1]: 1.5Mpps for noise: noise takes 1.01 Gbps (20 bytes "
            "of preamble "
            "and gap per frame); accepted: at most 1.488095Mpps in total of 64-byte frames "
            "on a line of "
            "1 Gbps"
        ),
    ),
    "unknown path": (
        changed("    path: direct\n  - name", "    path: brigde\n  - name"),
        (
            "bad.yaml:9: routers[0].path: path 'brigde' is not known; accepted: none, direct, "
            "bridge, macvlan, isolane, tap, macvtap, netback, sriov, sriov-macvtap, "
            "sriov-passthrough, dom0 (did you mean bridge?)"
        ),
    ),
    "unknown kind": (
        changed("    path: direct\n  - name", "    kind: pod\n    path: direct\n  - name"),
        "bad.yaml:9: routers[0].kind: router kind 'pod' is not known; accepted: native, container",
    ),
    "container without a path": (
        changed("    path: direct\n  - name", "    kind: container\n  - name"),
        (
            "bad.yaml:8: routers[0]: container 'victim' has no path; accepted: a path of "
            "direct, bridge"
        ),
    ),
    "native with a path": (
        changed("    path: direct\n  - name", "    path: direct\n    kind: native\n  - name"),
        (
            "bad.yaml:9: routers[0].path: router 'victim' is native and has no path, but "
            "'direct' is "
            "given"
        ),
    ),
    "two native routers in an arm": (
        added("arms: [{name: host, kind: native}]\n"),
        "bad.yaml:17: arms[0]: more than one native router in arm 'host'",
    ),
    "native arm with a path": (
        added("arms: [{name: host, kind: native, path: bridge}]\n"),
        "bad.yaml:17: arms[0].path: arm 'host' is native and has no path",
    ),
    "duplicate router": (
        changed("name: noise", "name: victim"),
        "bad.yaml:10: routers[1].name: router name 'victim' is given twice",
    ),
    "duplicate router by its members": (
        changed("name: noise", "name: victim-2")
        .replace("path: direct\n  - ", "path: direct\n    count: 3\n  - ")
        .replace("  noise:", "  victim-2:"),
        "router name 'victim-2' is given twice",
    ),
    "duplicate arm": (
        added("arms:\n  - {name: a, path: direct}\n  - {name: a, path: bridge}\n"),
        "bad.yaml:19: arms[1].name: arm name 'a' is given twice",
    ),
    "duplicate key": (
        added("name: three\n"),
        "name: key 'name' is given twice, in lines 2 and 17; accepted: each key once",
    ),
    "long name": (
        changed("name: noise", "name: noisy-neighbour"),
        (
            "bad.yaml:10: routers[1].name: name 'noisy-neighbour' is too long (15 characters); "
            "accepted: 1 to 12 characters of a-z, 0-9 and '-'"
        ),
    ),
    "long name of a member": (
        changed("name: noise\n", "name: neighbours\n    count: 10\n").replace(
            "  noise:", "  neighbours:"
        ),
        (
            "bad.yaml:10: routers[1].name: name 'neighbours' is too long: its members would be "
            "neighbours-10; accepted: 9 characters here"
        ),
    ),
    "bad name": (
        changed("name: noise", "name: Noise_1"),
        "bad.yaml:10: routers[1].name: 'Noise_1' is not a name",
    ),
    "reserved name": (
        changed("name: noise", "name: gen").replace("  noise:", "  gen:"),
        "bad.yaml:10: routers[1].name: router name 'gen' is used by Isolane itself",
    ),
    "load for an unknown router": (
        changed("  noise: [", "  nose: ["),
        (
            "bad.yaml:14: load.nose: load for an unknown router 'nose'; accepted: victim, "
            "noise (did "
            "you mean noise?)"
        ),
    ),
    "router without a load": (
        changed("  victim: 0.27x\n", ""),
        "bad.yaml:8: routers[0].name: router 'victim' has no load; accepted: an entry victim",
    ),
    "lists of unequal length": (
        changed("0.27x", "[0.1x, 0.2x, 0.3x]"),
        (
            "bad.yaml:14: load.noise: a list of 2 values beside load.victim with 3; "
            "accepted: lists of "
            "the same length"
        ),
    ),
    "count and load of unequal length": (
        changed("name: noise\n", "name: noise\n    count: [1, 2, 4]\n"),
        "load.noise: a list of 2 values beside routers.count with 3",
    ),
    "empty list": (
        changed("[0x, 1x]", "[]"),
        "bad.yaml:14: load.noise: an empty list; accepted: 1 to 1000 values",
    ),
    "no load at all": (
        changed("0.27x", "0x"),
        "bad.yaml:14: load.noise[0]: no router is offered any load at point 1 (noise 0x)",
    ),
    "the same point twice": (
        changed("[0x, 1x]", "[1x, 1.0x]"),
        "bad.yaml:14: load.noise[1]: points 1 and 2 are the same",
    ),
    "IPv6 frame too small": (
        changed("  frame_size: 64", "  frame_size: 83\n  ip: 6"),
        (
            "bad.yaml:6: traffic.frame_size: frame size of 83 bytes with IPv6 (router 'victim'); "
            "accepted: 84 to 1518 (Ethernet 14 + IPv6 40 + UDP 8 + signature 18 + checksum 4 = 84)"
        ),
    ),
    "frame too large": (
        changed("  frame_size: 64", "  frame_size: 9000"),
        "bad.yaml:6: traffic.frame_size: frame size 9000 is not possible; accepted: 64 to 1518",
    ),
    "address clash": (
        changed(
            "direct\n  - name: noise\n",
            "direct\n    address: 198.18.4.0/22\n  - name: noise\n    address: 198.18.5.0/24\n",
        ),
        (
            "bad.yaml:12: routers[1].address: 198.18.5.0/24 of router 'noise' clashes with "
            "the subnet "
            "of 'victim', 198.18.4.0/22; accepted: subnets apart"
        ),
    ),
    "address clash with a member": (
        changed(
            "direct\n  - name: noise\n",
            "direct\n    address: 198.18.4.0/24\n    count: 3\n"
            "  - name: noise\n    address: 198.18.6.0/24\n",
        ),
        "clashes with the subnet of 'victim-3'",
    ),
    "address clash with a default": (
        changed("- name: victim\n", "- name: victim\n    address: 198.18.1.0/24\n"),
        (
            "bad.yaml:9: routers[0].address: 198.18.1.0/24 of router 'victim' clashes with the "
            "subnet of 'noise', 198.18.1.0/24 by default; accepted: subnets apart"
        ),
    ),
    "address on the receiver's side": (
        changed("name: noise\n", "name: noise\n    address: 198.19.3.0/24\n"),
        "198.19.3.0/24 clashes with 198.19.0.0/16, which is the receiver's side; accepted: ",
    ),
    "addresses that run out": (
        changed("name: noise\n", "name: noise\n    count: 9\n    address: 255.255.255.0/26\n"),
        "bad.yaml:12: routers[1].address: no addresses are left behind 255.255.255.0/26",
    ),
    "address that is too small": (
        changed("name: noise\n", "name: noise\n    address: 198.18.9.0/30\n"),
        "prefix length of '198.18.9.0/30' is out of range; accepted: an IPv4 subnet of /8 to /29",
    ),
    "address of all": (
        changed("name: noise\n", "name: noise\n    address: 127.0.0.0/8\n"),
        "'127.0.0.0/8' is not for routed unicast traffic",
    ),
    "too many routers": (
        changed("name: noise\n", "name: noise\n    count: 64\n"),
        "bad.yaml:11: routers[1].count: 65 routers in all; accepted: at most 64",
    ),
    "address of the other family": (
        changed("name: noise\n", "name: noise\n    address: 2001:2::/64\n"),
        "bad.yaml:11: routers[1].address: 2001:2::/64 is not an IPv4 subnet",
    ),
    "address with host bits": (
        changed("name: noise\n", "name: noise\n    address: 198.18.5.1/24\n"),
        "'198.18.5.1/24' has bits set behind its prefix; accepted: 198.18.5.0/24",
    ),
    "capacity of an unknown arm": (
        added("capacity: {arm: bridge}\n"),
        "bad.yaml:17: capacity.arm: capacity of an unknown arm 'bridge'; accepted: direct",
    ),
    "too many trials": (
        changed("repeats: 3", "repeats: 1000")
        .replace("[0x, 1x]", str(["1x", *"abcdef"]))
        .replace(
            "['1x', 'a', 'b', 'c', 'd', 'e', 'f']", f"[{', '.join(f'{i}x' for i in range(11))}]"
        ),
        (
            "bad.yaml:16: trial.repeats: 11 points x 1 arms x 1000 repeats are 11000 trials; "
            "accepted: "
            "at most 10000"
        ),
    ),
    "format version": (
        changed("isolane: 1", "isolane: 2"),
        "bad.yaml:1: isolane: format version 2 is not known; accepted: 1",
    ),
    "true is not a number": (
        changed("repeats: 3", "repeats: true"),
        "bad.yaml:16: trial.repeats: true is not a whole number; accepted: 1 to 1000",
    ),
    "a list for a mapping": (
        changed("dut:\n  cores: 1", "dut: [1]"),
        "bad.yaml:3: dut: a list is not what belongs here; accepted: a mapping",
    ),
    "published figure of the wrong kind": (
        added(
            "published:\n  source: s\n  capacity: 1Mpps\n  rows:\n"
            "    - {arm: x, load: {vr: 1x}, router: vr, metric: cpu, value: 5kpps}\n"
        ),
        (
            "bad.yaml:21: published.rows[0].value: 5kpps is not a value of 'cpu'; accepted: "
            "a value "
            "such as 61%"
        ),
    ),
    "published figure of an unknown metric": (
        added(
            "published:\n  source: s\n  capacity: 1Mpps\n  rows:\n"
            "    - {arm: x, load: {vr: 1x}, router: vr, metric: troughput}\n"
        ),
        (
            "bad.yaml:21: published.rows[0].metric: 'troughput' is not known; accepted: "
            "throughput, "
            "loss, cpu, cpu-kernel, cpu-user, delay (did you mean throughput?)"
        ),
    ),
    "tag": (changed("name: two", "name: !!python/name:os.system two"), "accepted: plain values"),
    "syntax": (
        changed("[0x, 1x]", "[0x, 1x"),
        "bad.yaml:15: not valid YAML: expected ',' or ']', but got ':'",
    ),
    "tabs": (changed("  cores: 1", "\tcores: 1"), "bad.yaml:4: not valid YAML: "),
    "two documents": (added("---\nname: x\n"), "not valid YAML: "),
    "alias that contains itself": (
        "routers: &a [*a]\n",
        "bad.yaml:1: not valid YAML: contains its",
    ),
    "far too much": (f"x: [{'1,' * 21_000}]", "not valid YAML: more than 20000 values"),
    "billion laughs": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n"
            for a, b in zip("abcde", "bcdef", strict=True)
        ),
        "more than 20000 values",
    ),
    "deep nesting": ("[" * 5000, "bad.yaml:1: not valid YAML: nested too deeply"),
    "a list": ("- 1\n", "bad.yaml:1: the file holds a list; accepted: an experiment"),
    "a word": ("hello\n", "bad.yaml:1: the file holds a single value"),
    "nothing": ("", "bad.yaml: the file is empty"),
    "a comment": ("# nothing yet\n", "bad.yaml: the file is empty"),
}


def test_the_good_one_is_good() -> None:
    assert parse_experiment(GOOD).name == "two"


@pytest.mark.parametrize("case", CASES)
def test_a_message_names_location_value_and_what_is_accepted(case: str) -> None:
    text, message = CASES[case]
    with pytest.raises(SpecError) as error:
        parse_experiment(text, "bad.yaml")
    assert message in str(error.value)
    assert error.value.exit_code == 2
    assert "accepted: " in str(error.value)
    # A renamed router also leaves its load behind, and the other way round.
    renamed = {"duplicate router", "load for an unknown router"}
    faults = 2 if case in renamed else 1
    assert len(str(error.value).splitlines()) == faults, "one fault, one line"

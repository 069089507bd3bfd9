"""Policies inside experiments: what the arms make of them, and what is refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, PolicyValues, RateLimit, parse_experiment

GOOD = """\
isolane: 1
name: two
dut: {cores: 2}
traffic: {line_rate: 1Gbps}
routers:
  - {name: vr1, policy: {cpu_weight: 200, rate_min: 100Mbps}}
  - {name: vr2, count: 2}
load: {vr1: 0.27x, vr2: [0x, 1x]}
arms:
  - {name: unmanaged, path: bridge}
  - {name: managed, path: isolane}
  - name: other
    path: isolane
    policy: {vr1: {cpu_weight: 400, rate_max: 300Mbps}, vr2: {cores: [1]}}
"""


def policy(experiment: Experiment, arm: int, router: str) -> PolicyValues | None:
    return experiment.resolved_arms()[arm].router(router).policy


def test_an_arm_overrides_single_keys_of_a_routers_policy() -> None:
    it = parse_experiment(GOOD)
    assert policy(it, 0, "vr1") is None
    managed, other = policy(it, 1, "vr1"), policy(it, 2, "vr1")
    assert managed is not None
    assert other is not None
    assert (managed.cpu_weight, managed.rate_min_bps) == (200, 100e6)
    assert (other.cpu_weight, other.rate_min_bps) == (400, 100e6)
    assert (managed.rate_max.egress, other.rate_max.egress) == (None, RateLimit(bps=300e6))
    assert policy(it, 1, "vr2") == PolicyValues()


def test_on_wires_of_their_own_an_arms_policy_makes_the_difference() -> None:
    arms = "policy: {vr1: {cpu_weight: 400, rate_max: 300Mbps}, vr2: {cores: [1]}}"
    text = GOOD.replace("path: bridge", "path: direct").replace(", rate_min: 100Mbps", "")
    text = text.replace(
        f"path: isolane\n    {arms}", "path: direct\n    policy: {vr1: {}, vr2: {}}"
    )
    it = parse_experiment(text)
    assert policy(it, 0, "vr1") is None, "the same path without is the unmanaged one"
    mine = policy(it, 2, "vr1")
    assert mine is not None
    assert mine.cpu_weight == 200
    assert policy(it, 2, "vr2") == PolicyValues()
    alone = text[: text.index("arms:")].replace("{name: vr1,", "{name: vr1, path: direct,")
    it = parse_experiment(alone.replace("{name: vr2,", "{name: vr2, path: direct,"))
    assert policy(it, 0, "vr1") == mine
    assert policy(it, 0, "vr2") is None


@pytest.mark.parametrize("path", ["bridge", "macvtap", "sriov-macvtap", "tap"])
def test_a_virtual_machine_keeps_its_cpu_time_on_every_path(path: str) -> None:
    it = parse_experiment(
        GOOD.replace(", rate_min: 100Mbps", "").replace(
            "managed, path: isolane}",
            f"managed, kind: vm, path: {path}, policy: {{vr2: {{cpu_weight: 50, cpu_max: 40%}}}}}}",
        )
    )
    machines, bridged = it.resolved_arms()[1], it.resolved_arms()[0]
    assert [machines.router(name).cpu_weight for name in ("vr1", "vr2")] == [200, 50]
    assert policy(it, 1, "vr1") == PolicyValues(cpu_weight=200)
    assert policy(it, 1, "vr2") == PolicyValues(cpu_weight=50, cpu_max="40%")
    assert bridged.router("vr1").cpu_weight == 100, "a container is nobody's process"
    plain = parse_experiment(
        GOOD.replace("managed, path: isolane}", f"managed, kind: vm, path: {path}}}")
        .replace("policy: {cpu_weight: 200, rate_min: 100Mbps}", "count: 1")
        .replace("rate_max: 300Mbps", "rate_max: 300Mbps, rate_min: 1Mbps")
    )
    assert policy(plain, 1, "vr1") is None, "nobody has asked for one"


@pytest.mark.parametrize("path", ["bridge", "macvtap"])
def test_a_virtual_machine_shares_the_link_on_wires_that_others_share(path: str) -> None:
    text = GOOD.replace("managed, path: isolane}", f"managed, kind: vm, path: {path}}}")
    found = policy(parse_experiment(text), 1, "vr1")
    assert found == PolicyValues(cpu_weight=200, rate_min="100Mbps")
    assert found.asks_for_link() == ("rate_min",)
    assert not PolicyValues(cpu_weight=5, queue=64).asks_for_link()


def test_the_link_of_machines_may_be_slower_than_the_line() -> None:
    slow = GOOD.replace("managed, path: isolane}", "managed, kind: vm, path: bridge, RATE}")
    slow = slow.replace("{name: vr1, policy", "{name: vr1, count: 1, policy")
    arm = parse_experiment(slow.replace("RATE", "uplink_rate: 100Mbps")).resolved_arms()[1]
    assert arm.uplink.rate_bps == 100e6
    with pytest.raises(SpecError, match=r"at most the line's 90 Mbps in all \(uplink_rate\)"):
        parse_experiment(slow.replace("RATE", "uplink_rate: 90Mbps"))
    with pytest.raises(SpecError, match="uplink_rate of arm 'managed', in which no router has"):
        parse_experiment(
            slow.replace("RATE", "uplink_rate: 90Mbps").replace(", rate_min: 100Mbps", "")
        )


def test_cores_are_positions_among_those_of_the_dut() -> None:
    it = parse_experiment(GOOD)
    one, two = policy(it, 2, "vr1"), policy(it, 2, "vr2")
    assert one is not None
    assert two is not None
    assert (one.on((6, 7)).cores, two.on((6, 7)).cores) == ((6, 7), (7,))


def test_managed_routers_share_a_wire_and_run_live() -> None:
    it = parse_experiment(GOOD)
    (wire,) = {router.wire for router in it.resolved_arms()[1].routers}
    assert wire not in {router.wire for router in it.resolved_arms()[0].routers}
    assert it.only_simulated() == ()


def test_it_is_the_same_after_it_was_written_and_read_again() -> None:
    it = parse_experiment(GOOD)
    assert parse_experiment(it.to_yaml()) == it


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, "the case must change what it means to change"
    return GOOD.replace(old, new)


CASES = {
    "unknown key": (
        changed("cpu_weight: 400", "cpu_wieght: 4"),
        "bad.yaml:14: arms[2].policy.vr1.cpu_wieght: unknown key 'cpu_wieght'; accepted: cpu_weig",
    ),
    "identity": (
        changed("cpu_weight: 200", "netns: vr1"),
        "bad.yaml:6: routers[0].policy.netns: unknown key 'netns'; accepted: cpu_weight, cpu_max,",
    ),
    "unknown router": (
        changed("vr2: {cores: [1]}", "vr3: {}"),
        "bad.yaml:14: arms[2].policy.vr3: policy of an unknown router 'vr3'; accepted: vr1, vr2",
    ),
    "another path": (
        changed(
            "name: unmanaged, path: bridge", "name: unmanaged, path: bridge, policy: {vr1: {}}"
        ),
        "bad.yaml:10: arms[0].policy.vr1: policy of router 'vr1', whose path is bridge in this arm",
    ),
    "what a wire of its own has no place for": (
        changed(
            "name: unmanaged, path: bridge",
            "name: unmanaged, path: direct, policy: {vr2: {rate_max: 1Mbps}}",
        ),
        (
            "bad.yaml:10: arms[0].policy.vr2.rate_max: rate_max of router 'vr2', on path direct; "
            "accepted: cpu_weight, cores: the rest is kept on path isolane"
        ),
    ),
    "never managed": (
        GOOD[: GOOD.index("  - {name: managed")],
        "bad.yaml:6: routers[0].policy: policy of router 'vr1', which never has path isolane; acce",
    ),
    "a core that the DUT has not": (
        changed("cores: [1]}", "cores: [2]}"),
        (
            "bad.yaml:14: arms[2].policy.vr2.cores: core 2 of router 'vr2' in arm 'other'; "
            "accepted: 0 to 1: positions among the DUT's cores (dut.cores)"
        ),
    ),
    "rate_min of one arm above rate_max of another place": (
        changed("300Mbps", "50Mbps"),
        "bad.yaml:14: arms[2].policy.vr1: rate_min 100Mbps is above rate_max 50Mbps; accepted: at",
    ),
    "over-committed line, by the members of a group": (
        changed("cores: [1]}", "rate_min: 500Mbps}"),
        (
            "bad.yaml:14: arms[2].policy.vr2.rate_min: rate_min of vr1, vr2 adds up to 1.1 Gbps; "
            "accepted: at most the line's 1 Gbps in all (traffic.line_rate)"
        ),
    ),
    "CPU weight outside of the policy": (
        changed("path: isolane}", "path: isolane, cpu_weight: {vr1: 5}}"),
        "bad.yaml:11: arms[1].cpu_weight: unknown key 'cpu_weight'; accepted: ",
    ),
    "what neither the CPU scheduler nor a link keeps, of a virtual machine": (
        changed("path: isolane}", "path: macvtap, kind: vm, policy: {vr2: {queue: 64}}}"),
        (
            "bad.yaml:11: arms[1].policy.vr2.queue: queue of router 'vr2', a virtual machine on "
            "path macvtap; accepted: cpu_weight, cpu_max, cores, rate_min, rate_max, priority, "
            "link_weight, burst: the rest is kept on path isolane"
        ),
    ),
    "a limit in frames of a virtual machine": (
        changed("path: isolane}", "path: bridge, kind: vm, policy: {vr2: {rate_max: 5kpps}}}"),
        (
            "bad.yaml:11: arms[1].policy.vr2.rate_max: rate_max of router 'vr2', a virtual "
            "machine on path bridge, in frames per second; accepted: a rate in bit/s"
        ),
    ),
    "a limit of what a virtual machine receives": (
        changed(
            "path: isolane}",
            "path: bridge, kind: vm, policy: {vr2: {rate_max: {ingress: 5Mbps}}}}",
        ),
        (
            "bad.yaml:11: arms[1].policy.vr2.rate_max: rate_max.ingress of router 'vr2', a virtual "
            "machine on path bridge; accepted: rate_max: RATE, of what the router sends"
        ),
    ),
    "guarantees of machines that the wire cannot hold": (
        changed("path: isolane}", "path: bridge, kind: vm, policy: {vr2: {rate_min: 600Mbps}}}"),
        "bad.yaml:11: arms[1].policy.vr2.rate_min: rate_min of vr1, vr2 adds up to 1.3 Gbps; acc",
    ),
    "a link of a virtual function": (
        changed(
            "path: isolane}", "path: sriov-macvtap, kind: vm, policy: {vr2: {link_weight: 5}}}"
        ).replace(", rate_min: 100Mbps", ""),
        (
            "bad.yaml:11: arms[1].policy.vr2.link_weight: link_weight of router 'vr2', a virtual "
            "machine on path sriov-macvtap; accepted: cpu_weight, cpu_max, cores: the rest is kept"
        ),
    ),
    "the same in its own policy": (
        changed("path: isolane}", "path: tap, kind: vm}"),
        (
            "bad.yaml:6: routers[0].policy.rate_min: rate_min of router 'vr1', a virtual machine "
            "on path tap; accepted: cpu_weight, cpu_max, cores, rate_max, burst: the rest is kept "
        ),
    ),
    "XDP for a machine with a queue of its own": (
        changed("path: isolane}", "path: isolane, kind: vm, policy: {vr2: {forward: xdp}}}"),
        (
            "bad.yaml:11: arms[1].policy.vr2.forward: forward of router 'vr2', a virtual machine "
            "on path isolane; accepted: all keys but forward"
        ),
    ),
    "a cap where nobody keeps it": (
        changed("path: isolane}", "path: direct, policy: {vr2: {cpu_max: 5%}}}").replace(
            ", rate_min: 100Mbps", ""
        ),
        (
            "bad.yaml:11: arms[1].policy.vr2.cpu_max: cpu_max of router 'vr2', on path direct; "
            "accepted: cpu_weight, cores: the rest is kept on path isolane"
        ),
    ),
    "a virtual machine": (
        changed("path: isolane}", "path: isolane, kind: xen}"),
        "bad.yaml:11: arms[1].path: xen 'vr1' cannot have path 'isolane' in arm 'managed'; accept",
    ),
    "a wrong path tells nothing about policies": (
        changed("path: isolane}", "path: isolan}"),
        "bad.yaml:11: arms[1].path: path 'isolan' is not known; accepted: none, direct, bridge, ma",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_message_names_location_value_and_what_is_accepted(case: str) -> None:
    text, message = CASES[case]
    with pytest.raises(SpecError) as error:
        parse_experiment(text, "bad.yaml")
    assert message in str(error.value)
    assert "accepted: " in str(error.value)
    both = case == "a virtual machine"
    assert len(str(error.value).splitlines()) == (2 if both else 1), "one fault, one line"

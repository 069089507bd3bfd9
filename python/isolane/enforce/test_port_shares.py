"""Ports of network back-ends under a policy: what is asked of them, refused, written, put back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest

from isolane.enforce import port_samples
from isolane.enforce.back_end_checks import check_ports
from isolane.enforce.find import host_namespace
from isolane.enforce.find.back_end_ports import with_ports
from isolane.enforce.find.host_namespace import HostNamespace
from isolane.enforce.host_access import Host
from isolane.enforce.link_members import fed_by, of_unknown_frames
from isolane.enforce.link_plan import port_shares
from isolane.enforce.policy_notes import notes
from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.router_facts import BackEndPort, FoundRouter, Interface
from isolane.enforce.router_status import statuses
from isolane.enforce.router_watcher import _changed
from isolane.enforce.setting import from_key
from isolane.enforce.settings import PortShares
from isolane.enforce.settings import port_shares as setting_module
from isolane.errors import NotSupported, SpecError, TestbedError
from isolane.netback import PortStatus, Status, Step, UplinkStatus
from isolane.netback.service import _shares_of
from isolane.procfs import started
from isolane.spec.netback_changes import with_netback_changes
from isolane.spec.netback_models import NetbackFile
from isolane.spec.policy import Policy, parse_policy
from isolane.spec.schedulers import KEYS, SchedulerName

OURS, BEGAN = os.getpid(), started() or 0
"""This process stands for the back-end, and for the machine at its ports."""
VETH = Interface("veth", Path("/vr1"), "eth0", 5, "02:00:00:00:00:09", host_ifname="v1")


def policy(*routers: str, nics: str = "{n1: {}}") -> Policy:
    lines = "".join(f"  r{number}: {text}\n" for number, text in enumerate(routers))
    return parse_policy(f"isolane: 1\nname: p\nnics: {nics}\nrouters:\n{lines}")


def at(
    scheduler: SchedulerName = "hierarchical", rate: str | None = None, name: str = "vm1"
) -> Interface:
    port = BackEndPort("edge", name, "n1", scheduler, rate, OURS, BEGAN)
    return Interface("port", None, f"edge/{name}", 0, "", port=port)


def machine(*interfaces: Interface, number: int = 0) -> FoundRouter:
    return FoundRouter(f"r{number}", "vm", None, None, OURS, interfaces, (OURS,))


class BackEnd:
    """A back-end without frames: its file and how that is changed are the real ones."""

    def __init__(self, scheduler: str, ports: Sequence[str] = ("vm1", "vm2")) -> None:
        entries = {
            name: {"mac": f"02:00:00:00:00:{number:02x}"} for number, name in enumerate(ports)
        }
        self.plan = NetbackFile.model_validate(
            {
                "isolane": 1,
                "name": "edge",
                "uplinks": {"n1": {"scheduler": scheduler}},
                "ports": entries,
            }
        )

    def shares(self) -> dict[str, dict[str, Any]]:
        return {name: _shares_of(self.plan, name) for name in self.plan.ports}

    def set_keys(self, back_end: str, steps: Sequence[Step]) -> list[dict[str, tuple[Any, Any]]]:
        assert back_end == "edge"
        (step,) = steps
        before = self.shares()[step.name]
        self.plan = with_netback_changes(self.plan, step.name, step.changes)
        after = self.shares()[step.name]
        return [{key: (before[key], after[key]) for key in after if before[key] != after[key]}]

    def host(self) -> Host:
        """Look at it afresh, as each command does."""
        known = self.shares()
        return cast(
            "Host", SimpleNamespace(port_shares=lambda name: known if name == "edge" else {})
        )


KEYS_OF: Mapping[str, str] = {
    "weight": "link_weight: 7",
    "priority": "priority: 1",
    "rate_min": "rate_min: 12.5Mbps",
    "rate_max": "rate_max: 1.5Gbps",
}


@pytest.mark.parametrize("scheduler", [name for name in get_args(SchedulerName) if KEYS[name]])
def test_what_is_asked_for_is_what_the_port_then_has(
    scheduler: SchedulerName, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = BackEnd(scheduler)
    monkeypatch.setattr(setting_module, "set_keys", one.set_keys)
    original = one.shares()
    keys = ", ".join(KEYS_OF[key] for key in KEYS[scheduler])
    asked = policy(f"{{process: 5, {keys}}}", "{process: 6}")
    found = [machine(at(scheduler)), machine(at(scheduler, name="vm2"), number=1)]
    check_ports(asked, found)
    wanted = list(port_shares(asked, found))
    assert [desired.router for desired in wanted] == ["r0", "r1"]
    for desired in wanted:
        assert desired.setting.read(one.host()) != desired.value or desired.router == "r1"
        desired.setting.write(one.host(), desired.value)
        assert desired.setting.read(one.host()) == desired.value
        assert from_key(desired.setting.key) == desired.setting
    # One without a policy of its own is neither before nor behind one that has no priority.
    assert one.shares()["vm2"] == dict.fromkeys(KEYS[scheduler]) | {
        key: value for key, value in {"weight": 1, "priority": 3}.items() if key in KEYS[scheduler]
    }
    for desired in wanted:
        port = cast("PortShares", desired.setting).port
        desired.setting.write(one.host(), original[port])
    assert one.shares() == original


def test_with_another_scheduler_what_it_looks_at_is_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = BackEnd("drr")
    monkeypatch.setattr(setting_module, "set_keys", one.set_keys)
    setting = PortShares("edge", "vm1", "n1", OURS, BEGAN)
    original = setting.read(one.host())
    assert original == {"weight": 1}
    one.plan = with_netback_changes(one.plan, "n1", {"scheduler": "hierarchical"})
    setting.write(one.host(), {"weight": 3, "priority": 2, "rate_min": "1Mbps", "rate_max": None})
    setting.write(one.host(), original)
    assert one.shares()["vm1"] == {"weight": 1, "priority": 0, "rate_min": None, "rate_max": None}


@pytest.mark.parametrize(
    "setting",
    [
        PortShares("edge", "vm1", "n1", OURS, BEGAN + 1),
        PortShares("edge", "vm9", "n1", OURS, BEGAN),
        PortShares("other", "vm1", "n1", OURS, BEGAN),
    ],
    ids=["started anew", "without the port", "ended"],
)
def test_a_port_that_is_gone_has_nothing_and_takes_nothing(
    setting: PortShares, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = BackEnd("drr")
    monkeypatch.setattr(setting_module, "set_keys", one.set_keys)
    assert not setting.there(one.host())
    assert setting.read(one.host()) is None
    before = one.shares()
    setting.write(one.host(), {"weight": 5})
    assert one.shares() == before


@pytest.mark.parametrize(
    ("scheduler", "keys", "told"),
    [
        ("drr", "rate_min: 1Mbps", "whose scheduler is drr; run isolane set edge/n1 scheduler="),
        ("strict-priority", "link_weight: 2", "link_weight is not kept at its port edge/vm1"),
        ("fifo", "priority: 1", "priority is not kept"),
        ("hierarchical", "queue: 100", "queue is not kept"),
        ("hierarchical", "burst: 20kB", "burst is not kept"),
        ("hierarchical", "rate_max: 10kpps", "rate_max in frames/s is not kept"),
        ("hierarchical", "rate_max: {ingress: 1Mbps}", "rate_max.ingress is not kept"),
    ],
)
def test_what_a_port_does_not_keep_is_refused(
    scheduler: SchedulerName, keys: str, told: str
) -> None:
    with pytest.raises(NotSupported, match=told):
        check_ports(policy(f"{{process: 5, {keys}}}"), [machine(at(scheduler))])


def test_keys_of_cpu_time_alone_leave_the_ports_alone() -> None:
    for keys, nics in (("cpu_weight: 200", "{n1: {}}"), ("link_weight: 2", "{n2: {}}")):
        asked, found = policy(f"{{process: 5, {keys}}}", nics=nics), [machine(at("fifo"))]
        check_ports(asked, found)
        assert not list(port_shares(asked, found))


@pytest.mark.parametrize(("nics", "rate"), [("{n1: {rate: 20Mbps}}", None), ("{n1: {}}", "20Mbps")])
def test_more_than_the_uplink_has_is_not_promised(nics: str, rate: str | None) -> None:
    both = machine(at(rate=rate), at(rate=rate, name="vm2"))
    check_ports(policy("{process: 5, rate_min: 10Mbps}", nics=nics), [both])
    asked = policy("{process: 5, rate_min: 12Mbps}", nics=nics)
    with pytest.raises(SpecError, match=r"adds up to 24 Mbit/s .12 . 12., its link has 20 Mbit/s"):
        check_ports(asked, [both])


def test_a_port_is_one_routers() -> None:
    asked = policy("{process: 5, link_weight: 2}", "{process: 6}")
    with pytest.raises(SpecError, match="router r1: port edge/vm1 is router r0's, too"):
        check_ports(asked, [machine(at()), machine(at(), number=1)])
    check_ports(asked, [machine(at()), machine(at(name="vm2"), number=1)])


def test_who_goes_by_the_uplink_without_the_back_end_cannot_be_beside_it() -> None:
    container = FoundRouter("r1", "container", Path("/vr1"), 1, None, (VETH,))
    both = [machine(at()), container]
    with pytest.raises(NotSupported, match="router r1 cannot share it with r0 by a policy"):
        check_ports(policy("{process: 5, link_weight: 2}", "{netns: vr1}"), both)
    check_ports(policy("{process: 5, cpu_weight: 2}", "{netns: vr1}"), both)


def test_where_no_frame_is_known_it_is_said_what_is_not_kept() -> None:
    asked = policy("{process: 5, rate_max: 1Mbps, cpu_weight: 5}")
    assert of_unknown_frames(asked, machine()) == ("rate_max",)
    assert not of_unknown_frames(asked, machine(at()))
    there = at().port
    assert there is not None
    elsewhere = replace(at(), port=replace(there, uplink="n2"))
    assert of_unknown_frames(asked, machine(elsewhere)) == ("rate_max",)
    assert not of_unknown_frames(asked, machine(elsewhere, VETH))
    assert not of_unknown_frames(policy("{process: 5, cpu_weight: 5}"), machine())
    nic = cast(
        "Any",
        SimpleNamespace(name="n1", kind="", peer=None, runs_xdp=True, mtu=1500, no_filters=None),
    )
    (told,) = notes(asked, [machine()], {"n1": nic}, ())
    assert told.startswith("r0: rate_max not kept: it has no tap or macvtap")
    (told,) = notes(asked, [machine(at(), at(name="vm2"))], {"n1": nic}, ())
    assert told == "r0: 2 ports of network back-end edge on n1, each with the router's shares of it"


COUNTS = dict.fromkeys(
    ("transmitted", "wrong_source", "malformed", "sent", "not_taken", "waiting", "delivered",
     "ring_full", "too_long", "no_guest", "cut_offs"), 0,
)  # fmt: skip


def status(scheduler: SchedulerName = "drr", rate: str | None = None, **more: Any) -> Status:
    ports = tuple(
        PortStatus(
            name=name, uplink="n1", vlan=None, interface=None, socket="s", shares={"weight": 1},
            link_bytes=size, output_full=lost, attached=True, last_cut_off=None, process=process,
            **COUNTS,
        )
        for name, size, lost, process in (("vm1", 840, 2, OURS), ("vm2", 84, 0, 1))
    )  # fmt: skip
    link = UplinkStatus(
        name="n1", scheduler=scheduler, back_pressure="on", rate=rate, received=0, ring_full=0,
        too_long=0, sent=0, refused=0, retried=0, carrier=True,
    )  # fmt: skip
    return replace(Status("edge", ports, (link,), OURS, netns=7), **more)


def namespace(*nics: str) -> HostNamespace:
    made = HostNamespace.__new__(HostNamespace)
    made.nics, made.inode = frozenset(nics), 7
    return made


def test_a_machine_is_found_at_its_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(given: Status, *nics: str) -> FoundRouter:
        monkeypatch.setattr(host_namespace, "statuses", lambda **_: (given,))
        return with_ports(namespace(*nics), machine(VETH))

    (veth, found) = look(status("wfq", "1Gbps"), "n1").interfaces
    assert veth == VETH
    assert found == at("wfq", "1Gbps")
    for given, nics in (
        (status(), ()),
        (status(netns=8), ("n1",)),
        (status(process=None), ("n1",)),
        (status(process=2**22 + 1), ("n1",)),
    ):
        assert look(given, *nics) == machine(VETH)
    container = FoundRouter("r0", "container", None, None, OURS, (VETH,))
    monkeypatch.setattr(host_namespace, "statuses", lambda **_: (status(),))
    assert with_ports(namespace("n1"), container) == container


def test_what_a_port_has_in_front_of_it_is_that_port(monkeypatch: pytest.MonkeyPatch) -> None:
    there = status()
    (first, second) = there.ports
    ports = (replace(first, interface="v1", process=None), replace(second, interface="tap7"))
    monkeypatch.setattr(host_namespace, "statuses", lambda **_: (replace(there, ports=ports),))
    tap = Interface("tap", None, "tap7", 7, "02:00:00:00:00:08", host_ifname="tap7")
    other = Interface("veth", Path("/vr1"), "tap7", 6, "02:00:00:00:00:07", host_ifname="v2")
    found = FoundRouter("r0", "container", Path("/vr1"), 1, None, (VETH, other))
    behind = replace(at("drr"), behind=VETH)
    assert with_ports(namespace("n1"), found).interfaces == (behind, other)
    assert with_ports(namespace(), found) == found
    assert with_ports(namespace("n1"), machine(tap)).interfaces == (at("drr", name="vm2"),)
    alone = FoundRouter("r0", "interface", None, 1, None, (replace(tap, host_ifname=None),))
    assert with_ports(namespace("n1"), alone).interfaces == (at("drr", name="vm2"),)


def test_who_has_no_thread_of_its_own_has_no_share_of_the_cpu() -> None:
    container = FoundRouter("r0", "container", Path("/vr1"), 1, None, (at(),))
    check_ports(policy("{netns: vr1, link_weight: 2}"), [container])
    for keys in ("cpu_weight: 200", "cpu_max: 50%", "cores: [0]"):
        with pytest.raises(NotSupported, match="is not kept at port edge/vm1"):
            check_ports(policy(f"{{netns: vr1, {keys}}}"), [container])
        for more in ((at(), VETH), (replace(at(), behind=VETH),)):
            two = replace(container, interfaces=more)
            check_ports(policy(f"{{netns: vr1, {keys}}}"), [two])


def test_a_kernel_thread_feeds_who_is_behind_a_port() -> None:
    asked = policy("{netns: vr1, cpu_max: 50%}")
    container = FoundRouter("r0", "container", Path("/vr1"), 1, None, (at(),))
    assert fed_by(asked, container) is None
    assert fed_by(asked, replace(container, interfaces=(replace(at(), behind=VETH),))) == VETH


def in_force(tmp_path: Path, *settings: PortShares) -> State:
    state = State.load(tmp_path)
    for setting in settings:
        state.applied[setting.key] = AppliedSetting(None, {"weight": 2}, router="r0")
    return state


def test_what_its_ports_send_is_the_routers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = policy("{process: 5, link_weight: 2}", nics="{n1: {rate: 1Gbps}}")
    state = in_force(
        tmp_path,
        PortShares("edge", "vm1", "n1", OURS, BEGAN),
        PortShares("edge", "vm2", "n1", OURS, BEGAN),
        PortShares("gone", "vm2", "n1", OURS, BEGAN),
    )

    def answer(rate: str | None, name: str) -> Status:
        if name == "gone":
            raise TestbedError("no network back-end named gone runs")
        return status(rate=rate)

    for rate, found_bps in ((None, 1e9), ("100Mbps", 1e8)):
        monkeypatch.setattr(port_samples, "status_of", partial(answer, rate))
        found = port_samples.look(state, asked)
        assert found.link_bytes == {"r0": {"n1": 924}}
        assert found.lost == {"r0": 2}
        assert found.rates_bps == {"n1": found_bps}
        assert found.members == {"n1": ("r0",)}


def test_it_is_told_in_words_of_the_policy(tmp_path: Path) -> None:
    asked = policy("{process: 5, link_weight: 2}")
    setting = PortShares("edge", "vm1", "n1", OURS, BEGAN)
    state = in_force(tmp_path, setting)
    has = {"weight": 2, "priority": 3, "rate_min": "1Mbps", "rate_max": "5Mbps"}
    (told,) = statuses(asked, (machine(at()),), state, {setting.key: has})
    assert told.steer == "back-end edge"
    assert told.in_force == {
        "link_weight": "2", "rate_min": "1Mbps", "rate_max": "{egress: 5Mbps}",
    }  # fmt: skip
    assert str(setting) == "shares of port edge/vm1 on n1"


def test_the_watcher_notices_that_a_back_end_has_ended() -> None:
    there = at()
    assert there.port is not None
    assert not _changed(machine(there))
    gone = replace(there, port=replace(there.port, began=BEGAN + 1))
    assert _changed(machine(gone))

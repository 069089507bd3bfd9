"""Receive queues of routers' own: who gets one, what the NIC is told, and how it is put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from isolane.enforce import policy_plan, transaction
from isolane.enforce.host_access import Host
from isolane.enforce.nic_features import Nic
from isolane.enforce.policy_notes import notes
from isolane.enforce.policy_plan import Plan
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.enforce.setting import Desired
from isolane.enforce.settings import Affinity, Filter, Member, Spread
from isolane.enforce.steering import steer
from isolane.enforce.steering_plan import filters, spread
from isolane.enforce.transaction import OwnedByOthersError
from isolane.errors import NotSupported
from isolane.spec.policy import Policy, parse_policy
from isolane.testbed import kernel, receive_filters
from isolane.testbed.receive_filters import ReceiveFilter

BASE = "/host"


def policy(steering: str, routers: int = 2) -> Policy:
    entries = "".join(f"  vr{n}: {{netns: vr{n}, cores: [1]}}\n" for n in range(routers))
    nics = f"nics: {{nic0: {{rate: 1Gbps, cores: [0], steer: {steering}}}}}\n"
    return parse_policy(f"isolane: 1\nname: p\n{nics}routers:\n{entries}")


def found(routers: int = 2) -> list[FoundRouter]:
    return [
        FoundRouter(f"vr{n}", "container", Path(f"/vr{n}"), 1, None, (interface(n),))
        for n in range(routers)
    ]


def interface(number: int) -> Interface:
    mac = f"02:00:00:00:00:{number:02x}"
    return Interface("veth", Path(f"/vr{number}"), "eth0", 5, mac, host_ifname=f"v{number}")


def nic(queues: int = 8, slots: int = 0, why: str | None = None) -> dict[str, Nic]:
    made = Nic(
        "nic0", 1, 1500, None, runs_xdp=True, takes_xdp=True, takes_parts=True,
        queues=queues, filter_slots=slots, no_filters=why,
    )  # fmt: skip
    return {"nic0": made}


def test_each_router_gets_a_queue_from_the_last_down() -> None:
    for word in ("auto", "hardware"):
        got = steer(policy(word), found(), nic())
        assert dict(got.queues) == {
            ("nic0", "02:00:00:00:00:00/0"): 7,
            ("nic0", "02:00:00:00:00:01/0"): 6,
        }
        assert not got.why_not
    assert not steer(policy("software"), found(), nic()).queues
    default = policy("software").nics["nic0"].model_copy()
    assert default.steer == "software"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (nic(queues=2), "has 2 receive queues"),
        (nic(slots=1), "takes 1 receive filters"),
    ],
)
def test_who_finds_no_queue_is_told_in_software_or_refused(made: dict[str, Nic], why: str) -> None:
    got = steer(policy("auto"), found(), made)
    assert len(got.queues) == len(got.why_not) == 1
    (note,) = (one for one in notes(policy("auto"), found(), made, ()) if "no receive queue" in one)
    assert note.startswith("vr1: no receive queue of its own on nic0: ")
    assert why in note
    with pytest.raises(NotSupported, match=f"not supported on this host: .*router vr1: .*{why}"):
        steer(policy("hardware"), found(), made)


def test_a_nic_without_filters_is_refused_even_before_a_router_runs() -> None:
    made = nic(why="the driver of nic0 has no receive filters")
    with pytest.raises(NotSupported, match=r"nic nic0: .*no receive filters; use steer: auto"):
        steer(policy("hardware"), [], made)
    assert not steer(policy("auto"), found(), made).queues


@dataclass
class FakeNic:
    """Filters and spread of a NIC."""

    filters: dict[tuple[str, int], int] = field(default_factory=dict)
    table: list[int] = field(default_factory=lambda: [0, 1, 2, 3, 4, 5, 6, 7])
    ntuple: bool = False

    def listed(self, *_: object) -> list[ReceiveFilter]:
        entries = enumerate(self.filters.items())
        return [ReceiveFilter(n, mac, vlan, queue) for n, ((mac, vlan), queue) in entries]

    def add(self, _sock: object, _ifname: str, mac: str, vlan: int, queue: int) -> None:
        self.filters[mac, vlan] = queue

    def remove(self, _sock: object, _ifname: str, location: int) -> None:
        del self.filters[list(self.filters)[location]]

    def set_table(self, _sock: object, _ifname: str, table: list[int]) -> None:
        self.table = table

    def set_offload(self, _sock: object, _ifname: str, feature: str, *, on: bool) -> None:
        assert feature == "ntuple"
        self.ntuple = on


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNic:
    made = FakeNic()
    for name, function in (
        ("filters", made.listed),
        ("add", made.add),
        ("remove", made.remove),
        ("spread", lambda *_: made.table),
        ("set_spread", made.set_table),
    ):
        monkeypatch.setattr(receive_filters, name, function)
    monkeypatch.setattr(kernel, "get_offload", lambda *_: made.ntuple)
    monkeypatch.setattr(kernel, "set_offload", made.set_offload)
    monkeypatch.setattr(policy_plan, "threads_by_queue", lambda *_: {7: 107, 6: 106, 0: 100})
    return made


def host() -> Host:
    group = Path("/cgroup/isolane")
    groups = SimpleNamespace(path=lambda router: group / router, root=Path("/cgroup"))
    made = SimpleNamespace(
        base=BASE,
        groups=groups,
        namespace=lambda path: SimpleNamespace(ioctl=path),
        ifindex=lambda *_: 1,
    )
    return cast("Host", made)


def plan(word: str, state: State) -> Plan:
    there = nic()
    got = steer(policy(word), found(), there)
    return Plan(policy(word), found(), {}, there, host(), state, got)


def steered(it: Plan) -> list[Desired]:
    """Return what the plan tells the NIC, without programs and threads."""
    wanted = list(spread(it.steering, it.nics["nic0"], it.host))
    for router in it.found:
        wanted += filters(it.steering, it.policy.nics, router, it.host)
    return wanted


def test_filters_are_applied_shown_as_drift_and_put_back(fake: FakeNic, tmp_path: Path) -> None:
    state = State.load(tmp_path)
    transaction.apply(steered(plan("auto", state)), state, host(), {})
    assert fake.ntuple
    assert fake.filters == {("02:00:00:00:00:00", 0): 7, ("02:00:00:00:00:01", 0): 6}
    assert max(fake.table) == 5, "what has no filter stays out of the routers' own queues"
    fake.filters["02:00:00:00:00:01", 0] = 3
    readings = transaction.read_all(state, host())
    (drift,) = transaction.drifts(state, readings)
    assert (drift.wanted, drift.found) == (6, 3)
    fake.filters["02:00:00:00:00:01", 0] = 6
    # Changing to software at run time takes the filters out again.
    transaction.apply(steered(plan("software", state)), state, host(), {})
    assert not fake.filters
    transaction.apply(steered(plan("auto", state)), state, host(), {})
    assert transaction.clear(State.load(tmp_path), host()) == []
    assert not fake.filters
    assert fake.table == [0, 1, 2, 3, 4, 5, 6, 7]
    assert not fake.ntuple


def test_somebody_elses_filter_is_named_and_left(fake: FakeNic, tmp_path: Path) -> None:
    fake.filters["02:00:00:00:00:01", 0] = 2
    state = State.load(tmp_path)
    with pytest.raises(OwnedByOthersError, match=r"02:00:00:00:00:01: .* to queue 2 already"):
        transaction.apply(steered(plan("auto", state)), state, host(), {})
    assert fake.filters == {("02:00:00:00:00:01", 0): 2}
    assert fake.table == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.usefixtures("fake")
def test_the_thread_of_a_routers_queue_works_in_its_cgroup(tmp_path: Path) -> None:
    it = plan("auto", State.load(tmp_path))
    nic0 = it.nics["nic0"]
    owners = it._queue_owners(nic0)
    assert owners == {107: "vr0", 106: "vr1"}
    wanted = list(it._own_queue("vr0", nic0, 107, 1))
    values = {type(one.setting): one.value for one in wanted}
    assert values[Member] == "isolane/vr0"
    assert values[Affinity] == [1]
    assert it.paced.threads == {"vr0": [107]}
    assert not it.paced.nics


def test_a_driver_that_does_not_tell_its_threads_is_refused(
    fake: FakeNic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_plan, "threads_by_queue", lambda *_: {0: 100})
    it = plan("auto", State.load(tmp_path))
    with pytest.raises(NotSupported, match="which thread polls its receive queue"):
        it._queue_owners(it.nics["nic0"])
    assert not fake.filters


def test_settings_say_what_they_are() -> None:
    assert "02:00" in str(Filter(BASE, "nic0", "02:00:00:00:00:01", 7))
    assert "VLAN 7" in str(Filter(BASE, "nic0", "02:00:00:00:00:01", 7))
    assert "nic0" in str(Spread(BASE, "nic0"))

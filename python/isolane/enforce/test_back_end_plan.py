"""A back-end's cgroup, threads and core under a policy, beside those of its routers."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from isolane.enforce.back_end_plan import back_end_groups, back_end_threads, is_back_end
from isolane.enforce.cpu_cgroups import Groups, shares_of
from isolane.enforce.group_plan import groups
from isolane.enforce.host_access import Host
from isolane.enforce.pacemaker_work import PacemakerWork
from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.router_facts import BackEndPort, FoundRouter, Interface
from isolane.enforce.sampling import nic_threads_of, threads_of
from isolane.enforce.settings import GroupFile, Member, Scheduling
from isolane.enforce.steering import Steering
from isolane.enforce.test_cpu_cgroups import ON_A_HOST
from isolane.procfs import started
from isolane.spec.policy import parse_policy

OURS, BEGAN = os.getpid(), started() or 0
"""This process stands for the back-end."""
HOW = [os.SCHED_BATCH, 0, 100_000]


def at(back_end: str = "edge", name: str = "vm1", began: int = BEGAN) -> Interface:
    port = BackEndPort(back_end, name, "n1", "drr", None, OURS, began)
    return Interface("port", None, f"{back_end}/{name}", 0, "", port=port)


def routers(*interfaces: Interface) -> list[FoundRouter]:
    return [
        FoundRouter(f"r{number}", "vm", None, None, OURS, (interface,))
        for number, interface in enumerate(interfaces)
    ]


HOST = cast("Host", SimpleNamespace(groups=Groups("isolane", ON_A_HOST)))


def weights(*interfaces: Interface, weight: int = 100) -> dict[str, int]:
    found = routers(*interfaces)
    lines = "".join(
        f"  {router.name}: {{process: {number}, cpu_weight: {weight}}}\n"
        for number, router in enumerate(found, 5)
    )
    policy = parse_policy(f"isolane: 1\nname: p\nnics: {{n1: {{}}}}\nrouters:\n{lines}")
    wanted = groups(policy, found, Steering(), HOST)
    files = [(one.setting, one.value) for one in wanted if isinstance(one.setting, GroupFile)]
    return {one.router: int(value) for one, value in files if one.file == "cpu.shares"}


def test_a_back_end_has_twice_what_its_routers_have_together() -> None:
    two = weights(at(), at(name="vm2"))
    assert two == {
        "": shares_of(600), "back-end.edge": shares_of(400),
        "r0": shares_of(100), "r1": shares_of(100),
    }  # fmt: skip
    both = weights(at(), at("other"))
    assert both[""] == shares_of(1000)
    assert both["back-end.edge"] == both["back-end.other"] == shares_of(400)


def test_no_weight_is_more_than_the_kernel_takes() -> None:
    heavy = weights(at(), at(name="vm2"), weight=10_000)
    assert heavy[""] == heavy["back-end.edge"] == heavy["r0"] == shares_of(10_000)


def test_without_a_port_there_is_no_group() -> None:
    veth = Interface("veth", Path("/vr1"), "eth0", 5, "02:00:00:00:00:09", host_ifname="v1")
    assert weights(veth) == {"": shares_of(100), "r0": shares_of(100)}
    assert not list(back_end_groups(routers(veth), 100, HOST))


def test_each_of_its_threads_is_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        monkeypatch.setattr(os, "cpu_count", lambda: 8)
        pinned = os.sched_getaffinity(0)
        paced = PacemakerWork()
        wanted = list(back_end_threads(routers(at(), at(name="vm2")), HOST, paced, HOW))
        numbers = {other.native_id, threading.get_native_id()}
        for kind, value in ((Member, "isolane/back-end.edge"), (Scheduling, HOW)):
            its = [one for one in wanted if isinstance(one.setting, kind)]
            assert numbers <= {cast("Member", one.setting).thread for one in its}
            assert all(one.value == value for one in its)
        assert paced.back_ends == pinned
        state = State.load(tmp_path)
        for one in wanted:
            state.applied[one.setting.key] = AppliedSetting(None, one.value)
        assert not threads_of(state), "they are no router's"
        assert numbers <= set(nic_threads_of(state))
        gone = at(began=BEGAN + 1)
        assert not list(back_end_threads(routers(gone), HOST, paced, HOW))
    finally:
        stop.set()
        other.join()


def test_one_that_may_run_anywhere_is_pinned_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: len(os.sched_getaffinity(0)))
    paced = PacemakerWork()
    assert list(back_end_threads(routers(at()), HOST, paced, HOW))
    assert not paced.back_ends


def test_no_router_is_taken_for_one() -> None:
    assert is_back_end("back-end.edge")
    assert not is_back_end("back-end-edge")
    assert not is_back_end("back-end")

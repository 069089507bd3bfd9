"""Policies where the kernel does not tell which thread polls which interface (before Linux 6.8)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator

import pytest
from isolane import scheduling
from isolane.enforce import napi_threads
from isolane.errors import NotSupported
from isolane.netdev import napi_threads as told_by_the_kernel
from isolane.testbed import layout

from tests import machine
from tests.enforce.rig import DUT, Rig, inside, shown

pytestmark = [pytest.mark.root, pytest.mark.native]

OTHER = f"isolane-other-{os.getpid()}"


@pytest.fixture
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the kernel be as one of those, and interfaces have names that no other checkout's have.

    Threads are found by name among those of the whole machine.
    """

    def refuse(*_: object) -> None:
        raise NotSupported("an older kernel tells nothing")

    for name in ("has_napi", "napi_threads", "queue_threads"):
        monkeypatch.setattr(napi_threads, name, refuse)
    monkeypatch.setattr(napi_threads, "tells_threads", lambda: False)
    monkeypatch.setattr(layout, "PREFIX", f"o{os.getpid() % 10_000}-")


def polling(netns: str, ifname: str) -> list[int]:
    """Threads of an interface, as this host's kernel tells them."""
    return inside(netns, lambda: told_by_the_kernel(socket.if_nametoindex(ifname)))


@pytest.mark.usefixtures("_untold")
@pytest.mark.parametrize("path", ["isolane", "direct"])
def test_threads_are_found_by_their_names(make_rig: Callable[..., Rig], path: str) -> None:
    rig = make_rig(path=path)
    before = rig.host()
    rig.cli("apply", rig.file())
    for router in rig.routers:
        mine = polling(f"isolane-{router}", rig.bed.inner_interfaces[router][0])
        assert mine
        assert set(mine) <= set(rig.enforcer.threads()[router])
    nics = {thread for nic in rig.nics for thread in polling(DUT, nic)}
    assert nics == set(rig.enforcer.nic_threads())
    assert not rig.enforcer.status().drift
    rig.offer({"vr1": 1000, "vr2": 1000})
    rig.enforcer.clear()
    rig.assert_host(before)


@contextlib.contextmanager
def another(ifname: str) -> Iterator[None]:
    """Have an interface of this name, polled by a thread, in a namespace of its own."""
    shown("ip", "netns", "add", OTHER)
    try:
        for command in (
            f"link add {ifname} type veth peer name far",
            f"link set {ifname} up",
            "link set far up",
        ):
            shown("ip", "-n", OTHER, *command.split())
        # Merging of what is received takes NAPI.
        shown("ip", "netns", "exec", OTHER, "ethtool", "-K", ifname, "gro", "on")
        switch = f"echo 1 >/sys/class/net/{ifname}/threaded"
        shown("ip", "netns", "exec", OTHER, "sh", "-c", switch)
        yield
    finally:
        shown("ip", "netns", "delete", OTHER)
        machine.await_removed_namespaces()  # its thread goes with it


@pytest.mark.usefixtures("_untold")
def test_two_interfaces_of_one_name_are_not_told_apart(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    before = rig.host()
    ifname = rig.bed.inner_interfaces["vr1"][0]
    with another(ifname):
        said = rig.cli("apply", rig.file(), status=3)
        assert f"threads poll interface {ifname} in " in said
        assert OTHER in said
        assert "as Linux 6.8 does" in said
    rig.assert_host(before)
    rig.cli("apply", rig.file())
    rig.cli("clear")
    rig.assert_host(before)


def test_a_kernel_has_slices_if_it_keeps_one() -> None:
    policy, nice, slice_ns = scheduling.get_scheduling(0)
    scheduling.set_scheduling(0, os.SCHED_OTHER, nice, 7_000_000)
    try:
        found = scheduling.get_scheduling(0)
    finally:
        scheduling.set_scheduling(0, policy, nice, slice_ns)
    assert found == (os.SCHED_OTHER, nice, 7_000_000 if scheduling.has_slices() else 0)

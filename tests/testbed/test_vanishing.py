"""Whatever others remove while Isolane looks at it is gone: an answer, not an error."""

from __future__ import annotations

import errno
import inspect
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from isolane.errors import MeasurementError
from isolane.testbed import NETNS_DIR, Journal, Testbed, clean
from isolane.testbed.namespace_thread import run_in_thread
from isolane.testbed.netns import Namespace
from pyroute2 import NetNS

from tests.live_bench import live_bench

pytestmark = pytest.mark.root

EXPERIMENT = """\
isolane: 1
name: gone
routers: [{name: one, path: direct}]
load: {one: 1pps}
"""
GOING = "going0"
"""An interface that has a name still, but no attributes any more."""
ANSWERS = {
    "its folder is gone": errno.ENODEV,
    "the kernel is taking it away": errno.EINVAL,
}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def deleted(name: str) -> None:
    ip("netns", "delete", name)


@pytest.fixture
def left(journal: Journal, plan: Any) -> Iterator[list[str]]:
    """Names of the namespaces that a dead run has left, with its journal."""
    bed = Testbed(plan("direct", 2), journal)
    bed.__enter__()
    names = sorted(path.name for path in NETNS_DIR.glob("isolane-*"))
    journal.close()  # from now on it is a dead run's
    yield names
    clean()
    bed.__exit__(None, None, None)


@pytest.mark.parametrize("why", ANSWERS)
def test_clean_takes_an_interface_that_just_goes_for_gone(
    why: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names, read = Namespace.interfaces, Namespace.read

    def interfaces(namespace: Namespace) -> list[str]:
        return [*names(namespace), *([GOING] if called_by("programs") else [])]

    def read_or_gone(namespace: Namespace, ifname: str, attribute: str) -> str:
        if ifname == GOING and ANSWERS[why] == errno.EINVAL:
            raise OSError(errno.EINVAL, "Invalid argument")
        return read(namespace, ifname, attribute)

    monkeypatch.setattr(Namespace, "interfaces", interfaces)
    monkeypatch.setattr(Namespace, "read", read_or_gone)
    assert clean() == [f"network namespace {name}" for name in in_order(left)]


def called_by(name: str) -> bool:
    return any(frame.function == name for frame in inspect.stack())


def in_order(names: list[str]) -> list[str]:
    """As a test bed makes them."""
    first = ["isolane-gen", "isolane-rcv", "isolane-dut"]
    return [*first, *(name for name in names if name not in first)]


@pytest.mark.parametrize("when", ["before it is opened", "while its links are deleted"])
def test_clean_takes_a_namespace_that_somebody_deletes_for_gone(
    when: str, left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = left[-1]
    if when == "before it is opened":
        opened = os.open

        def deleting(path: Any, flags: int, *more: Any, **named: Any) -> int:
            if path == NETNS_DIR / victim and path.exists():
                deleted(victim)
            return opened(path, flags, *more, **named)

        monkeypatch.setattr("os.open", deleting)
    else:
        delete_links = Namespace.delete_links

        def deleting_links(namespace: Namespace) -> None:
            if namespace.name == victim:
                deleted(victim)
            delete_links(namespace)

        monkeypatch.setattr(Namespace, "delete_links", deleting_links)
    assert f"network namespace {left[0]}" in clean()
    assert not list(NETNS_DIR.glob("isolane-*"))


def test_clean_leaves_a_namespace_alone_that_took_the_name_meanwhile(
    left: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, delete_links = left[-1], Namespace.delete_links

    def taking_over(namespace: Namespace) -> None:
        if namespace.name == victim:
            deleted(victim)
            ip("netns", "add", victim)
        delete_links(namespace)

    monkeypatch.setattr(Namespace, "delete_links", taking_over)
    try:
        assert f"network namespace {victim}" not in clean()
        ip("-n", victim, "link", "show", "lo")
    finally:
        deleted(victim)


def test_an_interface_that_is_gone_is_told_from_an_attribute_that_is_missing() -> None:
    def look() -> tuple[int | None, list[int | None]]:
        with_lo = Namespace("here", os.open("/proc/self/ns/net", os.O_RDONLY))
        found = []
        for ifname, attribute in (("none0", "ifindex"), ("lo", "no-such")):
            with pytest.raises(OSError) as refused:  # noqa: PT011 - the number says it
                with_lo.read(ifname, attribute)
            found.append(refused.value.errno)
        index = with_lo.index_of("none0")
        with_lo.close()
        return index, found

    assert run_in_thread(look) == (None, [errno.ENODEV, errno.ENOENT])


@pytest.mark.parametrize("end", ["isl-out1", "isl-in1"])
def test_counters_of_a_wire_that_vanished_name_it(journal: Journal, plan: Any, end: str) -> None:
    with Testbed(plan("direct", 2), journal) as bed:
        with NetNS("isolane-vr-2", flags=0) as links:
            links.link("del", index=links.link_lookup(ifname=end)[0])
        with pytest.raises(MeasurementError, match=r"isl-\w+ in isolane-\S+ vanished"):
            bed.counters()


def test_a_trial_on_a_wire_that_has_gone_names_the_interface() -> None:
    """Whatever it is that fails first: here the generator, which is refused by its number."""
    with live_bench(EXPERIMENT) as (_, offer):
        assert offer(1e3).conserved
        ip("-n", "isolane-gen", "link", "delete", "isl-g0")
        with pytest.raises(MeasurementError, match=r"isl-\w+ in isolane-\w+ vanished"):
            offer(1e3)

"""`isolane netback` and interfaces that are up, but have no carrier: frames for them wait."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from isolane.netback import Step, set_keys

from tests.live import LIMIT_S, isolane
from tests.netback.back_end import DUT, FAR, NAME, BackEnd, back_end, dropped, outer
from tests.netback.container import attached, container
from tests.netback.far_end import Arrivals, conserved, of, send
from tests.wires import bring_up, ip

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root"),
]

STAGED = 32
"""Frames of a port that the scheduler knows of."""
SIZES = range(60, 120)
"""Of frames, each of another size, which tells their order; they find space in any ring."""


def link_down(netns: str, ifname: str, near: str) -> None:
    """Take an interface down, and wait until the back-end's end of the pair drops what it is given.

    Whatever the kernel tells of that has been told by then: it answers with the same lock held.
    """
    ip("-n", netns, "link", "set", ifname, "down")
    deadline = time.monotonic() + LIMIT_S
    while (link := json.loads(ip("-n", DUT, "-j", "link", "show", near))[0])["operstate"] == "UP":
        assert time.monotonic() < deadline, link
        time.sleep(0.002)
    assert {"UP", "NO-CARRIER"} <= set(link["flags"]), "it is in service"


@contextlib.contextmanager
def without_carrier(one: BackEnd, arrivals: Arrivals) -> Iterator[None]:
    """Have the uplink without a carrier; with one again, all frames arrive, in order."""
    link_down(FAR, "r0", "n1")
    arrivals.take_error()
    before, first = dropped("n1"), len(arrivals.frames)
    assert not one.status().uplinks[1].carrier
    yield
    name = one.port(1, 0)
    status = one.until("they wait", lambda s: of(s, name).waiting == STAGED)
    conserved(status)
    assert of(status, name).sent == status.uplinks[1].sent == first, "only what has arrived is sent"
    assert dropped("n1") == before
    retried = status.uplinks[1].retried
    bring_up((FAR, "r0"), (DUT, "n1"), arp=False)
    arrivals.take(len(SIZES))
    assert [len(frame) for frame in arrivals.frames[first:]] == list(SIZES)
    status = one.until("none waits", lambda s: of(s, name).waiting == 0)
    conserved(status)
    assert status.uplinks[1].carrier
    assert of(status, name).sent == status.uplinks[1].sent == len(arrivals.frames)
    assert dropped("n1") - before == status.uplinks[1].retried - retried


def test_a_containers_frames_wait_for_the_uplinks_carrier(tmp_path: Path) -> None:
    with (
        back_end(tmp_path, containers=(0,)) as one,
        container(0),
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        assert all(uplink.carrier for uplink in one.status().uplinks)
        for _ in range(2):
            with without_carrier(one, arrivals):
                send([one.frame(0, size=size) for size in SIZES])
                told = isolane("netback", "status", NAME).stdout
                assert "uplink n0 (fifo): " in told
                assert "uplink n1 (drr, no carrier): " in told


@pytest.mark.usefixtures("needs_guest_kernel")
def test_a_guests_frames_wait_for_the_uplinks_carrier(tmp_path: Path) -> None:
    with (
        back_end(tmp_path) as one,
        one.guest(0),
        closing(Arrivals()) as arrivals,
        without_carrier(one, arrivals),
    ):
        send([one.frame(0, size=size) for size in SIZES])


def test_an_uplink_may_have_no_carrier_when_the_back_end_starts(tmp_path: Path) -> None:
    with (
        back_end(tmp_path, containers=(0,)) as one,
        container(0),
        closing(Arrivals()) as arrivals,
    ):
        link_down(FAR, "r0", "n1")
        one.start_again()
        attached(one, 0)
        with without_carrier(one, arrivals):
            send([one.frame(0, size=size) for size in SIZES])


def test_a_link_with_a_rate_does_not_catch_up_with_the_time_without_a_carrier(
    tmp_path: Path,
) -> None:
    size, frames, rate_bps = 1514, 16, 400_000
    on_wire, at_once = (size + 24) * 8, 10 * 1546 * 8  # bits
    with (
        back_end(tmp_path, containers=(0,)) as one,
        container(0),
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        set_keys(NAME, [Step("n1", {"rate": "400kbps"})])
        link_down(FAR, "r0", "n1")
        arrivals.take_error()
        assert not one.status().uplinks[1].carrier
        send([one.frame(0, size=size)] * frames)
        one.until("they wait", lambda s: of(s, one.port(1, 0)).waiting == frames)
        time.sleep(2 * on_wire * frames / rate_bps)  # in which all could be sent
        began = time.monotonic()
        ip("-n", FAR, "link", "set", "r0", "up")
        arrivals.take(frames)
        assert time.monotonic() - began >= (on_wire * (frames - 1) - at_once) / rate_bps


def test_frames_wait_for_the_carrier_of_a_containers_interface(tmp_path: Path) -> None:
    with (
        back_end(tmp_path, containers=(0,)) as one,
        container(0) as netns,
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        near = outer(0, 0)
        for turn in (1, 2):
            link_down(netns, "eth0", near)
            before = dropped(near)
            one.status()  # it has heard by now
            send([one.frame(0, size=size) for size in SIZES])
            status = one.until("all came", lambda s: s.uplinks[0].received == turn * len(SIZES))  # noqa: B023
            conserved(status)
            assert of(status, one.port(0, 0)).delivered == turn * len(SIZES), (
                "they wait in its ring"
            )
            assert status.uplinks[1].received == 0
            assert dropped(near) == before
            bring_up((netns, "eth0"), (DUT, near), arp=False)
            arrivals.take(len(SIZES))
            assert [len(frame) for frame in arrivals.frames[-len(SIZES) :]] == list(SIZES)
        conserved(one.status())

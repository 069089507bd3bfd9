"""`isolane netback`: what a port has no space for is dropped before it is copied, and counted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from isolane.netback import Status, status_of

from tests.live import LIMIT_S
from tests.netback.back_end import DUT, BackEnd, back_end, start
from tests.netback.container import attached, container
from tests.netback.far_end import Arrivals, conserved, of, send
from tests.wires import ip

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root"),
]

AT_FIRST = 256
"""Frames that are let in for a port before anybody has looked how many buffers its router has."""
SHUT = 4
"""The same where it has none."""
SLOTS = 256
"""Buffers of a container's interface."""
FLOOD, FEW = 40, 25


def programs(ifname: str) -> list[Any]:
    """XDP programs on an interface of the back-end's."""
    link = json.loads(ip("-n", DUT, "-d", "-j", "link", "show", ifname))[0]
    return link["xdp"]["attached"] if "xdp" in link else []


def is_stopped(one: BackEnd, thread: int) -> bool:
    stat = Path(f"/proc/{one.process.pid}/task/{thread}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


@contextlib.contextmanager
def stopped(one: BackEnd) -> Iterator[None]:
    """Have it take nothing meanwhile.

    The signal is one thread's, which stops all others once it runs.
    """
    os.kill(one.process.pid, signal.SIGSTOP)
    deadline = time.monotonic() + LIMIT_S
    while not all(is_stopped(one, thread) for thread in one.threads()):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.001)
    try:
        yield
    finally:
        os.kill(one.process.pid, signal.SIGCONT)


def until_seen(one: BackEnd, frames: int) -> Status:
    """Wait until so many frames have arrived, and whatever was let in has been taken."""

    def seen(status: Status) -> bool:
        given = sum(of(status, one.port(0, n)).delivered + of(status, one.port(0, n)).ring_full
                    for n in (0, 1))  # fmt: skip
        return status.uplinks[0].received == given == frames

    return one.until(f"{frames} frames have arrived", seen)


@pytest.mark.parametrize("where", ["driver", "socket", "off"])
def test_a_flood_leaves_space_for_others(where: str, tmp_path: Path) -> None:
    with (
        back_end(tmp_path, 2, containers=(0, 1), uplink=f", early_drop: {where}") as one,
        container(0),
        container(1),
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        attached(one, 1)
        uplink = one.status().uplinks[0]
        assert (uplink.early_drop, uplink.early_drop_reason) == (where, None)
        assert len(programs("n0")) == (where == "driver")
        with stopped(one):
            for _ in range(FEW):
                send([one.frame(0)] * FLOOD + [one.frame(1)])
        status = until_seen(one, FEW * (FLOOD + 1))
        conserved(status)
        early = FEW * FLOOD - AT_FIRST if where != "off" else 0
        assert of(status, one.port(0, 0)).dropped_early == early
        assert of(status, one.port(0, 1)).dropped_early == 0
        assert of(status, one.port(0, 1)).delivered == FEW
        if where != "off":  # what a container has no time for it may lose
            arrivals.take(AT_FIRST + FEW)


def test_a_port_without_buffers_is_shut_and_opens_again(tmp_path: Path) -> None:
    """Its interface has no carrier: what is handed to it waits, until that is full."""
    with (
        back_end(tmp_path, 2, containers=(0, 1)) as one,
        container(0) as netns,
        container(1),
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        attached(one, 1)
        ip("-n", netns, "link", "set", "eth0", "down")
        name, sent = one.port(0, 0), 0
        while of(one.status(), name).delivered < SLOTS:
            send([one.frame(0)] * FLOOD)
            sent += FLOOD
            status = until_seen(one, sent)
        full = of(status, name)
        with stopped(one):
            send([one.frame(0)] * FLOOD)
        status = until_seen(one, sent := sent + FLOOD)
        assert of(status, name).dropped_early == full.dropped_early + FLOOD - SHUT
        assert of(status, name).delivered == full.delivered
        ip("-n", netns, "link", "set", "eth0", "up")
        arrivals.take(full.delivered)
        # The first is let in, and somebody looks.
        send([one.frame(0)])
        until_seen(one, sent := sent + 1)
        with stopped(one):
            send([one.frame(0)] * FLOOD)
        status = until_seen(one, sent + FLOOD)
        assert of(status, name).delivered == full.delivered + 1 + FLOOD
        arrivals.take(1 + FLOOD)


def test_a_driver_is_left_as_it_was_whatever_happens(tmp_path: Path) -> None:
    with back_end(tmp_path, uplink=", early_drop: driver") as one:
        for number in (signal.SIGKILL, signal.SIGTERM):
            assert len(programs("n0")) == 1
            one.end(number)
            assert programs("n0") == []
            one.process = start(one.file)


def test_it_is_told_why_a_driver_does_not_drop(tmp_path: Path) -> None:
    with back_end(tmp_path, uplink=", early_drop: driver") as one:
        other = tmp_path / "other" / "netback.yaml"
        other.parent.mkdir()
        other.write_text(one.file.read_text().replace("name: ", "name: other-", 1))
        second = start(other)
        try:
            uplink = status_of(f"other-{one.status().name}").uplinks[0]
        finally:
            os.kill(second.pid, signal.SIGTERM)
            second.wait(LIMIT_S)
        assert uplink.early_drop == "socket"
        assert "another XDP program is there" in str(uplink.early_drop_reason)
        assert len(programs("n0")) == 1, "the first one's"
    with back_end(tmp_path, uplink=", early_drop: driver", more=", vlan: 7") as one:
        assert "have VLANs" in str(one.status().uplinks[0].early_drop_reason)
        assert programs("n0") == []
    with back_end(tmp_path) as one:  # the wire is a veth
        assert one.status().uplinks[0].early_drop == "socket"

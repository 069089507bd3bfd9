"""Frames that wait at a back-end while its shares are changed: in which order they then go."""

from __future__ import annotations

import json

from isolane.netback import Status

from tests.live import isolane
from tests.netback.back_end import NAME, BackEnd, mac
from tests.netback.far_end import Arrivals, conserved, of, send

STAGED = 32
"""Frames of a port that the scheduler knows of."""
SENT, SIZE = 60, 1514
SLOW = "rate=10kbps"
"""A frame takes 1.2 s, after the ten that go out at once."""


def changed(name: str, *changes: str) -> dict[str, dict[str, object]]:
    done = isolane("set", name, *changes, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["back_end"] == NAME
    return dict(told["changes"])


def order_of(one: BackEnd, arrivals: Arrivals) -> list[int]:
    """Have frames of both guests wait, let them go, and return whose came in which order."""
    before = one.status()
    for number in (0, 1):
        send([one.frame(number, size=SIZE)] * SENT)

    def wait(status: Status) -> bool:
        return all(of(status, one.port(1, number)).waiting == STAGED for number in (0, 1))

    status = one.until("both are staged", wait)
    gone = status.uplinks[1].sent - before.uplinks[1].sent
    assert gone <= 2 * SENT - 2 * STAGED
    began = len(arrivals.frames)
    changed(f"{NAME}/n1", "rate=none")
    arrivals.take(2 * SENT)
    macs = [bytes.fromhex(mac(1, number).replace(":", "")) for number in (0, 1)]
    order = [macs.index(frame[6:12]) for frame in arrivals.frames[began:]]
    assert [order.count(number) for number in (0, 1)] == [SENT, SENT], "none is lost"
    conserved(one.status())
    return order[gone:]

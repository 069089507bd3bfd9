"""Shares of `isolane netback`, changed while guests' frames wait: whose turn it is."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
from isolane import _native
from isolane.netback import Step, set_keys

from tests.live import isolane
from tests.netback.back_end import NAME, back_end
from tests.netback.far_end import Arrivals, conserved, of, send
from tests.netback.waiting import SENT, SIZE, SLOW, STAGED, changed, order_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]


def refused(name: str, *changes: str) -> str:
    done = isolane("set", name, *changes)
    assert done.returncode == 2, done.stderr
    return done.stderr


def test_shares_change_while_frames_wait(tmp_path: Path) -> None:
    with (
        back_end(tmp_path, 2) as one,
        one.guest(0),
        one.guest(1),
        closing(Arrivals()) as arrivals,
    ):
        link, ports = f"{NAME}/n1", [one.port(1, number) for number in (0, 1)]
        assert changed(link, SLOW) == {"rate": {"before": None, "now": "10kbps"}}
        assert changed(ports[0], "weight=9") == {"weight": {"before": 1, "now": 9}}
        at_ns = _native.monotonic_ns() + 1_000_000
        planned = set_keys(NAME, [Step(ports[0], {"weight": w}, at_ns) for w in ("7", "3")])
        assert planned == [{"weight": (9, 7)}, {"weight": (7, 3)}]
        first = order_of(one, arrivals)[:STAGED]
        assert 22 <= first.count(0) <= 26, f"three of four: {first}"

        assert "does not look at weight" in refused(link, "scheduler=strict-priority")
        assert changed(ports[0], "weight=none") == {"weight": {"before": 3, "now": 1}}
        changed(link, SLOW, "scheduler=strict-priority")
        changed(ports[0], "priority=7")
        first = order_of(one, arrivals)[:STAGED]
        assert first.count(0) <= 1, f"the other one goes first: {first}"

        told = isolane("netback", "status", NAME)
        assert "priority=7" in told.stdout
        assert "uplink n1 (strict-priority):" in told.stdout
        told = isolane("netback", "top", "--once", "--interval", "0.1")
        assert f"network back-end {NAME}" in told.stdout
        step = json.loads(isolane("netback", "top", NAME, "--once", "--json").stdout)
        assert [port["name"] for port in step["back_ends"][0]["ports"]][3] == ports[1]
        metrics = isolane("export", "prometheus").stdout
        for port in ports:
            labels = f'{{back_end="{NAME}",port="{port}"}}'
            assert f"isolane_netback_port_sent_frames_total{labels} {2 * SENT}\n" in metrics


def test_another_scheduler_takes_over_what_waits(tmp_path: Path) -> None:
    with back_end(tmp_path, 1, "fifo") as one, one.guest(0), closing(Arrivals()) as arrivals:
        port = one.port(1, 0)
        changed(f"{NAME}/n1", SLOW)
        sizes = range(1014, 1014 + 3 * SENT)  # so many that some wait all the time, for 2 minutes
        send([one.frame(0, size=size) for size in sizes])
        one.until("they wait", lambda s: of(s, port).waiting == STAGED)
        for scheduler in ("credit", "credit-random", "wfq", "hierarchical", "wrr"):
            changed(f"{NAME}/n1", f"scheduler={scheduler}")
            assert of(one.status(), port).waiting == STAGED
        assert "did you mean wrr?" in refused(f"{NAME}/n1", "scheduler=wrrr")
        changed(f"{NAME}/n1", "rate=none")
        arrivals.take(len(sizes))
        assert list(map(len, arrivals.frames)) == list(sizes), "in order"
        conserved(one.status())


def test_a_link_is_never_faster_than_its_rate_and_may_lose(tmp_path: Path) -> None:
    with back_end(tmp_path, 1) as one, one.guest(0):
        port, rate_bps, burst = one.port(1, 0), 1_000_000, 10 * 1546 + SIZE + 24
        began = time.monotonic()
        changed(f"{NAME}/n1", "rate=1Mbps")
        for _ in range(2):
            send([one.frame(0, size=SIZE)] * SENT)
        status = one.until("all came", lambda s: of(s, port).transmitted == 2 * SENT)
        assert of(status, port).output_full == 0
        taken_s = time.monotonic() - began
        assert status.uplinks[1].sent * (SIZE + 24) * 8 <= rate_bps * taken_s + burst * 8
        one.until("all were sent", lambda s: of(s, port).waiting == 0)

        changed(f"{NAME}/n1", "rate=none")  # and so with all that a link takes ahead
        told = changed(f"{NAME}/n1", "rate=1Mbps", "burst=1s", "back_pressure=off")
        assert told["burst"] == {"before": None, "now": "1s"}
        send([one.frame(0, size=SIZE)] * SENT)
        status = one.until("came", lambda s: of(s, port).transmitted == 3 * SENT)
        assert of(status, port).output_full == 0, "1 s of the rate are 81 frames"
        assert ", burst 1s, no back-pressure" in isolane("netback", "status", NAME).stdout
        assert "or no burst" in refused(f"{NAME}/n1", "rate=none")

        changed(f"{NAME}/n1", SLOW, "burst=none")
        send([one.frame(0, size=SIZE)] * SENT)
        status = one.until("came", lambda s: of(s, port).transmitted == 4 * SENT)
        assert of(status, port).output_full > 0
        conserved(status)


WRONG = {
    ("vm0-1", "weight=0"): "weight=0: 0 is out of range; accepted: 1 to 1048576",
    ("vm0-1", "mac=1"): "unknown key 'mac'; accepted: weight, priority, rate_min, rate_max",
    (f"{NAME}/vm9", "weight=2"): "has no port and no uplink named 'vm9'; accepted: vm0-0",
    (f"{NAME}/n1", "rate=fast"): "'fast' is not a bit rate",
}


def test_what_is_wrong_changes_nothing(tmp_path: Path) -> None:
    with back_end(tmp_path) as one:
        before = one.status()
        for (name, key), why in WRONG.items():
            assert why in refused(name, key)
        assert one.status() == before

"""`isolane generate` and `isolane receive` on interfaces that Isolane did not build.

These tests judge frame accounting and no speeds, so they hold on a busy machine too. The generator
reports each frame that it could not send in time as missed; every frame that it sent arrives, or
the kernel counts it as dropped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.live import LIMIT_S, background, isolane
from tests.wires import Line, inside, ip, mac_of, plain_line, routed_line

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

STREAMS = {
    # shortest frames of one flow; every size and number of flows that the issue names
    4: ("rate=5kpps size=64 flows=1", "rate=3kpps size=512 flows=100",
        "rate=1kpps size=1518 flows=7", "rate=12Mbps size=imix flows=1000"),
    6: ("rate=5kpps size=84 flows=1", "rate=3kpps size=512 flows=100",
        "rate=1kpps size=1518 flows=7", "flow-rate=4pps size=imix flows=1000"),
}  # fmt: skip
PER_SECOND = {
    # imix: 7 x 64, 4 x 594, 1 x 1518 in 12 frames is 361.83 bytes; 12 Mbit/s are 4145.6 of them
    4: (5_000.0, 3_000.0, 1_000.0, 12e6 / 8 / (4342 / 12)),
    6: (5_000.0, 3_000.0, 1_000.0, 4_000.0),
}
SECONDS = 0.25


def measure(line: Line, folder: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Generate while receiving: (the generator's audit, the receiver's report).

    Once more where nothing was sent, as somebody else had the generator's core all the time.
    """
    deadline = time.monotonic() + LIMIT_S
    while True:
        audit, report = _measured(line, folder, *options)
        if audit["frames"]:
            return audit, report
        assert time.monotonic() < deadline, audit


def _measured(line: Line, folder: Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    receive = ("receive", line.rcv, "--netns", line.rcv_netns, "--json")
    with background(folder / "receive", *receive) as receiver:
        receiver.until(lambda: "receiving on" in receiver.stderr)
        sent = isolane("generate", line.gen, "--netns", line.gen_netns, "--json", *options)
        assert sent.returncode == 0, sent.stderr
        audit = json.loads(sent.stdout)
        line.await_arrival(audit["frames"])  # some are still in queues of the kernel
        assert receiver.end(signal.SIGINT) == 0
        return audit, json.loads(receiver.stdout)


def arrived(report: dict[str, Any]) -> int:
    """Frames of all streams that the receiver has heard of."""
    return sum(stream["received"] for stream in report["streams"])


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("through", ["wire", "router"])
def test_what_was_sent_arrived_or_was_dropped(through: str, ip: int, tmp_path: Path) -> None:
    make = plain_line if through == "wire" else routed_line
    with make(ip) as line:
        options = [f"--stream={text}" for text in STREAMS[ip]]
        sent, received = measure(
            line, tmp_path, "--to", line.dst, "--mac", line.mac, "-d", f"{SECONDS}s", *options
        )
        drops = line.drops()
    assert len(sent["streams"]) == len(received["streams"]) == len(STREAMS[ip])
    for out, rate in zip(sent["streams"], PER_SECOND[ip], strict=True):
        assert abs(out["sent"] + out["missed"] - rate * SECONDS) <= 1
    assert sent["frames"] > 0
    assert sent["frames"] == arrived(received) + drops
    assert sent["failed"] == 0
    for out, back in zip(sent["streams"], received["streams"], strict=True):
        assert back["reordered"] == back["duplicated"] == back["unchecked"] == 0
        assert out["sent"] - back["received"] >= back["missing"], "more is missing than is not here"
        if not drops:
            assert (out["sent"], out["sent_window_bytes"]) == (back["received"], back["bytes"])
            assert back["missing"] == 0


def test_each_stream_has_a_destination_of_its_own(tmp_path: Path) -> None:
    """IPv4 and IPv6 in one command, each to its own next hop; each stream with its own audit."""
    with routed_line(4) as line:
        assert line.router_netns is not None
        inside(line.router_netns, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=0")
        for netns, ifname, address in (
            (line.gen_netns, line.gen, "2001:2::2"),
            (line.router_netns, "e2e-in", "2001:2::1"),
            (line.router_netns, line.router_out, "2001:2:0:8000::1"),
        ):
            inside(netns, "sysctl", "-qw", f"net.ipv6.conf.{ifname}.disable_ipv6=0")
            ip("-n", netns, "addr", "add", f"{address}/64", "dev", ifname, "nodad")
        last = mac_of(line.rcv_netns, line.rcv)
        for host in (3, 4):
            far = f"198.19.77.{host}"
            ip("-n", line.router_netns, "neigh", "add", far, "lladdr", last, "dev", line.router_out)
        six = "2001:2:0:8000::2"
        ip("-n", line.router_netns, "neigh", "add", six, "lladdr", last, "dev", line.router_out)
        ip("-n", line.gen_netns, "neigh", "add", "2001:2::1", "lladdr", line.mac, "dev", line.gen)
        ip("-n", line.gen_netns, "route", "add", six, "via", "2001:2::1", "dev", line.gen)
        streams = (
            "--stream=rate=2kpps",  # with --to, its next hop from the routing table
            f"--stream=to=198.19.77.3 rate=1kpps mac={line.mac} flows=7",
            f"--stream=to=198.19.77.4 rate=500pps mac={line.mac} from=198.18.77.9",
            f"--stream=to={six} rate=4kpps size=imix from=2001:2::7",  # its own next hop, too
        )
        sent, received = measure(line, tmp_path, "--to", line.dst, "-d", "250ms", *streams)
        drops = line.drops()
        forwarded = line.statistics(line.router_netns, line.router_out)["tx"]["packets"]
    found = [(stream["to"], stream["from"], stream["scheduled"]) for stream in sent["streams"]]
    assert found == [
        ("198.19.77.2", "198.18.77.2", 500),
        ("198.19.77.3", "198.18.77.2", 250),
        ("198.19.77.4", "198.18.77.9", 125),
        (six, "2001:2::7", 1000),
    ]
    assert {stream["mac"] for stream in sent["streams"]} == {line.mac}
    assert sum(stream["sent"] for stream in sent["streams"]) == sent["frames"] <= forwarded + drops
    assert [stream["stream"] for stream in received["streams"]] == [0, 1, 2, 3]
    assert sent["frames"] == drops + sum(stream["received"] for stream in received["streams"])


def test_a_core_that_others_must_run_on_is_warned_of() -> None:
    core = max(os.sched_getaffinity(0))
    bound = subprocess.Popen(["sleep", "60"])
    os.sched_setaffinity(bound.pid, {core})
    try:
        with plain_line(4) as line:
            send = ("--to", line.dst, "--mac", line.mac, "--rate", "1kpps", "-d", "50ms")
            on = ("--netns", line.gen_netns, "--core", str(core))
            done = isolane("generate", line.gen, *on, *send)
    finally:
        bound.kill()
        bound.wait()
    assert done.returncode == 0
    assert f"isolane: warning: core {core} is the only one that " in done.stderr
    assert "next to nothing while this sends" in done.stderr


def test_a_hundred_thousand_flows_are_told_apart(tmp_path: Path) -> None:
    with plain_line(4) as line:
        sent, received = measure(
            line, tmp_path, "--to", line.dst, "--mac", line.mac, "--flows", "100000",
            "--rate", "250kpps", "--duration", "800ms",
        )  # fmt: skip
        drops = line.drops()
    stream = received["streams"][0]
    assert sent["scheduled"] == 200_000
    assert sent["frames"] > 0
    assert sent["frames"] == stream["received"] + drops
    assert stream["reordered"] == stream["duplicated"] == stream["unchecked"] == 0


@pytest.mark.parametrize(
    ("schedule", "frames"),
    [
        ("100ms:2kpps,100ms:10kpps,100ms:0pps,50ms:4kpps", 200 + 1000 + 200),
        ("200ms:0pps-20kpps", 2000),
        ("200ms:20kpps-0pps,10ms:1kpps", 2010),
        ("100ms:5kpps,200ms:5kpps-15kpps,100ms:15kpps-5kpps", 500 + 2000 + 1000),
    ],
)
def test_the_area_under_a_schedule_is_sent(schedule: str, frames: int, tmp_path: Path) -> None:
    with plain_line(4) as line:
        sent, received = measure(
            line, tmp_path, "--to", line.dst, "--mac", line.mac, "--schedule", schedule
        )
        assert abs(sent["scheduled"] - frames) <= 2
        assert sent["frames"] == arrived(received) + line.drops()


def test_what_is_left_out_is_found_out(tmp_path: Path) -> None:
    """Source address and next hop's MAC come from the interface and its neighbours."""
    with routed_line(4) as line:
        sent, received = measure(line, tmp_path, "--to", line.dst, "-r", "2kpps", "-d", "100ms")
        assert sent["frames"] == arrived(received) + line.drops()


def test_the_audit_and_the_counts_are_for_people_too(tmp_path: Path) -> None:
    with plain_line(4) as line:
        receive = ("receive", line.rcv, "--netns", line.rcv_netns, "--frames", "20")
        with background(tmp_path / "receive", *receive) as receiver:
            receiver.until(lambda: "receiving on" in receiver.stderr)
            # Until they have come: how many are sent in some time is the machine's to say.
            send = ("--to", line.dst, "--mac", line.mac, "--rate", "2kpps", "-d", "10min")
            generate = ("generate", line.gen, "--netns", line.gen_netns, *send)
            with background(tmp_path / "send", *generate) as sent:
                assert receiver.end() == 0, "ends by itself after so many frames"
                assert sent.end(signal.SIGINT) == 130
        assert sent.stdout.startswith("sent ")
        assert "departure error: p50" in sent.stdout
        assert "0 reordered, 0 duplicated" in receiver.stdout
        assert "one-way delay: p50" in receiver.stdout


def test_ctrl_c_ends_generating_with_its_audit(tmp_path: Path) -> None:
    with plain_line(4) as line:
        send = ("--to", line.dst, "--mac", line.mac, "--rate", "2kpps", "-d", "60s", "--json")
        with background(tmp_path, "generate", line.gen, "--netns", line.gen_netns, *send) as sender:
            sender.until(lambda: line.sent() > 100)
            assert sender.end(signal.SIGINT) == 130
            audit = json.loads(sender.stdout)
        assert audit["frames"] >= 100
        assert audit["frames"] + audit["missed"] < 60 * 2000


def test_frames_that_an_interface_does_not_take_are_not_sent() -> None:
    """A veth takes XDP frames only if its peer has NAPI: GRO on, or a program attached."""
    with plain_line(4) as line:
        inside(line.rcv_netns, "ethtool", "-K", line.rcv, "gro", "off")
        before = line.sent()
        send = ("--to", line.dst, "--mac", line.mac, "--rate", "2kpps", "-d", "100ms", "--json")
        done = isolane("generate", line.gen, "--netns", line.gen_netns, *send)
        taken = line.sent() - before
        assert taken == 0
        assert done.returncode != 0 or json.loads(done.stdout)["frames"] == 0

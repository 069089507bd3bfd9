"""A router's rate is limited by a qdisc that Isolane knows nothing of.

A qdisc counts the bytes of a frame without the 4-byte frame check sequence: 20 Mbit/s
of 512-byte frames are 20e6 / (8 x 508) = 4921 frames per second.

A token bucket starts full and its queue empty, so what leaves in a time is the rate times that time
plus bucket and queue. These two drop out of the difference between a long and a short trial, which
leaves room for a bucket so large that a busy machine, which polls late, does not waste tokens.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.live import background, isolane
from tests.wires import Line, inside

LIMIT_BPS = 20e6
FRAME_BYTES, FCS_BYTES = 512, 4
EXPECTED_PPS = LIMIT_BPS / (8 * (FRAME_BYTES - FCS_BYTES))
TBF = ("tbf", "rate", "20mbit", "burst", "50kb", "limit", "30kb")
HTB = ("htb", "default", "1")
HTB_CLASS = ("htb", "rate", "20mbit", "burst", "50kb", "cburst", "50kb")


def limit(netns: str, ifname: str, kind: str) -> None:
    root = ("tc", "qdisc", "add", "dev", ifname, "root", "handle", "1:")
    inside(netns, *root, *(TBF if kind == "tbf" else HTB))
    if kind == "htb":
        below = ("tc", "class", "add", "dev", ifname, "parent", "1:", "classid", "1:1")
        inside(netns, *below, *HTB_CLASS)
        leaf = ("tc", "qdisc", "add", "dev", ifname, "parent", "1:1", "pfifo", "limit", "60")
        inside(netns, *leaf)


def sent_and_received(line: Line, folder: Path, seconds: float) -> tuple[int, int, int]:
    """(sent, received, missing by sequence number) at 1.6 times the limit."""
    receive = ("receive", line.rcv, "--netns", line.rcv_netns, "--json")
    before = line.arrived() + line.drops() + line.queue()["drops"]
    with background(folder, *receive) as receiver:
        receiver.until(lambda: "receiving on" in receiver.stderr)
        send = ("--to", line.dst, "-s", FRAME_BYTES, "-r", "8kpps", "-d", f"{seconds}s", "--json")
        sent = isolane("generate", line.gen, "--netns", line.gen_netns, *send)
        assert sent.returncode == 0, sent.stderr
        frames = json.loads(sent.stdout)["frames"]
        line.await_arrival(before + frames, queued=True)
        assert receiver.end(signal.SIGINT) == 0
    stream = json.loads(receiver.stdout)["streams"][0]
    return frames, stream["received"], stream["missing"]

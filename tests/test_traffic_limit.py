"""A known rate limit is measured as what it is.

A qdisc counts the bytes of a frame without the 4-byte frame check sequence: 20 Mbit/s
of 512-byte frames are 20e6 / (8 x 508) = 4921 frames per second.

A token bucket starts full and its queue empty, so what leaves in a time is the rate times that time
plus bucket and queue. These two drop out of the difference between a long and a short trial, which
leaves room for a bucket so large that a busy machine, which polls late, does not waste tokens.
"""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from isolane.run.backend import Demand, Observation, Setting
from isolane.run.live import LiveBackEnd
from isolane.spec import load_experiment
from isolane.testbed import Journal, clean, exclusive

from tests.conftest import Tiny
from tests.live import await_free, background, isolane
from tests.wires import Line, inside, routed_line

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

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


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_what_a_limit_drops_is_missing_and_counted(kind: str, tmp_path: Path) -> None:
    with routed_line(4) as line:
        assert line.router_netns
        limit(line.router_netns, line.router_out, kind)
        dropped, lost = 0, 0
        for turn in itertools.count():
            sent, arrived, missing = sent_and_received(line, tmp_path / str(turn), 0.5)
            lost += sent - arrived
            dropped = line.queue()["drops"]
            # The wire's own queue overflows on a machine that is busy with something else.
            assert lost == dropped + line.drops()
            assert missing <= sent - arrived, "what the receiver misses is what was lost"
            if missing and dropped:
                return
            assert turn < 20, "it never sent more than the limit"


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_the_limit_of_a_router_is_measured(kind: str, tmp_path: Path) -> None:
    times_s = 0.3, 2.3
    with routed_line(4) as line:
        assert line.router_netns
        limit(line.router_netns, line.router_out, kind)
        short, long = (sent_and_received(line, tmp_path / str(s), s)[1] for s in times_s)
    rate_pps = (long - short) / (times_s[1] - times_s[0])
    assert rate_pps == pytest.approx(EXPECTED_PPS, rel=0.01)


@pytest.fixture
def journal() -> Iterator[Journal]:
    await_free()
    with ExitStack() as stack:
        found = stack.enter_context(exclusive())
        clean()
        yield found


@pytest.mark.acceptance
def test_a_run_measures_the_limit_of_its_router(journal: Journal, tiny: Tiny) -> None:
    """The window begins when bucket and queue are full already, so nothing has to drop out."""
    load = "{one: 8kpps, two: 500pps}"
    experiment = load_experiment(tiny(size=str(FRAME_BYTES), load=load))
    arm, point = experiment.resolved_arms()[0], experiment.points()[0]
    demands = tuple(Demand(router, router.load.value, None) for router in point.routers)
    setting = Setting(demands, warmup_ns=400_000_000, window_ns=2_000_000_000)
    back_end = LiveBackEnd(experiment, journal)
    with back_end.bench(arm, point.routers) as bench:
        limit("isolane-one", "isl-out0", "tbf")
        seen: Observation = bench.trial(setting)
    limited, other = seen.routers
    assert seen.conserved
    assert limited.received_pps == pytest.approx(EXPECTED_PPS, rel=0.01)
    assert limited.lost["egress"] == pytest.approx(
        limited.offered_total - limited.received_total, rel=0.02
    )
    assert other.lost["egress"] == 0

"""What a frame from an uplink costs a network back-end: as a packet of the kernel's, or before."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from isolane.errors import MeasurementError
from isolane.procfs import cpu_ns, named_processes
from isolane.testbed import NETNS_DIR

from benches import beds
from benches.common import RECEIVER_CORE, Check, Options, Outcome, main, median, spread
from benches.ports import takes_frames_of_xdp
from benches.steady_load import WARMUP_NS, Load, send
from tests.netback.back_end import DUT, FAR, BackEnd, back_end, far_mac, mac
from tests.netback.far_end import conserved, in_far, of
from tests.wires import inside

MODES = {
    "packet socket": "early_drop: off",
    "packet socket, drops at it": "early_drop: socket",
    "packet socket, driver drops": "early_drop: driver, receive: packet",
    "AF_XDP, driver drops": "early_drop: driver",
}
"""Name -> keys of the uplink."""
PACKETS, XDP = "packet socket, driver drops", "AF_XDP, driver drops"
POLLS = {"gro_flush_timeout": 50_000, "napi_defer_hard_irqs": 1, "threaded": 1}
"""Of the wire's end: by a thread, and after 50 us, as a NIC that moderates its interrupts."""
LOADS_KPPS = (200, 3000)
"""What each mode can take, and more than any takes, or the generator sends."""
TIMES = 1.2
COOKIE = 0x5CA3
DRAIN_S = 0.3


@dataclass(frozen=True)
class Seen:
    """What came of one trial's frames, which are for a router that is not there."""

    sent: int
    taken: int
    """By the back-end."""
    early: int
    """Dropped before they were copied."""
    cpu_ns: int
    """Of the back-end, and of the kernel's thread that polls the wire's end."""
    seconds: float


@contextmanager
def opened(folder: Path, keys: str) -> Iterator[tuple[BackEnd, int]]:
    """Have a back-end, and the thread that polls its wire, on one core; yields that thread, too."""
    with back_end(folder, containers=(0,), uplink=f", {keys}") as one:
        takes_frames_of_xdp()
        for name, value in POLLS.items():
            inside(DUT, "sh", "-c", f"echo {value} > /sys/class/net/n0/{name}")
        thread = next((n for n, name in named_processes() if name.startswith("napi/n0-")), None)
        if thread is None:
            raise MeasurementError("no kernel thread polls the wire's end")
        for each in (thread, *one.threads()):
            os.sched_setaffinity(each, {RECEIVER_CORE})
        one.until("a wire again", lambda status: status.uplinks[0].carrier)
        yield one, thread


def load(one: BackEnd, thread: int, ifindex: int, pps: float, seconds: float) -> Seen:
    """Send that much for a port whose container is not there."""
    flood = Load(pps, far_mac(0), mac(0, 0), "10.9.0.2", "10.9.1.2")
    before, threads = one.status(), (thread, *one.threads())
    used_ns = sum(map(cpu_ns, threads))
    (sent,) = send(NETNS_DIR / FAR, ifindex, [flood], COOKIE, seconds)
    time.sleep(DRAIN_S)
    after = one.status()
    conserved(after)
    name = one.port(0, 0)
    early = of(after, name).dropped_early - of(before, name).dropped_early
    arrived = after.uplinks[0].received - before.uplinks[0].received
    return Seen(
        sent,
        arrived - early,
        early,
        sum(map(cpu_ns, threads)) - used_ns,
        WARMUP_NS / 1e9 + seconds,
    )


def measure(options: Options) -> dict[tuple[str, int], list[Seen]]:
    """Load each mode in turns, each time with a back-end of its own."""
    found: dict[tuple[str, int], list[Seen]] = defaultdict(list)
    for number in range(options.rounds):
        # What comes first in one round comes last in the next.
        for mode in list(MODES)[:: -1 if number % 2 else 1]:
            with tempfile.TemporaryDirectory() as text, opened(Path(text), MODES[mode]) as on:
                one, thread = on
                ifindex = in_far(lambda: socket.if_nametoindex("g0"))
                for kpps in LOADS_KPPS:
                    seen = load(one, thread, ifindex, kpps * 1e3, options.seconds)
                    found[mode, kpps].append(seen)
    return found


def kpps(trials: list[Seen], what: str) -> str:
    """Write the median rate of frames that were sent, taken, or dropped early."""
    return f"{median([getattr(one, what) / one.seconds for one in trials]) / 1e3:.0f}"


def bench(options: Options) -> Outcome:
    """Compare what each mode takes, and what that costs."""
    with beds.host():
        found = measure(options)
    low, high = LOADS_KPPS
    cost_ns = {mode: [one.cpu_ns / one.sent for one in found[mode, low]] for mode in MODES}
    ratios = [a / b for a, b in zip(cost_ns[PACKETS], cost_ns[XDP], strict=True)]
    return Outcome(
        title=(
            f"Frames of 64 bytes to a back-end, its wire polled on its core ({RECEIVER_CORE}),"
            f" {options.rounds} rounds"
        ),
        columns=(
            "frames arrive by",
            f"a frame of {low} kpps, ns",
            "range",
            "sent, kpps",
            "taken, kpps",
            "dropped early, kpps",
        ),
        rows=[
            (
                mode,
                f"{median(cost_ns[mode]):.0f}",
                spread(cost_ns[mode], 1.0, 0),
                *(kpps(found[mode, high], what) for what in ("sent", "taken", "early")),
            )
            for mode in MODES
        ],
        checks=[
            Check(
                f"a frame costs {TIMES:g} times as much as a packet",
                f"{median(ratios):.2f} ({spread(ratios, 1.0, 2)})",
                median(ratios) >= TIMES,
            )
        ],
        data={", ".join(map(str, case)): [vars(one) for one in each]
              for case, each in found.items()},
    )  # fmt: skip


if __name__ == "__main__":
    main("receive", bench, Options(rounds=5, seconds=1.0), str(__doc__))

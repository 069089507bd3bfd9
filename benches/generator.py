"""Generators head to head: one core, the same wire, the same kernel counters, 64-byte frames."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from isolane.errors import MeasurementError, NotSupported
from isolane.testbed.bed_devices import RCV
from isolane.trials.live.cores import staying_on
from isolane.trials.live.counting import Counting

from benches.common import RECEIVER_CORE, Check, Options, Outcome, main, median, spread
from benches.process import sending
from benches.tools import ISOLANE, PEERS, Tool
from benches.wire import RCV_IFNAME, Wire, make_wire

CHOOSING_S = 1.0
CHOOSING_ROUNDS = 2
MEGA = 1e6
NOTES = [
    "Arrived: taken off the wire by the peer (tx_packets of the sending end: a veth whose peer has",
    "NAPI counts a frame only when it is polled). Offered: these and what the peer's full ring of",
    "256 frames refused (tx_dropped). Both are the kernel's counters, the same for every tool.",
    "Targets are judged by what is offered; the ratio of arrivals stands beside it. Where arrivals",
    "fall behind, the peer was the limit: it has a core of its own, and counts and drops every",
    "frame in XDP, native mode.",
    "isolane generate writes each frame afresh; the others send one unchanging frame.",
]


@dataclass
class Rates:
    """Frames per second of a tool, one value a round."""

    setting: str = ""
    arrived: list[float] = field(default_factory=list)
    offered: list[float] = field(default_factory=list)
    failure: str | None = None


def measure(tool: Tool, setting: str, wire: Wire, seconds: float) -> tuple[float, float]:
    """Run a tool and count.

    Returns
    -------
    tuple of float
        Frames per second that arrived, and that were offered.
    """
    with sending(tool.variants[setting](wire.target), wire, tool.env):
        before, begun = wire.count(), time.monotonic()
        time.sleep(seconds)
        after, ended = wire.count(), time.monotonic()
    frames, elapsed = after - before, ended - begun
    return frames.arrived / elapsed, frames.offered / elapsed


def choose(tool: Tool, wire: Wire, seconds: float) -> Rates:
    """Find the setting that a tool is fastest with; a tool that cannot run says why."""
    rates, best = Rates(next(iter(tool.variants))), -1.0
    if len(tool.variants) == 1:
        return rates
    for _ in range(CHOOSING_ROUNDS):
        for setting in tool.variants:
            try:
                arrived, _ = measure(tool, setting, wire, min(CHOOSING_S, seconds))
            except (MeasurementError, NotSupported) as error:
                rates.failure = str(error)
                continue
            if arrived > best:
                rates.setting, best = setting, arrived
    if best >= 0:
        rates.failure = None
    return rates


def compare(options: Options) -> dict[str, Rates]:
    """Give each tool its best setting and then, round by round, its turn."""
    tools = (ISOLANE, *PEERS)
    with (
        staying_on((RECEIVER_CORE,)),
        make_wire(RECEIVER_CORE) as wire,
        Counting((RCV_IFNAME,), RCV, flows=1) as peer,
    ):
        if peer.hooks()[RCV_IFNAME] != "native":
            raise NotSupported("the receiver cannot be attached in native mode on this kernel")
        found = {tool.name: choose(tool, wire, options.seconds) for tool in tools}
        for _ in range(options.rounds):
            for tool in tools:
                rates = found[tool.name]
                if rates.failure is not None:
                    continue
                try:
                    arrived, offered = measure(tool, rates.setting, wire, options.seconds)
                except (MeasurementError, NotSupported) as error:
                    rates.failure = str(error)
                    continue
                rates.arrived.append(arrived)
                rates.offered.append(offered)
    if found[ISOLANE.name].failure is not None:
        raise MeasurementError(str(found[ISOLANE.name].failure))
    return found


def check(tool: Tool, own: Rates, peer: Rates) -> Check:
    """Hold Isolane's rate against a peer's."""
    target = f"isolane generate at least {tool.factor:g} times {tool.name}"
    if peer.failure is not None or not peer.arrived or tool.factor is None:
        return Check(target, peer.failure or "no figures", None)
    arrived = median(own.arrived) / median(peer.arrived)
    offered = median(own.offered) / median(peer.offered)
    return Check(target, f"{offered:.2f} offered ({arrived:.2f} arrived)", offered >= tool.factor)


def bench(options: Options) -> Outcome:
    """Compare and judge."""
    found = compare(options)
    own = found[ISOLANE.name]
    rows = []
    for name, rates in found.items():
        ratio = median(own.offered) / median(rates.offered) if rates.offered else float("nan")
        rows.append(
            (
                f"{name} ({rates.setting})" if rates.setting else name,
                f"{median(rates.offered) / MEGA:.3f}",
                spread(rates.offered, MEGA),
                f"{median(rates.arrived) / MEGA:.3f}",
                f"{ratio:.2f}",
            )
        )
    return Outcome(
        title=f"64-byte frames from one core: medians of {options.rounds} rounds, "
        f"{options.seconds:g} s each",
        columns=(
            "generator (setting)",
            "offered, Mpps",
            "range",
            "arrived",
            "isolane / it",
        ),
        rows=rows,
        checks=[check(tool, own, found[tool.name]) for tool in PEERS],
        notes=NOTES,
        data={"unit": "frames per second", "tools": {n: vars(r) for n, r in found.items()}},
    )


if __name__ == "__main__":
    main("generator", bench, Options(rounds=5, seconds=2.0), str(__doc__))

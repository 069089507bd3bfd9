"""The generator's streams: one for each router, at the rate that the router is offered."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, TypedDict

from isolane import _native
from isolane.spec import PointRouter, Traffic
from isolane.spec.demands import Demand
from isolane.spec.patterns import Pattern
from isolane.testbed import ECHO_PORT, Wire
from isolane.trials.backend import Setting
from isolane.trials.live.loaded import GeneratorTrial

FIRST_SOURCE_PORT = 1024
DISCARD_PORT = 9
HOP_LIMIT = 64
NEW_FLOWS = 4_000_000
"""Flows of pattern new-flows: for some seconds each frame is the first one of its flow."""
NOWHERE: Final = {4: "192.0.2.1", 6: "2001:db8::1"}
"""For documentation (RFC 5737, RFC 3849): no router of a test bed has a route there."""
MILLIPPS = 1000
"""Thousandths of a frame a second in one frame a second: the unit of the generator's rates."""


LATE_NS = 1_000_000
"""How late a frame may leave: ``MAX_LATE_NS`` of the generator. Sending goes on for so long after
the window, so that its last frames may be as late as its first."""


def size_cycle(sizes: Sequence[tuple[int, int]]) -> list[int]:
    """Spread frame sizes evenly over one cycle by their weights.

    Parameters
    ----------
    sizes
        (bytes, weight) pairs.

    Returns
    -------
    list of int
        Sizes in the order of sending, as many as the weights' sum; each step takes the size that
        is furthest behind its share.
    """
    total = sum(weight for _, weight in sizes)
    sent = dict.fromkeys(range(len(sizes)), 0)
    cycle = []
    for step in range(1, total + 1):
        behind = max(sent, key=lambda i: sizes[i][1] * step / total - sent[i])
        sent[behind] += 1
        cycle.append(sizes[behind][0])
    return cycle


def _addresses(router: PointRouter, wire: Wire, ip: int) -> tuple[str, int, str]:
    """Return the first source address, how many there are, and the destination.

    Where the router answers, the source is the receiver's address: so the answers leave by the
    router's other side, as frames do that it passes on. On a wire without a router there is no
    address to ask.
    """
    if router.answers and wire.router_ip:
        return wire.dst_ip, 1, wire.router_ip
    pattern = router.pattern
    return wire.src_ip, _sources(pattern, wire), _destination(pattern, wire, ip)


def _sources(pattern: Pattern, wire: Wire) -> int:
    """Return the number of source addresses.

    A router answers frames that end there, and knows the way to the first source only: what it
    sends to another would come back to itself.
    """
    return 1 if pattern.ends else wire.src_count


def _destination(pattern: Pattern, wire: Wire, ip: int) -> str:
    if "to-router" in pattern.frames and wire.router_ip:
        return wire.router_ip
    return NOWHERE[ip] if "no-route" in pattern.frames else wire.dst_ip


def _seed(pattern: Pattern, label: str) -> int:
    """Return what a Poisson process of a trial begins with, 1 or more; 0: there is none."""
    return 1 + zlib.crc32(label.encode()) % (2**32 - 1) if pattern.timing.kind == "poisson" else 0


def flows_of(pattern: Pattern, flows: int) -> int:
    """Return the flows of a stream that has a pattern; without one it has `flows`."""
    return NEW_FLOWS if "new-flows" in pattern.frames else flows


class PatternKeys(TypedDict):
    """What a pattern makes of a native stream's keys."""

    flows: int
    hop_limit: int
    fragments: bool
    poisson_seed: int
    on_ns: int
    period_ns: int


def pattern_keys(pattern: Pattern, flows: int, label: str) -> PatternKeys:
    """Return the keys of a native stream that say when frames are sent, and what they are.

    Parameters
    ----------
    flows
        Without a pattern.
    label
        Random numbers follow from it.
    """
    return {
        "flows": flows_of(pattern, flows),
        "hop_limit": 1 if "ttl-expired" in pattern.frames else HOP_LIMIT,
        "fragments": "fragments" in pattern.frames,
        "poisson_seed": _seed(pattern, label),
        "on_ns": pattern.timing.on_ns,
        "period_ns": pattern.timing.period_ns,
    }


def _segment(duration_ns: int, start_pps: float, end_pps: float) -> _native.Segment:
    return _native.Segment(
        duration_ns=duration_ns,
        start_rate_millipps=round(start_pps * MILLIPPS),
        end_rate_millipps=round(end_pps * MILLIPPS),
    )


def segments_of(
    demand: Demand, duration_ns: int, window_ns: tuple[int, int] | None = None, label: str = ""
) -> list[_native.Segment]:
    """Describe when one router's load is sent, whose mean rate in the window is the demand.

    Parameters
    ----------
    duration_ns
        How long it is sent.
    window_ns
        When the window begins and ends; None: it is all of the time.
    label
        Of the trial: when exactly a pattern begins follows from it.
    """
    begin_ns, end_ns = window_ns or (0, duration_ns)
    timing, load_pps = demand.router.pattern.timing.within(end_ns - begin_ns), demand.offered_pps
    if timing.kind == "from":
        late_ns = timing.start_ns(end_ns - begin_ns, f"{label}/{demand.router.name}")
        silent_ns = begin_ns + late_ns
        within_pps = load_pps * (end_ns - begin_ns) / (end_ns - silent_ns)
        return [
            _segment(silent_ns, 0.0, 0.0),
            _segment(duration_ns - silent_ns, within_pps, within_pps),
        ]
    if timing.kind == "ramp":  # which has grown to the load in the middle of the window
        middle_ns = (begin_ns + end_ns) // 2
        return [_segment(duration_ns, 0.0, load_pps * duration_ns / middle_ns)]
    return [_segment(duration_ns, load_pps, load_pps)]


def _segments(setting: Setting, demand: Demand, end_ns: int) -> list[_native.Segment]:
    """Describe one router's load in a trial, after what primes the router."""
    primed_ns = setting.priming.duration_ns if setting.priming is not None else 0
    begin_ns = setting.warmup_ns - primed_ns
    window_ns = begin_ns, begin_ns + setting.window_ns
    segments = segments_of(demand, end_ns - primed_ns, window_ns, setting.label)
    if setting.priming is None:
        return segments
    rate_pps = setting.priming_pps(demand)
    return [_segment(primed_ns, rate_pps, rate_pps), *segments]


def stream(
    demand: Demand,
    wire: Wire,
    traffic: Traffic,
    segments: Sequence[_native.Segment],
    label: str = "",
) -> _native.Stream:
    """Describe one router's stream.

    Parameters
    ----------
    segments
        When how much is sent.
    label
        Of the trial: random numbers follow from it.
    """
    pattern = demand.router.pattern
    src_ip, src_count, dst_ip = _addresses(demand.router, wire, traffic.ip)
    return _native.Stream(
        ifindex=wire.gen_ifindex,
        src_mac=wire.src_mac,
        dst_mac=wire.dst_mac,
        src_ip=src_ip,
        src_count=src_count,
        dst_ip=dst_ip,
        first_sport=FIRST_SOURCE_PORT,
        first_dport=ECHO_PORT if demand.router.answers else DISCARD_PORT,
        icmp=demand.router.mode == "icmp-echo",
        sizes=size_cycle(traffic.frame_sizes()),
        segments=segments,
        **pattern_keys(pattern, traffic.flows, f"{label}/{demand.router.name}"),
    )


def trial_of(
    setting: Setting,
    wires: Sequence[Wire],
    traffic: Sequence[Traffic],
    *,
    core: int,
    cookie: int,
    bin_ns: int,
) -> GeneratorTrial:
    """Describe one trial for the generator; demands, wires and traffic are in the same order."""
    window_end_ns = setting.warmup_ns + setting.window_ns
    end_ns = window_end_ns + LATE_NS
    return GeneratorTrial(
        netns=wires[0].gen_netns,
        core=core,
        cookie=cookie,
        streams=[
            stream(demand, wire, kind, _segments(setting, demand, end_ns), setting.label)
            for demand, wire, kind in zip(setting.demands, wires, traffic, strict=True)
        ],
        window_start_ns=setting.warmup_ns,
        window_end_ns=window_end_ns,
        end_ns=end_ns,
        peak_rate_millipps=round(setting.peak_pps * MILLIPPS),
        bin_ns=bin_ns,
    )

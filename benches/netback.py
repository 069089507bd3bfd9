"""Network back-end: frames between ports, cost of a scheduler, shares, idle ports, wake-ups."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from isolane.errors import IsolaneError

from benches import beds
from benches.common import Check, Options, Outcome, main, median, spread
from benches.netback_bed import (
    BackEnd,
    allow_many_files,
    back_end,
    guests,
    idle_guests,
    mac,
    testpmd,
    wire,
)

SHORT_BYTES = 60
"""A frame of 64 bytes without its check sequence."""
FIFO = "fifo"
SCHEDULERS = ("drr", "wfq", "hierarchical")
PORTS = (1, 16, 256)
MANY = 256
LINK_BPS = 200e6
MIXED = (60, 590, 1514)
"""Sizes of an overloaded guest's frames, in equal numbers; the others have one of them each."""
WEIGHTS = (4, 3, 2, 1)
MAX_BPS, MIN_BPS = 20e6, 100e6
GATHERED_PPS = 100_000
"""What a guest takes that all others send to."""
IDLE_S = 5.0
CYCLES_PER_S = 100_000
"""Wake-ups are not measured for a time, but so many for each second of it."""

FORWARD_PPS, TESTPMD_PART = 4e6, 0.8
SCHEDULER_NS, SHARE_PART, IDLE_PART = 60.0, 0.01, 0.02


@dataclass
class Found:
    """What was measured, a value a round."""

    forward_pps: list[float] = field(default_factory=list)
    testpmd_pps: list[float] = field(default_factory=list)
    testpmd_note: str = ""
    """Why it was not measured."""
    frame_ns: dict[tuple[str, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Scheduler and number of ports -> time of a frame from guest to wire."""
    share_error: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The largest deviation of a guest from what it was to get, as a part of that."""
    between_error: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The same of guests that send to another one."""
    link_error: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Deviation of all guests' sum from the link's rate, as a part of that."""
    idle_part: list[float] = field(default_factory=list)
    """Of a core."""
    cycles: int = 0
    lost: int = 0
    lost_calls: int = 0
    wake_us: list[tuple[float, float, float]] = field(default_factory=list)
    """Median, 99th percentile and maximum of a wake-up."""


def forward(found: Found, seconds: float) -> None:
    """Forward short frames between two guests, with this back-end and with testpmd."""
    options = ("--size", SHORT_BYTES, "--to-mac", mac(1), "--from-mac", mac(0))

    def pps(first: object, second: object) -> float:
        told = guests("forward", seconds, first, second, *options)
        return float(told["received"] / told["seconds"])

    with back_end([{}, {}], {"scheduler": FIFO}) as one:
        found.forward_pps.append(pps(*one.sockets))
    try:
        with testpmd() as sockets:
            found.testpmd_pps.append(pps(*sockets))
    except IsolaneError as error:
        found.testpmd_note = f"not compared with testpmd: {error}"


def flood(one: BackEnd, seconds: float, *options: object) -> list[tuple[float, float]]:
    """Have all guests transmit what they can; returns frames/s and bit/s on the wire of each."""
    sockets = [f"{path}={mac(number)}" for number, path in enumerate(one.sockets)]
    told = guests("flood", seconds, *options, *sockets)
    passed = told["seconds"]
    return [(each["frames"] / passed, 8 * each["bytes"] / passed) for each in told["guests"]]


def schedulers(found: Found, ports: int, seconds: float) -> None:
    """Time a frame under each scheduler, the back-end's core being the limit."""
    # What comes first in one round comes last in the next.
    order = (FIFO, *SCHEDULERS)[:: -1 if len(found.frame_ns[FIFO, ports]) % 2 else 1]
    with back_end([{}] * ports, {"scheduler": FIFO}) as one:
        for scheduler in order:
            one.set(scheduler=scheduler)
            rates = flood(one, seconds, "--sizes", SHORT_BYTES)
            found.frame_ns[scheduler, ports].append(1e9 / sum(pps for pps, _ in rates))


def mixed() -> Iterator[object]:
    """Yield options: the first guest has frames of all sizes, each other one a single size."""
    yield from ("--sizes", ",".join(map(str, MIXED)))
    for number, size in enumerate(MIXED, start=1):
        yield from ("--sizes-of", f"{number}:{size}")


def shares(found: Found, seconds: float) -> None:
    """Overload a link of a known rate, and hold what each guest got against its weight."""
    link = {"scheduler": "drr", "rate": f"{LINK_BPS / 1e6:g}Mbps"}
    with back_end([{"weight": weight} for weight in WEIGHTS], link) as one:
        for scheduler in ("drr", "wfq"):
            one.set(scheduler=scheduler)
            got = [bps for _, bps in flood(one, seconds, *mixed())]
            total = sum(got)
            due = [total * weight / sum(WEIGHTS) for weight in WEIGHTS]
            note_shares(found, scheduler, got, due)


def limits(found: Found, seconds: float) -> None:
    """Overload a link with one guest that has a maximum, and one that has a minimum.

    What is left of the link is shared by equal weights, on top of the minimum.
    """
    rest = (LINK_BPS - MIN_BPS - MAX_BPS) / 3
    due = [MAX_BPS, MIN_BPS + rest, rest, rest]
    ports: list[Mapping[str, object]] = [
        {"rate_max": f"{MAX_BPS / 1e6:g}Mbps"}, {"rate_min": f"{MIN_BPS / 1e6:g}Mbps"}, {}, {},
    ]  # fmt: skip
    link = {"scheduler": "hierarchical", "rate": f"{LINK_BPS / 1e6:g}Mbps"}
    with back_end(ports, link) as one:
        got = [bps for _, bps in flood(one, seconds, *mixed())]
    note_shares(found, "hierarchical", got, due)


def between(found: Found, seconds: float) -> None:
    """Have guests send more to another one than it takes, and hold their parts against weights."""
    ports: list[Mapping[str, object]] = [{}, *({"weight": weight} for weight in WEIGHTS)]
    with back_end(ports, {"scheduler": "drr"}) as one:
        for scheduler in ("drr", "wfq"):
            one.set(scheduler=scheduler)
            sockets = [f"{path}={mac(number)}" for number, path in enumerate(one.sockets)]
            options = ("--pace", GATHERED_PPS, *mixed(), *sockets)
            told = guests("gather", seconds, *options)["bytes"]
            got = [float(told.get(str(number), 0)) for number in range(1, len(ports))]
            due = [sum(got) * weight / sum(WEIGHTS) for weight in WEIGHTS]
            found.between_error[scheduler].append(largest_error(got, due))


def largest_error(got: list[float], due: list[float]) -> float:
    """Return how far one is at most from what it was to get, as a part of that."""
    return max(abs(part / wanted - 1) for part, wanted in zip(got, due, strict=True))


def note_shares(found: Found, scheduler: str, got: list[float], due: list[float]) -> None:
    """Note how far guests are from what they were to get, all in bit/s."""
    found.share_error[scheduler].append(largest_error(got, due))
    found.link_error[scheduler].append(abs(sum(got) / LINK_BPS - 1))


def idle(found: Found) -> None:
    """Measure what silent guests cost, at all ports that there can be."""
    with back_end([{}] * MANY, {"scheduler": FIFO}) as one, idle_guests(one, 60.0):
        time.sleep(1.0)
        begun, before_s = time.monotonic(), one.cpu_s()
        time.sleep(IDLE_S)
        used_s = one.cpu_s() - before_s
        found.idle_part.append(used_s / (time.monotonic() - begun))


def wake(found: Found, seconds: float) -> None:
    """Send single frames to a back-end that may be falling asleep."""
    cycles = round(seconds * CYCLES_PER_S)
    with back_end([{}, {}], {"scheduler": FIFO}) as one:
        options = ("--to-mac", mac(1), "--from-mac", mac(0))
        told = guests("wake", cycles, *one.sockets, *options)
    found.cycles += told["cycles"]
    found.lost += told["lost"]
    found.lost_calls += told["lost_calls"]
    found.wake_us.append((told["p50_us"], told["p99_us"], told["max_us"]))


def bench(options: Options) -> Outcome:
    """Measure everything in turn, round by round."""
    found = Found()
    allow_many_files()
    with beds.host(), wire():
        for _ in range(options.rounds):
            forward(found, options.seconds)
            for ports in PORTS:
                schedulers(found, ports, options.seconds)
            shares(found, options.seconds)
            limits(found, options.seconds)
            between(found, options.seconds)
            idle(found)
            wake(found, options.seconds)
    return Outcome(
        title=f"Network back-end: {options.rounds} rounds, {options.seconds:g} s each",
        columns=("what", "median", "range"),
        rows=list(rows(found)),
        checks=list(checks(found)),
        notes=[found.testpmd_note] if found.testpmd_note else [],
        data={"figures": figures(found)},
    )


def extra_ns(found: Found, scheduler: str, ports: int) -> list[float]:
    """Return what a frame costs more than under fifo, in the same round, ns."""
    pairs = zip(found.frame_ns[scheduler, ports], found.frame_ns[FIFO, ports], strict=True)
    return [own - fifo for own, fifo in pairs]


def rows(found: Found) -> Iterator[tuple[str, str, str]]:
    """Yield the table."""
    yield row("port to port, 64-byte frames, Mpps", found.forward_pps, 1e6, 3)
    if found.testpmd_pps:
        yield row("testpmd between the same guests, Mpps", found.testpmd_pps, 1e6, 3)
    for ports in PORTS:
        yield row(f"fifo, {ports} ports, ns a frame", found.frame_ns[FIFO, ports], 1, 1)
        for scheduler in SCHEDULERS:
            extra = extra_ns(found, scheduler, ports)
            yield row(f"{scheduler}, {ports} ports, ns more", extra, 1, 1)
    for scheduler, errors in found.share_error.items():
        yield row(f"{scheduler}: largest error of a share, %", errors, 0.01, 3)
        yield row(f"{scheduler}: error of the link's rate, %", found.link_error[scheduler], 0.01, 3)
    for scheduler, errors in found.between_error.items():
        yield row(f"{scheduler}: the same between ports, %", errors, 0.01, 3)
    yield row(f"{MANY} silent guests, % of a core", found.idle_part, 0.01, 3)
    for name, values in zip(
        ("median", "p99", "max"), zip(*found.wake_us, strict=True), strict=True
    ):
        yield row(f"wake-up, guest to guest, {name}, us", list(values), 1, 1)


def row(what: str, values: list[float], scale: float, digits: int) -> tuple[str, str, str]:
    """Write figures, divided by ``scale``."""
    return what, f"{median(values) / scale:.{digits}f}", spread(values, scale, digits)


def checks(found: Found) -> Iterator[Check]:
    """Hold medians against targets."""
    pps = median(found.forward_pps)
    target = f"at least {FORWARD_PPS / 1e6:g} Mpps from port to port on one core"
    yield Check(target, f"{pps / 1e6:.2f} Mpps", pps >= FORWARD_PPS)
    target = f"at least {TESTPMD_PART:.0%} of testpmd"
    if found.testpmd_pps:
        part = median(found.forward_pps) / median(found.testpmd_pps)
        yield Check(target, f"{part:.1%}", part >= TESTPMD_PART)
    else:
        yield Check(target, "testpmd did not run", None)
    worst = {cell: median(extra_ns(found, *cell)) for cell in found.frame_ns if cell[0] != FIFO}
    cell = max(worst, key=worst.__getitem__)
    figure = f"{worst[cell]:.1f} ns ({cell[0]}, {cell[1]} ports)"
    target = f"a scheduler costs at most {SCHEDULER_NS:g} ns a frame more than fifo"
    yield Check(target, figure, worst[cell] <= SCHEDULER_NS)
    yield part_check("shares and rates within 1 %", found.share_error)
    yield part_check("buffers of a common receiver are shared within 1 %", found.between_error)
    yield part_check("the link's rate is used, within 1 %", found.link_error)
    used = median(found.idle_part)
    target = f"{MANY} silent guests take less than {IDLE_PART:.0%} of a core"
    yield Check(target, f"{used:.2%}", used < IDLE_PART)
    figure = f"{found.lost} of frames, {found.lost_calls} of calls, of {found.cycles:,}"
    yield Check("no wake-up is lost", figure, found.lost + found.lost_calls == 0)


def part_check(target: str, errors: Mapping[str, list[float]]) -> Check:
    """Hold the worst scheduler's median against what is asked for."""
    worst = max(errors, key=lambda scheduler: median(errors[scheduler]))
    figure = f"{median(errors[worst]):.2%} ({worst})"
    return Check(target, figure, median(errors[worst]) <= SHARE_PART)


def figures(found: Found) -> dict[str, object]:
    """Return all figures as JSON can have them."""
    frame_ns = {f"{name}/{ports}": ns for (name, ports), ns in found.frame_ns.items()}
    return {**vars(found), "frame_ns": frame_ns}


if __name__ == "__main__":
    main("netback", bench, Options(rounds=5, seconds=2.0), str(__doc__))

"""Conservation: sent = received + counted drops, to the frame, up to the highest rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Literal

from isolane.spec import format_pps
from isolane.testbed import BedPlan, RouterPlan, Testbed, clean, exclusive
from isolane.testbed.bed_devices import RCV
from isolane.trials.live.cores import staying_on
from isolane.trials.live.counting import Counting
from isolane.trials.live.traffic import Target

from benches.common import GENERATOR_CORE, RECEIVER_CORE, Check, Options, Outcome, main
from benches.sent import drain, send
from benches.wire import RCV_IFNAME, make_wire

RATES_PPS = (1e4, 1e5, 3e5, 1e6, 2e6)
MAX_PPS = 1e7
"""More than any core sends, so that the generator is the limit."""
FLOWS = 100
MODERATION_NS = 20_000


@dataclass(frozen=True)
class Course:
    """A connection from the generator to the receiver, ready for trials."""

    name: str
    target: Target
    receiver: Counting
    lost: Callable[[], dict[str, int]]
    """Drop point -> frames lost there since it was built."""


@dataclass(frozen=True)
class Trial:
    """The frame accounting of one trial."""

    course: str
    asked_pps: float
    sent: int
    seconds: float
    received: int
    lost: dict[str, int]

    @property
    def unaccounted(self) -> int:
        """Frames that are neither received nor counted as lost; negative: counted twice."""
        return self.sent - self.received - sum(self.lost.values())


@contextmanager
def direct() -> Iterator[Course]:
    """Wire generator and receiver together; the far end has a core of its own."""
    with (
        staying_on((RECEIVER_CORE,)),
        make_wire(RECEIVER_CORE) as wire,
        Counting((RCV_IFNAME,), RCV, FLOWS) as receiver,
    ):
        yield Course("direct", wire.target, receiver, lambda: {"wire": wire.count().dropped})


@contextmanager
def through(kind: Literal["native", "container"]) -> Iterator[Course]:
    """Put a router between them, alone on a core; the receiver shares the generator's."""
    router = RouterPlan("vr", kind, "none" if kind == "native" else "direct", None)
    plan = BedPlan(
        routers=(router,),
        receive="softirq",
        moderation_ns=MODERATION_NS,
        dut_cores=(RECEIVER_CORE,),
        measure_cores=(GENERATOR_CORE,),
        ip=4,
    )
    with staying_on((GENERATOR_CORE,)), exclusive() as journal:
        clean()
        with Testbed(plan, journal) as bed:
            bed.receive_often()
            wire = bed.wires[0]
            target = Target(
                wire.gen_ifindex,
                wire.src_mac,
                wire.dst_mac,
                wire.src_ip,
                wire.dst_ip,
                wire.gen_netns,
            )
            with Counting((wire.rcv_ifname,), RCV, FLOWS) as receiver:
                yield Course(f"{kind} router", target, receiver, lambda: bed.counters().of("vr"))


def trial(course: Course, rate_pps: float, seconds: float) -> Trial:
    """Send at one rate and account for every frame."""
    arrived, before = drain(course.receiver), course.lost()
    report = send(course.target, rate_pps, seconds, FLOWS)
    received, after = drain(course.receiver) - arrived, course.lost()
    return Trial(
        course.name,
        rate_pps,
        report["frames"],
        seconds,
        received,
        {point: after[point] - before[point] for point in after},
    )


def row(done: Trial) -> tuple[str, ...]:
    """Say a trial in a line of the table."""
    asked = "maximum" if done.asked_pps == MAX_PPS else format_pps(done.asked_pps)
    lost = ", ".join(f"{point} {count}" for point, count in done.lost.items() if count)
    return (
        done.course,
        asked,
        format_pps(done.sent / done.seconds),
        str(done.sent),
        str(done.received),
        lost or "-",
        str(done.unaccounted),
    )


def checks(trials: list[Trial]) -> list[Check]:
    """Judge whether every frame is accounted for, and whether the receiver kept up."""
    wrong = [done for done in trials if done.unaccounted]
    refused = sum(done.lost.get("egress", 0) for done in trials)
    return [
        Check(
            "sent = received + counted drops, to the frame",
            f"{len(wrong)} of {len(trials)} trials differ",
            not wrong,
        ),
        Check(
            "the receiver loses nothing of what routers forward",
            f"its wire refused {refused} frames",
            refused == 0,
        ),
    ]


def bench(options: Options) -> Outcome:
    """Go through the rates on each course."""
    trials = []
    for build in (direct, lambda: through("container"), lambda: through("native")):
        with build() as course:
            trials += [
                trial(course, rate_pps, options.seconds)
                for _ in range(options.rounds)
                for rate_pps in (*RATES_PPS, MAX_PPS)
            ]
    return Outcome(
        title=f"Conservation: {options.rounds} rounds, {options.seconds:g} s each",
        columns=("course", "asked", "rate", "sent", "received", "lost", "unaccounted"),
        rows=[row(done) for done in trials],
        checks=checks(trials),
        notes=[
            "wire: refused by the receiver's full ring, without a router before it.",
            "nic_queue: the router's own limit. egress: refused by the receiver behind a router.",
        ],
        data={"trials": [{**asdict(done), "unaccounted": done.unaccounted} for done in trials]},
    )


if __name__ == "__main__":
    main("conservation", bench, Options(rounds=1, seconds=2.0), str(__doc__))

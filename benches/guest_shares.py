"""Virtual machines under a policy: shares of a core, and a victim beside an overloaded one."""

from __future__ import annotations

from dataclasses import dataclass, field

from isolane.testbed import Journal

from benches import beds
from benches.common import Check, Options, Outcome, main, median, spread

PATHS = ("tap", "isolane", "bridge", "macvtap")
QUEUES = ("tap", "isolane")
"""Those where each guest has a queue of its own."""
WEIGHTS = ((1, 1), (2, 1), (4, 1))
MANY = 8
"""Guests on path ``tap``, the first half of them with the first weight."""
OVERLOAD_PPS = 600_000.0
"""Offered to all guests together: more than a core forwards on any path."""
SHARED_OVERLOAD_PPS = 300_000.0
"""The same where guests share a wire: with more, softirqs leave them next to no time to share."""
WITHIN_PP = 1.0
VICTIM, AGGRESSOR = 0.3, 4.0
"""Offered, of what one guest alone forwards of an overload."""
KEEPS = 0.99
POLICIES = {"unmanaged": ("", ""), "managed": ("cpu_weight: 100", "cpu_weight: 100")}


@dataclass
class Shared:
    """Of one path and set of weights, a value a round."""

    error_pp: list[float] = field(default_factory=list)
    """The largest distance of a share of the forwarded frames from its weight's."""
    share: list[float] = field(default_factory=list)
    """The first guest's."""
    total_pps: list[float] = field(default_factory=list)


@dataclass
class Beside:
    """Of one path, managed or not, a value a round."""

    kept: list[float] = field(default_factory=list)
    p99_ns: list[float] = field(default_factory=list)
    """Of the victim beside the aggressor; infinite where more than 1 % is lost."""
    alone_p99_ns: list[float] = field(default_factory=list)
    total_pps: list[float] = field(default_factory=list)


def share_out(path: str, weights: tuple[int, ...], found: Shared, tools: Tools) -> None:
    """Overload all guests, and see what each forwards."""
    policies = tuple(f"cpu_weight: {100 * weight}" for weight in weights)
    with beds.bed(beds.Arm(path, policies, kind="vm"), tools.journal, tools.seconds) as bed:
        offered = OVERLOAD_PPS if path in QUEUES else SHARED_OVERLOAD_PPS
        rates = bed.forwarded([offered / len(weights)] * len(weights))
    if rates is None or not sum(rates):
        return
    errors = [
        100 * abs(rate / sum(rates) - weight / sum(weights))
        for rate, weight in zip(rates, weights, strict=True)
    ]
    found.error_pp.append(max(errors))
    found.share.append(100 * rates[0] / sum(rates))
    found.total_pps.append(sum(rates))


def stand_beside(path: str, how: str, found: Beside, tools: Tools) -> None:
    """Offer a victim less than its share: alone, and beside an overloaded guest."""
    with beds.bed(beds.Arm(path, POLICIES[how], kind="vm"), tools.journal, tools.seconds) as bed:
        capacity = bed.forwarded([OVERLOAD_PPS / 2, 0.0])
        if capacity is None or not capacity[0]:
            return
        victim = float(round(VICTIM * capacity[0]))
        alone = bed.offer([victim, 0.0])
        beside = bed.offer([victim, float(round(AGGRESSOR * capacity[0]))])
    if alone.invalid or beside.invalid:
        return
    before, after = alone.routers[0], beside.routers[0]
    found.kept.append(after.received_pps / before.received_pps)
    found.total_pps.append(sum(router.received_pps for router in beside.routers))
    if before.delay is not None and after.delay is not None:
        found.alone_p99_ns.append(before.delay.p99_ns)
        found.p99_ns.append(after.delay.p99_ns)


@dataclass(frozen=True)
class Tools:
    """What every measurement needs."""

    journal: Journal
    seconds: float


def bench(options: Options) -> Outcome:
    """Measure everything in turn, round by round."""
    many = [(a,) * (MANY // 2) + (b,) * (MANY // 2) for a, b in WEIGHTS]
    sets = [(path, weights) for path in PATHS for weights in WEIGHTS]
    shares = {one: Shared() for one in [*sets, *(("tap", weights) for weights in many)]}
    beside = {
        (path, how): Beside()
        for path in PATHS
        for how in POLICIES
        if (path, how) != ("isolane", "unmanaged")  # there is no such thing
    }
    with beds.host() as journal:
        tools = Tools(journal, options.seconds)
        for _ in range(options.rounds):
            for (path, weights), shared in shares.items():
                share_out(path, weights, shared, tools)
            for (path, how), stood in beside.items():
                stand_beside(path, how, stood, tools)
    return Outcome(
        title=f"Guests under a policy: medians of {options.rounds} rounds",
        columns=("what", "guests, path", "found", "range", "kpps in all", "p99 alone / beside, us"),
        rows=[
            *(_share_row(path, weights, found) for (path, weights), found in shares.items()),
            *(_beside_row(path, how, found) for (path, how), found in beside.items()),
        ],
        checks=[
            *(_share_check(path, weights, found) for (path, weights), found in shares.items()),
            *(_kept_check(path, beside[path, "managed"]) for path in QUEUES),
        ],
        data={
            "shares": {f"{p} {_ratio(w)} {len(w)}": vars(f) for (p, w), f in shares.items()},
            "beside": {f"{p} {how}": vars(f) for (p, how), f in beside.items()},
        },
    )  # fmt: skip


def _ratio(weights: tuple[int, ...]) -> str:
    return f"{weights[0]}:{weights[-1]}"


def _share_check(path: str, weights: tuple[int, ...], found: Shared) -> Check:
    error = median(found.error_pp)
    return Check(
        f"{len(weights)} overloaded guests on {path} share {_ratio(weights)} within "
        f"{WITHIN_PP:g} pp",
        f"{error:.2f} pp",
        error <= WITHIN_PP if found.error_pp else None,
    )


def _kept_check(path: str, found: Beside) -> Check:
    kept = median(found.kept)
    return Check(
        f"a guest within its share keeps {100 * KEEPS:g} % beside one at {AGGRESSOR:g}x ({path})",
        f"{100 * kept:.2f} %",
        kept >= KEEPS if found.kept else None,
    )


def _share_row(path: str, weights: tuple[int, ...], found: Shared) -> tuple[str, ...]:
    return (
        f"share of the first, {_ratio(weights)}",
        f"{len(weights)}, {path}",
        f"{median(found.share):.1f} %, worst {median(found.error_pp):.2f} pp",
        spread(found.share, 1, 1),
        f"{median(found.total_pps) / 1e3:.0f}",
        "",
    )


def _beside_row(path: str, how: str, found: Beside) -> tuple[str, ...]:
    kept = [100 * value for value in found.kept]
    return (
        "kept by the victim",
        f"2, {path}, {how}",
        f"{median(kept):.2f} %",
        spread(kept, 1, 1),
        f"{median(found.total_pps) / 1e3:.0f}",
        f"{median(found.alone_p99_ns) / 1e3:.0f} / {median(found.p99_ns) / 1e3:.0f}",
    )


if __name__ == "__main__":
    main("guest_shares", bench, Options(rounds=5, seconds=0.5), str(__doc__))

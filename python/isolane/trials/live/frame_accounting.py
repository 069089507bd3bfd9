"""Frame accounting: each scheduled frame was received, or lost at a named drop point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolane.results.results import DropPoint
from isolane.testbed import Counters

SHARED_DROP_POINTS: tuple[DropPoint, ...] = ("nic_queue", "router_queue", "egress")
"""Drop points whose counters the kernel keeps for all routers together."""


@dataclass(frozen=True)
class Account:
    """Frames of one router in a whole trial."""

    router: str
    scheduled: int
    sent: int
    received: int
    """Without duplicates."""


def receiver_lost(account: Account, lost: Counters) -> int | None:
    """Return the router's frames that the receiver's full wires dropped; None where nobody tells.

    They were forwarded: it is the measuring that lost them. The kernel counts them by router where
    the wire, or the macvlan before it, is the router's own. Where a policy counts what each router
    gives to a wire that all share, they are what of that did not arrive, unless a queue before the
    wire dropped some as well.
    """
    if account.router in lost.own_receiver_dropped:
        return lost.own_receiver_dropped[account.router]
    of_all = lost.receiver_dropped - sum(lost.own_receiver_dropped.values())
    if not of_all:
        return 0
    return _lost_behind(account, lost) if lost.of(None)["egress"] == of_all else None


def _lost_behind(account: Account, lost: Counters) -> int | None:
    """Return what was lost on the shared wire to the receiver of what a router gave to it."""
    if account.router not in lost.passed_on:
        return None
    missing = max(0, lost.passed_on[account.router] - account.received)
    return min(missing, lost.of(None)["egress"])


def lost_frames(
    accounts: Sequence[Account], lost: Counters, untold: frozenset[str] = frozenset()
) -> list[dict[DropPoint, int]]:
    """Return the lost frames of each router by drop point.

    What the kernel counted for one router is that router's. Routers also share drop points: a
    bridge's NIC queue counts drops, but not whose frames they were. What was lost behind a policy
    is known from its counters; the rest of a router's missing frames is divided among the shared
    drop points, in proportion to what these counted.

    Missing frames that no counter explains are ``unaccounted``; frames that the shared counters
    report beyond the missing ones are subtracted from ``unaccounted``.

    Parameters
    ----------
    accounts
        What each router was offered and what arrived.
    lost
        What the kernel counted in the same time.
    untold
        Routers that do not tell where they lose frames: what no counter explains of theirs was lost
        in or behind them. Where there are such, shared counters may have others' losses, too.

    Returns
    -------
    list of dict
        For each account, in the same order, frames by drop point. Over all routers, scheduled
        frames are received plus lost.
    """
    missing = []
    losses: list[dict[DropPoint, int]] = []
    for account in accounts:
        own = lost.of(account.router)
        router: dict[DropPoint, int] = {
            "generator": account.scheduled - account.sent,
            "nic_queue": own["nic_queue"],
            "router_queue": own["router_queue"],
            "no_route": own["no_route"],
            "unanswered": own["unanswered"],
            "egress": own["egress"],
            "in_router": 0,
            "unaccounted": 0,
        }
        losses.append(router)
        missing.append(account.sent - account.received - sum(own.values()))
    shared = {point: lost.of(None)[point] for point in SHARED_DROP_POINTS}
    for number, account in enumerate(accounts):
        told = _lost_behind(account, lost)
        if told is not None:
            taken = max(0, min(told, missing[number], shared["egress"]))
            losses[number]["egress"] += taken
            missing[number] -= taken
            shared["egress"] -= taken
    surplus = _spread(losses, missing, shared)
    if losses and not untold:
        losses[0]["unaccounted"] -= surplus
    for account, router in zip(accounts, losses, strict=True):
        if account.router in untold:
            router["in_router"] = max(0, router["unaccounted"])
            router["unaccounted"] -= router["in_router"]
    return losses


def _spread(
    losses: list[dict[DropPoint, int]], missing: list[int], shared: dict[DropPoint, int]
) -> int:
    """Divide the missing frames among the shared drop points; no frame is counted twice.

    Returns
    -------
    int
        What the shared drop points count beyond the missing frames.
    """
    left = dict(shared)
    for router, wanted in zip(losses, missing, strict=True):
        rest = wanted
        total = sum(left.values())
        for point in sorted(left, key=lambda p: -left[p]):
            share = min(left[point], rest, -(-wanted * left[point] // total)) if total else 0
            taken = max(0, share)
            router[point] += taken
            left[point] -= taken
            rest -= taken
        for point, uncharged in list(left.items()):  # rounding left these over
            taken = max(0, min(rest, uncharged))
            router[point] += taken
            left[point] -= taken
            rest -= taken
        router["unaccounted"] += rest
    return sum(left.values())

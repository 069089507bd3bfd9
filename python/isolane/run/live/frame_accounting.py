"""Closing the books: every frame that was scheduled is received, or lost at a named place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolane.run.results import Place
from isolane.testbed import Counters

SHARED_PLACES: tuple[Place, ...] = ("nic_queue", "router_queue", "egress")


@dataclass(frozen=True)
class Account:
    """Frames of one router in a whole trial."""

    router: str
    scheduled: int
    sent: int
    received: int
    """Without duplicates."""


def close(accounts: Sequence[Account], lost: Counters) -> list[dict[Place, int]]:
    """Say where each router's missing frames went.

    What the kernel counted for a router alone is its own. The rest of its missing frames went at
    the places that routers share (a bridge's NIC queue counts drops, but not whose they were):
    they are booked there in proportion to these places' counts. What then remains is unaccounted,
    and so is what the shared places counted beyond the missing frames.
    """
    missing = []
    books: list[dict[Place, int]] = []
    for account in accounts:
        own = lost.of(account.router)
        book: dict[Place, int] = {
            "generator": account.scheduled - account.sent,
            "nic_queue": own["nic_queue"],
            "router_queue": own["router_queue"],
            "no_route": own["no_route"],
            "egress": own["egress"],
            "unaccounted": 0,
        }
        books.append(book)
        missing.append(account.sent - account.received - sum(own.values()))
    shared = lost.of(None)
    _spread(books, missing, {place: shared.get(place, 0) for place in SHARED_PLACES})
    return books


def _spread(books: list[dict[Place, int]], missing: list[int], shared: dict[Place, int]) -> None:
    """Book the missing frames at the shared places, to the frame."""
    left = dict(shared)
    for book, wanted in zip(books, missing, strict=True):
        rest = wanted
        total = sum(left.values())
        for place in sorted(left, key=lambda p: -left[p]):
            share = min(left[place], rest, -(-wanted * left[place] // total)) if total else 0
            taken = max(0, share)
            book[place] += taken
            left[place] -= taken
            rest -= taken
        for place, room in list(left.items()):  # what rounding left over, where there is room
            taken = max(0, min(rest, room))
            book[place] += taken
            left[place] -= taken
            rest -= taken
        book["unaccounted"] += rest
    surplus = sum(left.values())
    if surplus and books:
        books[0]["unaccounted"] -= surplus

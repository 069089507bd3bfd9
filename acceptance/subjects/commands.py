"""What commands show beside the frames that are really there."""

from __future__ import annotations

from typing import Any

from isolane.stats.promises import Bar

from acceptance.subject import Figures, Promise, Subject
from acceptance.subjects.rigs import on_rig
from tests.enforce.rig import Rig

KEYS = {"vr1": "cpu_weight: 300, rate_min: 2Gbps", "vr2": "rate_max: 10kpps"}
ADDS_UP = "offered is forwarded and dropped"
BUSIER = "who is offered ten times as much is told to be"
ON_THE_LINK = "the rate on the link is that of the frames"
FAST_ENOUGH_PPS = 1e3


def top(rig: Rig) -> Figures:
    """Look at both routers under load; tells the worse of them."""
    lines: list[dict[str, Any]] = []
    rig.offer(
        {"vr1": 4e3, "vr2": 40e3},
        2.0,
        meanwhile=lambda: lines.append(rig.data("top", "--once", "--interval", "0.5")),
    )
    routers = lines[-1]["routers"]
    if any(router["offered_pps"] < FAST_ENOUGH_PPS for router in routers):
        return {}  # it looked before or after the load
    less, more = (router["offered_pps"] for router in routers)
    return {
        BUSIER: [more / less],
        ADDS_UP: [max(_missing(router) for router in routers)],
        ON_THE_LINK: [
            max(
                abs(router["link_bps"]["isl-ni1"] / (router["forwarded_pps"] * 84 * 8) - 1)
                for router in routers
            )
        ],
    }


def _missing(router: dict[str, Any]) -> float:
    gone = router["forwarded_pps"] + sum(router["dropped_pps"].values())
    return float(abs(gone / router["offered_pps"] - 1))


SUBJECTS = (
    Subject(
        "top",
        (
            Promise(BUSIER, Bar(10.0, 1.0)),
            Promise(ADDS_UP, Bar(0.0, 0.1, at_most=True)),
            Promise(ON_THE_LINK, Bar(0.0, 0.1, at_most=True)),
        ),
        on_rig(top, **KEYS),
        2.3,
    ),
)

"""A link of 100 Mbit/s that both routers overload, shared as the policy says."""

from __future__ import annotations

from isolane.stats.promises import Bar

from acceptance.subject import Figures, Promise, Subject
from acceptance.subjects.rigs import STEADY_S, on_rig, steady
from tests.enforce.rig import Rig

BYTES = 512
LINK_PPS = 100e6 / ((BYTES + 20) * 8)
"""What it carries of such frames."""
FIRST = "the first router's part of the link"
WHOLE = "the link is full, and no more"


def _subject(name: str, keys: str, part: float, offered: float = 2.0) -> Subject:
    """Return what tells by how much the first router's part differs from what is due to it.

    Parameters
    ----------
    offered
        What the first router is sent, as a part of the link; the second gets twice the link.
    """

    def measure(rig: Rig) -> Figures:
        pps = {"vr1": offered * LINK_PPS, "vr2": 2 * LINK_PPS}
        rates = steady(rig, pps, BYTES)
        return {
            FIRST: [abs(rates["vr1"] / LINK_PPS - part)],
            WHOLE: [abs(sum(rates.values()) / LINK_PPS - 1)],
        }

    promises = (
        Promise(FIRST, Bar(0.0, 0.01, at_most=True)),
        Promise(WHOLE, Bar(0.0, 0.01, at_most=True)),
    )
    return Subject(name, promises, on_rig(measure, "100Mbps", vr1=keys), STEADY_S)


PAID = "64-byte frames pay for preamble and gap"
SHORT_PPS = 20e6 / (84 * 8)


def short_frames(rig: Rig) -> Figures:
    """Of 64-byte frames a link of 20 Mbit/s carries 29.8 kpps, not 40.3."""
    return {PAID: [abs(steady(rig, {"vr1": 2 * SHORT_PPS})["vr1"] / SHORT_PPS - 1)]}


SUBJECTS = (
    # Of the other 40 %, each has half.
    _subject("rate_min 60 of 100 Mbit/s", "rate_min: 60Mbps", 0.8),
    _subject("rate_min that is not used", "rate_min: 60Mbps", 0.05, offered=0.05),
    _subject("priority", "priority: 1", 1.0),
    _subject("link_weight 3:1", "link_weight: 3", 0.75),
    Subject(
        "short frames on a link",
        (Promise(PAID, Bar(0.0, 0.01, at_most=True)),),
        on_rig(short_frames, "20Mbps", vr1="rate_min: 1Mbps"),
        STEADY_S,
    ),
)

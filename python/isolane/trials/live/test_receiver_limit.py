"""What becomes of frames that the receiver's full wires dropped, behind the routers."""

from __future__ import annotations

import pytest

from isolane.trials.live.live_observation import observe
from isolane.trials.live.test_live_observation import LOST, OFFERED, losses, raw, received


def test_what_the_receivers_wire_dropped_had_been_forwarded() -> None:
    """Of 5960 that arrived 4960 were of the window, so of the 40 that were dropped 33."""
    seen = observe(raw(receiver_dropped=LOST, at_receiver=[LOST], lost=[losses(egress=LOST)]))
    one = seen.routers[0]
    assert (one.received_frames, one.receiver_lost) == (OFFERED - LOST + 33, LOST)
    assert one.loss_ratio == pytest.approx(7 / OFFERED)
    assert one.received_pps == one.received_frames / 0.5
    assert one.offered_total == one.received_total + sum(one.lost.values())
    assert seen.invalid == ()
    untold = observe(raw(lost=[losses(egress=LOST)])).routers[0]
    assert (untold.received_frames, untold.receiver_lost) == (OFFERED - LOST, None)


def test_no_more_is_said_to_have_come_than_was_sent() -> None:
    more = received(received_window=OFFERED - 1)
    one = observe(raw(received=[more], at_receiver=[LOST], receiver_dropped=LOST)).routers[0]
    assert one.received_frames == OFFERED

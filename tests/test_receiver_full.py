"""A receiver that is polled too rarely: whose frames its full wire dropped, on a wire for all."""

from __future__ import annotations

import pytest
from isolane.run.invalid import InvalidKind
from isolane.testbed.bed_polling import RARE_PAUSE_NS, BedPolling

from tests.live_bench import live_bench
from tests.testbed.conftest import Traffic

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

EXPERIMENT = """\
isolane: 1
name: full
routers:
  - {{name: one, path: isolane, role: victim, policy: {{forward: {forward}}}}}
  - {{name: two, path: isolane, role: aggressor, policy: {{forward: {forward}}}}}
load: {{one: 1pps, two: 1pps}}
"""
RARELY_NS = 20_000_000
"""Between two polls: the ring of 256 frames overflows."""


@pytest.mark.parametrize("forward", ["kernel", "xdp", "xdp, rate_max: {egress: 5Mpps}"])
def test_each_frame_that_the_receivers_wire_drops_is_told_by_router(
    forward: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BedPolling, "receiver_pause_ns", RARELY_NS)
    with live_bench(EXPERIMENT.format(forward=forward)) as (live, offer):
        wire = live.equipment.bed.wires[0]
        seen = offer(40e3, 80e3)
        pause_ns = Traffic().attribute(wire.rcv_netns, wire.rcv_ifname, "gro_flush_timeout")
    assert pause_ns == RARE_PAUSE_NS, "the core is left to other work after the trial"
    assert seen.conserved
    assert seen.receiver_dropped > 0
    assert sum(router.receiver_lost or 0 for router in seen.routers) == seen.receiver_dropped
    for router in seen.routers:
        assert router.lost["egress"] == router.receiver_lost
        assert router.received_frames <= router.generated_frames
    told = [str(reason) for reason in seen.invalid if reason.kind == InvalidKind.RECEIVER_LIMIT]
    assert [text.rpartition(" ")[2] for text in told] == ["one", "two"], "there is too much of it"

"""A receiver that is polled too rarely: whose frames its full wire dropped, on a wire for all."""

from __future__ import annotations

import pytest
from isolane.results.invalid import InvalidKind
from isolane.testbed.bed_polling import RARE_PAUSE_NS, BedPolling
from isolane.trials.backend import Observation

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
TRIALS = 20
"""A generator whose core is taken away sends so little that there is room for all of it."""
MUCH = 0.2
"""Share of its frames that each router is to lose there."""


@pytest.mark.parametrize("forward", ["kernel", "xdp", "xdp, rate_max: {egress: 5Mpps}"])
def test_each_frame_that_the_receivers_wire_drops_is_told_by_router(
    forward: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BedPolling, "receiver_pause_ns", RARELY_NS)
    with live_bench(EXPERIMENT.format(forward=forward)) as (live, offer):
        wire = live.equipment.bed.wires[0]
        for _ in range(TRIALS):
            seen = offer(40e3, 80e3)
            assert_told(seen)
            if all((r.receiver_lost or 0) > MUCH * r.generated_frames > 0 for r in seen.routers):
                break
        else:
            pytest.fail(f"the wire dropped too little in {TRIALS} trials")
        pause_ns = Traffic().attribute(wire.rcv_netns, wire.rcv_ifname, "gro_flush_timeout")
    assert pause_ns == RARE_PAUSE_NS, "the core is left to other work after the trial"
    told = [str(reason) for reason in seen.invalid if reason.kind == InvalidKind.RECEIVER_LIMIT]
    assert [text.rpartition(" ")[2] for text in told] == ["one", "two"], "there is too much of it"


def assert_told(seen: Observation) -> None:
    assert seen.conserved
    assert sum(router.receiver_lost or 0 for router in seen.routers) == seen.receiver_dropped
    for router in seen.routers:
        assert router.lost["egress"] == (router.receiver_lost or 0)
        assert router.received_frames <= router.generated_frames

"""A trial whose warm-up begins with more than a shaper lets through, until its bucket is empty."""

from __future__ import annotations

import pytest
from isolane.results.priming import Priming
from isolane.spec import Load, PointRouter
from isolane.spec.demands import Demand
from isolane.trials.backend import Setting

from tests.live_bench import live_bench

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

EXPERIMENT = """\
isolane: 1
name: primed
routers:
  - {name: one, path: isolane, policy: {rate_max: 20kpps}}
  - {name: two, path: isolane}
load: {one: 1pps, two: 1pps}
"""
LOADS_PPS = {"one": 10e3, "two": 30e3}
PRIMING = Priming(offered_pps=160e3, duration_ns=100_000_000)
LATER_NS, WINDOW_NS = 50_000_000, 200_000_000
AFTER_S = 1e-3
"""So long after the window its last frames may still leave."""


def test_what_primes_is_sent_before_the_load_and_conserved() -> None:
    with live_bench(EXPERIMENT) as (live, _offer):
        demands = tuple(
            Demand(PointRouter(name, name, "victim", Load(pps, "pps")), pps, None)
            for name, pps in LOADS_PPS.items()
        )
        warmup_ns = PRIMING.duration_ns + LATER_NS
        seen = live.trial(Setting(demands, warmup_ns, WINDOW_NS, priming=PRIMING))
    assert seen.conserved
    for router, load_pps in zip(seen.routers, LOADS_PPS.values(), strict=True):
        primed_pps = 4 * load_pps
        own_s = (LATER_NS + WINDOW_NS) / 1e9 + AFTER_S
        expected = primed_pps * PRIMING.duration_ns / 1e9 + load_pps * own_s
        assert router.offered_total == pytest.approx(expected, abs=2)
        assert router.offered_frames == pytest.approx(load_pps * WINDOW_NS / 1e9, abs=1)
        assert router.received_total + sum(router.lost.values()) == router.offered_total

"""The simulator as Python sees it; what it computes is tested in ``crates/sim/tests``."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any

import pytest
from isolane import _native

MODEL: dict[str, Any] = {
    "duration_ns": 10_000_000,
    "ports": [{"name": "link", "rate_bps": 500_000_000, "capacity": 100}],
    "routers": [{"name": "r", "path": ["link"]}],
    "traffic": [
        {
            "name": "t",
            "router": "r",
            "frame_bytes": 64,
            "pattern": {"kind": "cbr", "rate_pps": 1_000_000},
        }
    ],
}


def test_frames_are_conserved() -> None:
    flow = json.loads(_native.simulate(json.dumps(MODEL)))["flows"][0]
    assert flow["offered"]["frames"] == 10_000
    assert flow["received"]["frames"] + flow["drops"]["link"] + flow["left"] == 10_000


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MODEL | {"routers": []}, "model: routers: 0 is not possible; accepted: 1 or more"),
        (MODEL | {"seeds": 1}, "unknown field `seeds`"),
    ],
)
def test_a_wrong_model_is_refused(model: dict[str, Any], message: str) -> None:
    with pytest.raises(_native.SimulationError, match=message):
        _native.simulate(json.dumps(model))


def test_an_endless_simulation_can_be_interrupted_and_keeps_what_it_has() -> None:
    endless = MODEL | {"duration_ns": 86_400_000_000_000}
    # A shell starts what it runs in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, lambda: signal.raise_signal(signal.SIGINT))
    timer.start()
    try:
        results = json.loads(_native.simulate(json.dumps(endless)))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert results["interrupted"]
    assert results["flows"][0]["received"]["frames"] > 0

"""What is written for the simulator: keys in order, None left out unless null says something."""

from __future__ import annotations

import json
from dataclasses import replace

from isolane.trials.sim.simulation import (
    Context,
    CurrentSoftirqRules,
    Pattern,
    Port,
    PortAdmission,
    Router,
    Simulation,
    SoftirqRules,
    Traffic,
)

SIMULATION = Simulation(
    seed=1,
    duration_ns=2_000_000,
    warm_up_ns=0,
    window_end_ns=1_000_000,
    bin_ns=10_000_000,
    softirq=CurrentSoftirqRules(defer_to_ksoftirqd=False),
    cores=(),
    groups=(),
    contexts=(Context("vm", "process", ("cpu0",), wake_ns=2.5, group="vm"),),
    nics=(),
    ports=(Port("out", 10_000_000, 9, admission=(PortAdmission("vm", capacity=3),)),),
    stages=(),
    routers=(Router("vm", ("out",)),),
    traffic=(Traffic("vm", "vm", (64, 1518), Pattern("cbr", 1e3), 1_000_000),),
)


def test_what_is_none_is_left_out_and_keys_keep_their_order() -> None:
    written = SIMULATION.written()
    assert json.dumps(written["contexts"]) == (
        '[{"name": "vm", "kind": "process", "cores": ["cpu0"], "wake_ns": 2.5, "group": "vm"}]'
    )
    assert json.dumps(written["ports"]) == (
        '[{"name": "out", "rate_bps": 10000000, "capacity": 9, '
        '"admission": [{"router": "vm", "capacity": 3}]}]'
    )
    assert written["traffic"][0]["frame_bytes"] == [64, 1518]
    assert list(written)[:2] == ["seed", "duration_ns"]


def test_no_limit_of_a_softirqs_time_is_written_as_null() -> None:
    assert SIMULATION.written()["softirq"] == {"defer_to_ksoftirqd": False}
    rules = SoftirqRules(restart_time_ns=None, stop_for_threads=False, defer_to_ksoftirqd=False)
    old = replace(SIMULATION, softirq=rules).written()
    assert json.dumps(old["softirq"]) == (
        '{"restart_time_ns": null, "stop_for_threads": false, "defer_to_ksoftirqd": false}'
    )


def test_a_router_that_is_not_there_has_no_path() -> None:
    assert SIMULATION.path("vm") == ("out",)
    assert SIMULATION.path("nobody") == ()

"""Wires of their own under a policy: where frames are lost, and the pacemaker's end."""

from __future__ import annotations

import pytest
from isolane.enforce.settings.pacemaking import running
from isolane.testbed import clean, exclusive
from isolane.trials.live.testbed_policy import clear_leftovers

from tests.live import assert_same_host, kill_inside, quiet_host
from tests.managed_wires import OVERLOAD_PPS, bench

pytestmark = [pytest.mark.root, pytest.mark.native]

GROUP = "isolane-testbed"
TURNS = 50


def test_what_is_too_much_is_lost_at_its_nic_and_the_pacemaker_ends_with_the_policy() -> None:
    before = quiet_host()
    with bench() as offer:
        assert len(list(running(GROUP))) == 1
        for _ in range(TURNS):
            seen = offer(100e3, OVERLOAD_PPS)
            assert seen.conserved
            for router in seen.routers:
                assert router.lost.get("router_queue", 0) == 0, "there is no demultiplexer"
            if seen.routers[1].lost["nic_queue"]:  # else there was too little time to send it
                break
        assert seen.routers[1].lost["nic_queue"] > 0
    assert not list(running(GROUP))
    assert_same_host(before)


def test_what_a_killed_run_left_is_removed_with_its_pacemaker() -> None:
    before = quiet_host()
    kill_inside(bench)
    assert list(running(GROUP)), "it outlives the command that started it"
    with exclusive():
        clean()
        clear_leftovers()
    assert not list(running(GROUP))
    assert_same_host(before)

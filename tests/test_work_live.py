"""An experiment whose router works besides: frames are conserved, and the time is its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from isolane.run.invalid import ABOUT_CPU
from isolane.run.results import RouterTrial

from tests.live import assert_same_host, quiet_host
from tests.test_patterns_live import assert_sound
from tests.test_run_live import run

pytestmark = [
    pytest.mark.root,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

TEXT = """\
isolane: 1
name: busy
traffic: {frame_size: 84}
routers:
  - {name: one, role: victim}
  - {name: two, role: aggressor, work: [none, cpu]}
load: {one: 2kpps, two: 1kpps}
arms:
  - {name: bridge, path: bridge}
  - {name: managed, path: direct, policy: {one: {cpu_weight: 100}, two: {cpu_weight: 100}}}
  - {name: uml, kind: vm, hypervisor: uml, path: tap}
trial: {duration: 300ms, warmup: 20ms, repeats: 1, retries: 0, null_dut: false}
"""


def test_work_is_the_routers_own(tmp_path: Path) -> None:
    file, before = tmp_path / "busy.yaml", quiet_host()
    file.write_text(TEXT)
    trials = run(file, tmp_path / "run")
    assert_same_host(before)
    measured = {
        (trial.arm, trial.routers[1].work): trial for trial in trials if trial.purpose == "measure"
    }
    assert len(measured) == 3 * 2
    for trial in trials:
        assert_sound(trial)
    for (arm, work), trial in measured.items():
        one, two = trial.routers
        assert one.work == "none"
        assert ABOUT_CPU.isdisjoint(trial.invalid or ()), trial.reason
        if work == "cpu":
            assert worked_ns(two) > worked_ns(measured[arm, "none"].routers[1]), arm
    assert measured["bridge", "none"].routers[1].cpu_ns == 0, "it is stopped"


def worked_ns(router: RouterTrial) -> int:
    """Return a router's own CPU time; of a guest that of its programs, which forward nothing."""
    assert router.cpu_ns is not None, "the work is a thread of its own"
    return router.cpu_ns if router.cpu_guest is None else router.cpu_guest["programs"]

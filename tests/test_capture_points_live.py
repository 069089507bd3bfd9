"""Capture points, live: frames are stamped where they pass, and the times add up."""

from __future__ import annotations

from pathlib import Path

import pytest
from isolane.results.folder import RunFolder
from isolane.results.parts import LAST, WHOLE
from isolane.results.results import RouterTrial

from tests.live import assert_same_host, isolane, quiet_host
from tests.test_patterns_live import assert_sound

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: parts
traffic: {{ip: {ip}, frame_size: 84, flows: 10}}
routers:
  - {{name: one, role: victim, traffic: {{mode: echo}}}}
  - {{name: two, traffic: {{mode: icmp-echo}}}}
  - {{name: three}}
  - {{name: four, role: aggressor}}
load: {{one: 2kpps, two: 2kpps, three: 2kpps, four: 2kpps}}
arms:
{arms}
trial: {{duration: 50ms, warmup: 50ms, repeats: 1, retries: 0, null_dut: false,
         capture_points: true}}
"""
PASSED = {
    "direct": ["router-in", "router-out"],
    "bridge": ["nic-in", "port-in", "router-in", "router-out", "port-out", "nic-out"],
    "macvlan": ["nic-in", "router-out", "nic-out"],
    "isolane": ["router-in", "router-out"],
}


@pytest.mark.parametrize(("ip", "paths"), [(4, ("direct", "bridge", "isolane")), (6, ("macvlan",))])
def test_the_parts_of_a_way_add_up(ip: int, paths: tuple[str, ...], tmp_path: Path) -> None:
    arms = "\n".join(f"  - {{name: {path}, path: {path}}}" for path in paths)
    file, before = tmp_path / "parts.yaml", quiet_host()
    file.write_text(TEXT.format(ip=ip, arms=arms))
    done = isolane("run", file, "--output", tmp_path / "run", "--details")
    assert done.returncode == 0, done.stderr
    assert_same_host(before)
    trials = RunFolder.open(tmp_path / "run").trials()
    for trial in trials:
        assert_sound(trial)
        if trial.purpose != "measure":
            continue
        one, two, three, four = trial.routers
        assert four.parts is None
        assert_parts(one, PASSED[trial.arm])
        assert_parts(two, PASSED[trial.arm])
        assert_parts(three, PASSED[trial.arm])
    counted = any(trial.status == "ok" and trial.purpose == "measure" for trial in trials)
    assert ("Mean time of a frame on each part of its way" in done.stdout) == counted


def assert_parts(router: RouterTrial, passed: list[str]) -> None:
    """Check which parts there are, and that they make up the whole."""
    parts = {part.part: part for part in router.parts or ()}
    if not router.received_frames:
        return
    assert set(parts) == {*passed, WHOLE, LAST}, router.path
    assert router.delay is not None
    for part in parts.values():
        assert part.frames <= router.generated_frames
    told = sum(part.mean_ns for name, part in parts.items() if name != WHOLE)
    assert told == pytest.approx(router.delay.mean_ns)
    if len({part.frames for part in parts.values()}) == 1:  # each frame passed all of them
        first = min(passed, key=list(parts).index)
        inner = sum(parts[name].mean_ns for name in passed if name != first)
        assert parts[WHOLE].mean_ns == pytest.approx(inner)
        assert parts[first].mean_ns + parts[WHOLE].mean_ns < router.delay.mean_ns

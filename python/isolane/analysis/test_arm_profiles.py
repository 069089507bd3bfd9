from __future__ import annotations

from pathlib import Path

import pytest

from isolane.analysis.arm_profiles import arm_profiles, at_last_point, stacks_at
from isolane.cpu_profile.sampled_stacks import HOST, CpuProfile, SampledStack
from isolane.errors import MeasurementError
from isolane.results.folder import PROFILES, RunFolder
from isolane.results.results import HostFacts, Trial
from isolane.results.trial_profile import TrialProfile, kept, together

FORWARD = ("entry", "ip_forward")
HOST_FACTS = HostFacts(
    kernel="6.18", cpu="a", cores=2, memory_bytes=1, versions={}, clocksource="tsc",
    hypervisor=None, mitigations="", nics=(),
)  # fmt: skip


def profile(
    samples: int, idle: int, *, trial: int = 0, frames: int = 100, busy: float | None = None
) -> TrialProfile:
    stacks = (
        SampledStack("one", 1, "napi", FORWARD, (), samples),
        SampledStack(HOST, 1, "sh", (), ("main",), 1),
    )
    found = CpuProfile(
        clock="cpu-clock", period_ns=1, duration_ns=1_000_000, cores=(1,), stacks=stacks,
        idle_samples=idle, lost_samples=0, sampling_ns=100, frames={"one": frames},
    )  # fmt: skip
    return kept(found, busy).model_copy(update={"trial": trial})


def trial(number: int, arm: str, point: int, **changes: object) -> Trial:
    values = {
        "trial": number, "arm": arm, "point": point, "point_label": f"{point}x", "repeat": 0,
        "started_unix_s": 0.0, "window_s": 0.001, "status": "ok", "reason": None,
        "conserved": True, **changes,
    }  # fmt: skip
    return Trial.model_validate(values)


def test_trials_together_have_all_samples_and_a_sample_its_part_of_the_time() -> None:
    found = together([profile(5, 4), profile(7, 2, frames=50)])
    assert {(one.owner, one.samples) for one in found.stacks} == {("one", 12), (HOST, 2)}
    assert (found.idle_samples, found.all_samples, found.frames["one"]) == (6, 20, 150)
    assert (found.duration_ns, found.period_ns, found.sampling_ns) == (2_000_000, 100_000, 200)


def test_how_busy_the_cores_were_is_measured_and_not_sampled() -> None:
    found = together([profile(9, 90, busy=0.5), profile(29, 0, busy=0.25), profile(1, 3)])
    assert (found.busy_samples, found.idle_samples) == (10 + 30 + 2, 10 + 90 + 3)
    assert together([profile(9, 0, busy=1.0)]).idle_samples == 0
    assert together([profile(9, 7, busy=0.0)]).idle_samples == 7


def test_each_arm_has_its_valid_trials_at_each_point() -> None:
    trials = [
        trial(0, "b", 0),
        trial(1, "b", 1),
        trial(2, "a", 1),
        trial(3, "a", 1, repeat=1),
        trial(4, "a", 1, repeat=2, status="no-verdict", reason="late"),
        trial(5, "a", 1, repeat=3, purpose="capacity"),
        trial(6, "a", 0),
    ]
    profiles = [profile(10 * n + 1, 5, trial=n) for n in range(6)]
    found = arm_profiles(["a", "b"], trials, profiles)
    told = [(one.arm, one.point, one.trials, one.figures.all.samples) for one in found]
    assert told == [("a", 1, 2, 21 + 31 + 2), ("b", 0, 1, 2), ("b", 1, 1, 12)]
    last = at_last_point(found)
    assert list(last) == ["a", "b"]
    assert stacks_at(last["a"], trials, profiles).busy_samples == 54
    assert arm_profiles(["a"], trials, []) == ()
    assert at_last_point(()) == {}


def test_profiles_are_kept_and_edits_are_noticed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", HOST_FACTS)
    assert folder.profiles() == []
    folder.append_profile(profile(3, 1, trial=4))
    folder.append_profile(profile(5, 1, trial=4))  # a crash came before its trial
    folder.append_profile(profile(6, 1, trial=5))
    again = RunFolder.open(tmp_path / "run")
    assert [one.stacks[0].samples for one in again.profiles()] == [5, 6]
    journal = tmp_path / "run" / PROFILES
    journal.write_text(journal.read_text().replace('"samples":6', '"samples":7'))
    with pytest.raises(MeasurementError, match=f"{PROFILES}, line 3: was changed"):
        again.profiles()

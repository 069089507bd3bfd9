"""Where the processor went, for each arm at each point: the valid trials' profiles together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from isolane.cpu_profile.category_table import figures
from isolane.cpu_profile.sampled_stacks import CpuProfile
from isolane.results.profile_models import ArmProfile
from isolane.results.results import Summary, Trial
from isolane.results.trial_profile import TrialProfile, together


def by_point(
    trials: Sequence[Trial], profiles: Sequence[TrialProfile]
) -> dict[tuple[str, int, str], list[TrialProfile]]:
    """Return the profiles of valid trials by arm, point and the point's label.

    Parameters
    ----------
    trials
        All trials of a run; the order of their arms and points is kept.
    profiles
        Of some of them.
    """
    known = {one.trial: one for one in profiles}
    found: dict[tuple[str, int, str], list[TrialProfile]] = defaultdict(list)
    for trial in sorted(trials, key=lambda one: one.point):
        if trial.status == "ok" and trial.purpose == "measure" and trial.trial in known:
            found[trial.arm, trial.point, trial.point_label].append(known[trial.trial])
    return found


def arm_profiles(
    arms: Sequence[str], trials: Sequence[Trial], profiles: Sequence[TrialProfile]
) -> tuple[ArmProfile, ...]:
    """Return what was found, in the order of the arms, then of the points."""
    found = []
    for (arm, point, label), own in by_point(trials, profiles).items():
        whole = together(own)
        if whole.all_samples:
            found.append(
                ArmProfile(
                    arm=arm,
                    point=point,
                    point_label=label,
                    trials=len(own),
                    figures=figures(whole),
                )
            )
    return tuple(sorted(found, key=lambda one: (arms.index(one.arm), one.point)))


def at_last_point(found: Sequence[ArmProfile]) -> dict[str, ArmProfile]:
    """Return each arm's profile at the last point that any arm has one of, by arm."""
    last = max((one.point for one in found), default=0)
    return {one.arm: one for one in found if one.point == last}


def stacks_at(
    one: ArmProfile, trials: Sequence[Trial], profiles: Sequence[TrialProfile]
) -> CpuProfile:
    """Return the call chains that an arm's figures at a point are made of."""
    return together(by_point(trials, profiles)[one.arm, one.point, one.point_label])


def with_profiles(
    summary: Summary, trials: Sequence[Trial], profiles: Sequence[TrialProfile]
) -> Summary:
    """Return the summary of a run with what its CPU profiles tell."""
    found = arm_profiles(summary.arms, trials, profiles)
    return summary.model_copy(update={"cpu_profiles": found}) if found else summary

"""The files of a CPU profile: call chains for other programs, and as a drawing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from isolane.analysis.arm_profiles import stacks_at
from isolane.cpu_profile.folded import folded
from isolane.cpu_profile.sampled_stacks import CpuProfile
from isolane.cpu_profile.speedscope import speedscope
from isolane.errors import OutputError
from isolane.files import write_output
from isolane.report.flame_graph import flame_graph
from isolane.results.results import Summary, Trial
from isolane.results.trial_profile import TrialProfile

FOLDER: Final = "cpu-profile"
"""In the folder of a run."""


def profile_files(profile: CpuProfile, title: str, owner: str | None = None) -> dict[str, str]:
    """Return the files of a profile.

    Parameters
    ----------
    profile
        What was found.
    title
        Heading of the drawings.
    owner
        Whose stacks are drawn; None: all. The other files have all of them.

    Returns
    -------
    dict
        End of the file's name -> what is in it.
    """
    return {
        "folded": folded(profile),
        "speedscope.json": json.dumps(speedscope(profile, title)),
        "svg": flame_graph(profile, title, owner),
    }


def write_profiles(
    run: Path, summary: Summary, trials: Sequence[Trial], profiles: Sequence[TrialProfile]
) -> Path | None:
    """Write files for each arm at each point into a run's folder.

    Returns
    -------
    Path or None
        Where they are; None where there is no profile.

    Raises
    ------
    OutputError
        If one of them cannot be written.
    """
    if not summary.cpu_profiles:
        return None
    folder = run / FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror}") from error
    for name, text in _named(summary, trials, profiles):
        write_output(folder / name, text.encode())
    return folder


def _named(
    summary: Summary, trials: Sequence[Trial], profiles: Sequence[TrialProfile]
) -> Iterator[tuple[str, str]]:
    for one in summary.cpu_profiles:
        stacks = stacks_at(one, trials, profiles)
        for end, text in profile_files(stacks, f"{one.arm}, {one.point_label}").items():
            yield f"{one.arm}-{one.point + 1}.{end}", text

"""Profiles in the file format of https://www.speedscope.app, a viewer that runs in the browser."""

from __future__ import annotations

from typing import Any, Final

from isolane import __version__
from isolane.cpu_profile.sampled_stacks import CpuProfile

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: CpuProfile, name: str) -> dict[str, Any]:
    """Return a profile for each owner; all of them share one table of functions.

    Parameters
    ----------
    profile
        Idle and lost samples are left out.
    name
        Title of the file.

    Returns
    -------
    dict
        To be written as JSON. The weight of a stack is its CPU time, ns; its outermost function is
        the thread. The weights of an owner add up to its ``endValue``.

    Notes
    -----
    The format is ``src/lib/file-format-spec.ts`` of https://github.com/jlfwong/speedscope.
    """
    numbers: dict[str, int] = {}
    profiles = []
    for owner in profile.owners():
        stacks = list(profile.of(owner))
        weights = [stack.samples * profile.period_ns for stack in stacks]
        samples = [
            [numbers.setdefault(function, len(numbers)) for function in stack.named_chain()[1:]]
            for stack in stacks
        ]
        profiles.append(
            {
                "type": "sampled",
                "name": owner,
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        )
    return {
        "$schema": SCHEMA,
        "exporter": f"isolane {__version__}",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": function} for function in numbers]},
        "profiles": profiles,
    }

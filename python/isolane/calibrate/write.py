"""Writes a fitted profile: the start's file with new costs, its comments kept."""

from __future__ import annotations

import io
from pathlib import Path
from textwrap import fill

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq
from ruamel.yaml.scalarstring import LiteralScalarString

from isolane.calibrate.fit import Fit
from isolane.calibrate.identify import Identification
from isolane.calibrate.problem import Problem
from isolane.trials.sim.catalogue import profile_file

WIDTH = 106
"""Width of the lines of `source`."""
LONGEST = 4096
"""Width of lines: long enough to leave the lines of the start's file as they are."""


def profile_text(
    problem: Problem,
    start: str | Path,
    fit: Fit,
    name: str,
    error: str = "",
    found: Identification | None = None,
) -> str:
    """Return the text of the fitted profile.

    Parameters
    ----------
    problem
        The problem that was solved.
    start
        Name or file of the profile that the fit started from.
    fit
        The fit.
    name
        Name of the new profile.
    error
        Its errors on figures that it was not fitted to, if they are known.
    found
        What the figures say of each cost, if it was asked for.
    """
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = LONGEST
    data = yaml.load(profile_file(start).read_text(encoding="utf-8"))
    data["name"] = name
    data["source"] = LiteralScalarString(fill(_source(problem, fit, found), WIDTH) + "\n")
    if error:
        data["error"] = error
    elif any(problem.profile.figure(key) != value for key, value in fit.values.items()):
        data.pop("error", None)  # that of the start says nothing about this one
    for key, value in fit.values.items():
        *parents, last = key.split(".")
        here = data
        for word in parents:
            here = here[word]
        here[last] = int(value) if value == int(value) else value
    for key in fit.values:
        data["fitted"][key].pop("interval", None)  # that of the start
    for one in found.intervals if found else ():
        ends = CommentedSeq([one.low, one.high])
        ends.fa.set_flow_style()
        data["fitted"][one.key]["interval"] = ends
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()


def _source(problem: Problem, fit: Fit, found: Identification | None) -> str:
    command = f"`{problem.command} {fit.how}`" if problem.command else "isolane calibrate"
    start = {
        "profile": f"at the figures of profile {problem.profile.name}",
        "middle": "in the middle of the limits",
        "limits": "where `fitted` says (default: in the middle of the limits)",
    }[problem.start]
    informative = (
        f" Over the {sum(found.informative)} figures that respond to a cost: mean "
        f"{100 * found.mean(fit.errors):.1f} %."
        if found
        else ""
    )
    return (
        f"Fitted by {command} to {problem.what} ({len(problem.targets)} figures, "
        f"{len(problem.free)} costs): mean absolute error {100 * fit.mean:.1f} %, largest "
        f"{100 * fit.largest:.1f} %.{informative} Started {start}. What is not listed under "
        "`fitted` was set beforehand, for the reasons given with it."
    )

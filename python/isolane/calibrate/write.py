"""A fitted profile as a file: that of the start with other figures, its comments kept."""

from __future__ import annotations

import io
from pathlib import Path

from ruamel.yaml import YAML

from isolane.calibrate.fit import Fit
from isolane.calibrate.problem import Problem
from isolane.run.sim.catalogue import profile_file


def profile_text(problem: Problem, start: str | Path, fit: Fit, name: str) -> str:
    """Return the text of the fitted profile.

    Parameters
    ----------
    problem
        What was fitted to what.
    start
        Name or file of the profile that the fit started from.
    fit
        The fit.
    name
        Name of the new profile.
    """
    yaml = YAML(typ="rt")
    yaml.width = 110
    data = yaml.load(profile_file(start).read_text(encoding="utf-8"))
    data["name"] = name
    data["source"] = (
        f"Fitted by isolane calibrate to {problem.what} ({len(problem.targets)} figures, "
        f"{len(problem.free)} costs): mean absolute error {100 * fit.mean:.1f} %, largest "
        f"{100 * fit.largest:.1f} %. Started from profile {problem.profile.name}."
    )
    for key, value in fit.values.items():
        *way, last = key.split(".")
        here = data
        for word in way:
            here = here[word]
        here[last] = int(value) if value == int(value) else value
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()

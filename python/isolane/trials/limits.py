"""Limits that are known before a run; a load above one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from isolane.spec import Experiment, format_bps
from isolane.spec.consequences import Line, beyond
from isolane.spec.hostmodel import ProfileData
from isolane.spec.loader import refuse

if TYPE_CHECKING:
    from isolane.results.results import Capacity


def refuse_beyond(
    source: Path,
    experiment: Experiment,
    capacity: Capacity | None = None,
    profile: ProfileData | None = None,
) -> None:
    """Refuse loads that are known to be more than the line carries.

    Parameters
    ----------
    source
        The experiment file, for the message.
    experiment
        What is to be run.
    capacity
        What 1x is, where it is given: loads in x are then known, too.
    profile
        The profile of a simulated host, whose NICs may have a rate.

    Raises
    ------
    SpecError
        Naming file, line, key, load and limit.
    """
    capacity_pps = capacity.pps.median if capacity else None
    for line in _lines(experiment, profile, capacity_pps):
        refuse(source, list(beyond(experiment, line)))


def _lines(
    experiment: Experiment, profile: ProfileData | None, capacity_pps: float | None
) -> Iterator[Line]:
    rate = profile.host.line_rate if profile else None
    if profile is not None and rate is not None:
        of = f"the {format_bps(rate)} line of profile {profile.name} (another: --profile)"
        yield Line(rate, of, capacity_pps)
    own = experiment.traffic.line_rate_bps
    yield Line(own, f"a line of {format_bps(own)} (traffic.line_rate)", capacity_pps)

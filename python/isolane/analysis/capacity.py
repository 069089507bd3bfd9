"""`--capacity-from`: 1x is another run's capacity or an absolute rate."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from isolane.analysis.capacities import measured_capacity
from isolane.errors import MeasurementError, SpecError
from isolane.results.folder import OPTIONS, RunFolder
from isolane.results.results import Capacity, Interval
from isolane.results.search_results import SearchSummary
from isolane.spec import Experiment, parse_rate

OPTION = "--capacity-from"
KEPT = "capacity"
"""Key of the options of a run folder: the capacity as JSON."""
ACCEPTED = "the folder of a run that measured its capacity, or a rate such as 720kpps"


def given_capacity(text: str, experiment: Experiment) -> Capacity:
    """Return the capacity that 1x stands for.

    Parameters
    ----------
    text
        A run folder, whose capacity is taken, or a rate.
    experiment
        Its loads in x are multiples of this.

    Raises
    ------
    SpecError
        If it is neither, or the run has no capacity.
    """
    if experiment.web:
        raise SpecError("--capacity-from: web requests (mode http) have no capacity; leave it out")
    if Path(text).is_dir():
        return _of_folder(Path(text), experiment)
    try:
        rate = parse_rate(text)
    except SpecError as error:
        raise SpecError(f"{OPTION} {text}: {error}; or the folder of a run") from None
    if rate.unit == "x" or rate.value <= 0:
        raise SpecError(f"{OPTION} {text}: cannot be 1x; accepted: {ACCEPTED}")
    reference = experiment.capacity_reference()
    frame_bytes = experiment.traffic_of(reference.router).mean_frame_bytes
    pps = rate.to_pps(None, frame_bytes)
    return Capacity(
        arm=reference.arm.name,
        router=experiment.router(reference.router).name,
        pps=Interval(median=pps, low=pps, high=pps, n=1),
        source=text,
    )


def _of_folder(path: Path, experiment: Experiment) -> Capacity:
    folder = RunFolder.open(path)
    search, summary = folder.search(), folder.summary()
    if search is not None:
        found = _of_search(search, experiment)
    elif summary is not None:
        found = summary.capacity
    else:
        found = measured_capacity(folder.trials())
    if found is None:
        raise SpecError(f"{OPTION} {path}: this run has no capacity; accepted: {ACCEPTED}")
    return found.model_copy(update={"source": str(path)})


def _of_search(search: SearchSummary, experiment: Experiment) -> Capacity | None:
    """Return the MFR of the arm and router that define 1x; None without one that is no bound."""
    reference = experiment.capacity_reference()
    group = experiment.router(reference.router).name
    return next(
        (
            Capacity(arm=one.arm, router=group, pps=rate.interval)
            for one in search.searched
            if one.arm == reference.arm.name and not one.together
            if one.routers[0] in experiment.router(group).member_names()
            for rate in one.rates
            if rate.name == "MFR" and rate.status == "found" and rate.interval is not None
        ),
        None,
    )


def kept_capacity(folder: RunFolder) -> Capacity | None:
    """Return the capacity that a run was given when it began; None if it measures its own."""
    text = folder.options().get(KEPT)
    if text is None:
        return None
    try:
        return Capacity.model_validate_json(str(text))
    except ValidationError as error:
        raise MeasurementError(f"{folder.path / OPTIONS}: {KEPT}: holds no capacity") from error

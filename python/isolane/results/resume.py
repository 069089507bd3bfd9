"""The settings that a run's trials depend on, and whether a run may be continued with them."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from isolane import __version__
from isolane.errors import SpecError
from isolane.results.folder import EXPERIMENT, SEARCH, RunFolder
from isolane.results.method import METHOD
from isolane.results.results import HostFacts
from isolane.spec import Experiment, load_experiment

HOST_KEYS = ("kernel", "cpu", "cores", "clocksource", "hypervisor", "mitigations", "simulated")
"""Facts about the host that all trials of a run share."""
OF_HOST = ("host.", "profile.", "path.")
"""How the settings that describe the host begin, a real one or a simulated one."""
LONGEST = 80
"""Characters of a value in a message."""
MAX_NAMED = 20
"""Differences that a message lists."""


def settings_of(
    experiment: Experiment,
    host: HostFacts,
    options: Mapping[str, str],
    simulated: Mapping[str, BaseModel],
) -> dict[str, str]:
    """Return everything that trials depend on, as dotted keys with their values.

    Parameters
    ----------
    experiment
        The experiment as the file has it.
    host
        The host that the trials are made on.
    options
        Options of the command line, by name.
    simulated
        The profile and paths of a simulated host, by name; empty for a real one.
    """
    found = experiment_settings(experiment) | _files(experiment)
    found |= {f"host.{key}": str(getattr(host, key)) for key in HOST_KEYS}
    found |= options
    for name, data in simulated.items():
        found |= dict(_flat(name, _dumped(data)))
    return found


def _files(experiment: Experiment) -> dict[str, str]:
    """Return what is in the files that load balancers are configured by, in short."""
    names = {router.haproxy for arm in experiment.resolved_arms() for router in arm.routers}
    found = {}
    for name in sorted(filter(None, names)):
        with suppress(OSError):  # a run that needs it says so
            found[f"haproxy.{name}"] = hashlib.sha256(Path(name).read_bytes()).hexdigest()
    return found


def _dumped(data: BaseModel) -> dict[str, object]:
    # Without warnings: pydantic takes a list that it has made of a tuple for a wrong value.
    return data.model_dump(mode="json", by_alias=True, exclude_none=True, warnings=False)


def experiment_settings(experiment: Experiment) -> dict[str, str]:
    """Return the keys of an experiment with their values, such as ``load.victim: 20kpps``."""
    return dict(_flat("", _dumped(experiment)))


def _flat(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}" if key else str(name), inner)
    elif isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            name = item.get("name", number) if isinstance(item, dict) else number
            yield from _flat(f"{key}.{name}", item)
        names = [item.get("name") for item in value if isinstance(item, dict)]
        yield key, ", ".join(str(name) for name in names if name is not None)
    elif isinstance(value, list | tuple):
        yield key, f"[{', '.join(str(item) for item in value)}]"
    else:
        yield key, str(value)


def refuse_changes(
    folder: RunFolder, settings: Mapping[str, str], repeats: int, invocations: int = 1
) -> None:
    """Raise unless a run may be continued with these settings and so many rounds.

    Parameters
    ----------
    folder
        The run folder.
    settings
        All that the trials now depend on.
    repeats, invocations
        Rounds of each invocation, and invocations.

    Raises
    ------
    SpecError
        If a setting or the version differs (each is named), or the folder does not say what its
        trials were made with.
    MeasurementError
        If a file of the folder was edited.
    """
    refuse_search(folder)
    again = f"start anew: isolane run {shlex.quote(str(folder.path / EXPERIMENT))}"
    began = folder.record.began()
    if began is None:
        raise SpecError(
            f"{folder.path}: cannot be continued: it has no record of the settings that its trials "
            f"were made with (an older version of Isolane made it); `isolane report` still shows "
            f"it; {again}"
        )
    changes = [*_version(began.version), *_method(began.method)]
    changes += _changes(began.settings, settings)
    if changes:
        raise SpecError(_refusal(folder, changes, again))
    folder.options()
    folder.host()
    folder.summary()
    folder.series()
    folder.profiles()
    _refuse_rounds(folder, repeats, invocations)


def _refuse_rounds(folder: RunFolder, repeats: int, invocations: int) -> None:
    """Raise SpecError if a round that was made would have no place, or another invocation."""
    made = {t.repeat: t.invocation for t in folder.trials() if t.purpose == "measure"}
    rounds = 1 + max(made, default=-1)
    if any(repeat // repeats != invocation for repeat, invocation in made.items()) and (
        invocations > 1 or max(made.values()) > 0
    ):
        before = folder.options().get("repeats", repeats)
        raise SpecError(
            f"--repeats {repeats}: the trials in {folder.path} are of invocations of {before} "
            f"rounds each; accepted: {before}"
        )
    if max(made.values(), default=0) >= invocations:
        count = 1 + max(made.values())
        raise SpecError(
            f"--invocations {invocations}: the trials in {folder.path} are of {count} "
            f"invocations; accepted: {count} and more"
        )
    if repeats * invocations < rounds:
        raise SpecError(
            f"--repeats {repeats}: the trials in {folder.path} are of {rounds} rounds; "
            f"accepted: {rounds} and more"
        )


def refuse_search(folder: RunFolder) -> None:
    """Raise SpecError if the folder is that of a search, which is neither resumed nor rendered."""
    if folder.search() is not None:
        raise SpecError(
            f"{folder.path}: this is the folder of a search, not of a run; its results are in "
            f"{folder.path / SEARCH}"
        )


def refuse_other_experiment(folder: RunFolder) -> None:
    """Raise SpecError if the folder's experiment is no longer the one that was run."""
    began = folder.record.began()
    if began is None or folder.record.same_file(EXPERIMENT, folder.experiment_text()):
        return
    now = experiment_settings(load_experiment(folder.path / EXPERIMENT))
    then = {key: value for key, value in began.settings.items() if not _beside(key)}
    changes = list(_changes(then, now))
    if changes:
        raise SpecError(_refusal(folder, changes, "put the original experiment.yaml back"))


def _refusal(folder: RunFolder, changes: list[str], what_to_do: str) -> str:
    more = len(changes) - MAX_NAMED
    shown = [*changes[:MAX_NAMED], f"and {more} more"] if more > 0 else changes
    lines = "\n  ".join(shown)
    return (
        f"{folder.path}: the trials there were made with other settings:\n  {lines}\n{what_to_do}"
    )


def _beside(key: str) -> bool:
    """Tell whether a setting is not one of the experiment's."""
    return key.startswith((*OF_HOST, "--"))


def _version(then: str) -> Iterator[str]:
    if then != __version__:
        yield f"version of Isolane: {then} in the folder's trials, {__version__} now"


def _method(then: int) -> Iterator[str]:
    if then != METHOD:
        yield f"version of the method: {then} in the folder's trials, {METHOD} now"


def _changes(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    changed = [key for key in dict.fromkeys([*then, *now]) if then.get(key) != now.get(key)]
    # For another host its name is enough; its figures would only hide the other changes.
    whole = next((key for key in ("--on", "profile.name") if key in changed), None)
    for key in changed:
        before, after = then.get(key, "nothing"), now.get(key, "nothing")
        if whole is None or key == whole or not key.startswith(OF_HOST):
            yield f"{key}: {_short(before)} in the folder's trials, {_short(after)} now"


def _short(value: str) -> str:
    text = " ".join(value.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."

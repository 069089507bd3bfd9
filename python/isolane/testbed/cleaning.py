"""Removes what runs that died have left on this host."""

from __future__ import annotations

import functools
from pathlib import Path

from isolane import netback
from isolane.errors import TestbedError
from isolane.guests import remove_left
from isolane.testbed import netns
from isolane.testbed.journal import RUN_DIR, entries_of, left_behind
from isolane.testbed.namespace_thread import run_in_thread


def clean(directory: Path = RUN_DIR) -> list[str]:
    """Remove what dead runs have left behind, and wait until it is gone.

    The caller holds the lock (:func:`isolane.testbed.journal.exclusive`). What cannot be removed
    keeps nothing else from being removed, and stays in its journal for the next time.

    Returns
    -------
    list of str
        What was removed, for the user; empty when there was nothing.

    Raises
    ------
    TestbedError
        Naming what dead runs made that cannot be removed, and what was.
    """
    removed: list[str] = []
    problems: list[str] = []
    for path, run in left_behind(directory):
        try:
            gone, stuck = _clean_one(path, run)
        except OSError as error:
            gone, stuck = [], [f"{path}: {error.strerror}"]
        removed += gone
        problems += stuck
    if problems:
        also = f" (removed: {', '.join(removed)})" if removed else ""
        raise TestbedError(f"not everything could be removed: {'; '.join(problems)}{also}")
    return removed


def _clean_one(path: Path, run: str) -> tuple[list[str], list[str]]:
    """Remove what one journal names; return what went, and what refused to."""
    try:
        entries = entries_of(path)
    except FileNotFoundError:
        return [], []
    guests = [str(entry.get("name")) for entry in entries if entry["what"] == "guest"]
    names = [str(entry.get("name")) for entry in entries if entry["what"] == "netns"]
    back_ends = [str(entry.get("name")) for entry in entries if entry["what"] == "netback"]
    ended, living = _end_guests(guests)
    for name in back_ends:
        try:
            ended += [f"network back-end {name}"] if netback.remove_left(name) else []
        except TestbedError as error:
            living.append(str(error))
    gone, stuck = run_in_thread(functools.partial(netns.remove_marked, names, run))
    stuck += living
    if not stuck:
        netns.drop_directory({entry["what"] for entry in entries})
        path.unlink(missing_ok=True)
    return [*ended, *(f"network namespace {name}" for name in gone)], stuck


def _end_guests(names: list[str]) -> tuple[list[str], list[str]]:
    """Return which guests there were, as the user is told, and what refused to go."""
    gone, stuck = [], []
    for name in names:
        try:
            if remove_left(name):
                gone.append(f"guest {name}")
        except TestbedError as error:
            stuck.append(str(error))
    return gone, stuck

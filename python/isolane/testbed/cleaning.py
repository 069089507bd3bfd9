"""Removes what runs that died have left on this host."""

from __future__ import annotations

import functools
from pathlib import Path

from isolane.testbed import netns
from isolane.testbed.hands import apart
from isolane.testbed.journal import RUN_DIR, left_behind


def clean(directory: Path = RUN_DIR) -> list[str]:
    """Remove what dead runs have left behind.

    The caller holds the lock (:func:`isolane.testbed.journal.exclusive`).

    Returns
    -------
    list of str
        What was removed, for the user; empty when there was nothing.

    Raises
    ------
    TestbedError
        When something that a dead run made cannot be removed.
    """
    removed: list[str] = []
    for path, run, entries in left_behind(directory):
        names = [entry["name"] for entry in entries if entry["what"] == "netns"]
        gone = apart(functools.partial(netns.remove_marked, names, run))
        removed += [f"network namespace {name}" for name in gone]
        netns.drop_directory({entry["what"] for entry in entries})
        path.unlink()
    return removed

"""The one thing that looking for a router raises."""

from __future__ import annotations


class Absent(Exception):  # noqa: N818 - no error: a router that is not running waits for its return
    """The router is not there; ``str`` is the sentence for the user: what was looked for, where."""

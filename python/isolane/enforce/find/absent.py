"""The exception of a router that cannot be found."""

from __future__ import annotations


class Absent(Exception):  # noqa: N818 - policies wait
    """The router was not found; ``str`` is the sentence for the user: what is missing where."""

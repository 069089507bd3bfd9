"""Text with names that others have chosen, as it may go to a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape control characters in names and values, so that the terminal does not obey them.

    A name that is no UTF-8 can be printed then, too.
    """
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )

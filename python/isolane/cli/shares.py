"""Shares on the command line."""

from __future__ import annotations


def read_share(option: str, text: str) -> float:
    """Return a share, 0 to 1, of an option's value such as ``0.5`` or ``50%``.

    Raises
    ------
    SpecError
        If it is none; the option is named.
    """
    from isolane.errors import SpecError

    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:  # NaN, too
        raise SpecError(f"{option} {text}: is not a share; accepted: 0 to 1, or 0% to 100%")
    return value

"""Files that ship with the package: systemd units and a Grafana dashboard."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

_HERE: Final = files("isolane.export")


def dashboard() -> str:
    """Return the Grafana dashboard, JSON."""
    return _HERE.joinpath("dashboard.json").read_text(encoding="utf-8")


def unit_files(executable: str | None = None) -> dict[str, str]:
    """Return the systemd units by file name.

    Parameters
    ----------
    executable
        Absolute path of the ``isolane`` that the units start; None: systemd searches its folders
        for it (``/usr/local/bin``, ``/usr/bin``).
    """
    units = {}
    for entry in _HERE.joinpath("systemd").iterdir():
        if entry.name.endswith(".service"):
            text = entry.read_text(encoding="utf-8")
            units[entry.name] = text if executable is None else _started_by(executable, text)
    return dict(sorted(units.items()))


def _started_by(executable: str, unit: str) -> str:
    word = executable.replace("%", "%%")
    if re.search(r"[^A-Za-z0-9%/._+-]", executable):
        word = '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'
    return re.sub(r"(?m)^(Exec\w+=)isolane(?= )", lambda match: match[1] + word, unit)

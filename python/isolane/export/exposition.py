"""Writes metrics as text: OpenMetrics 1.0, and the older Prometheus format for textfiles.

OpenMetrics names a counter without ``_total``, has units and infos, and ends with the line
``# EOF``; node_exporter's textfile collector reads only the older format.
Sources: OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec/), Prometheus text
format 0.0.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from isolane.export.metrics import Family, Labels

Format = Literal["openmetrics", "text"]

CONTENT_TYPES: Final[dict[Format, str]] = {
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
    "text": "text/plain; version=0.0.4; charset=utf-8",
}
_ENDINGS: Final = {"counter": "_total", "info": "_info", "gauge": ""}


def exposition(families: Iterable[Family], form: Format = "openmetrics") -> str:
    """Return the metrics as text."""
    lines: list[str] = []
    for family in families:
        full = family.name + _ENDINGS[family.kind]
        if form == "openmetrics":
            lines.append(f"# TYPE {family.name} {family.kind}")
            if family.unit:
                lines.append(f"# UNIT {family.name} {family.unit}")
            lines.append(f"# HELP {family.name} {_escaped(family.about)}")
        else:
            kind = "gauge" if family.kind == "info" else family.kind
            about = family.about.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {full} {about}", f"# TYPE {full} {kind}"]
        lines += [f"{full}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    if form == "openmetrics":
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)

"""Colours, shapes and dashes, for light and dark, on screen and on paper.

Series differ in colour, shape and dash at once, so that neither colour vision nor a colour
printer is needed to tell them apart. The hues are those of Okabe and Ito (2008), darkened or
lightened until each has a contrast of at least 3 : 1 with its background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Mode = Literal["light", "dark"]
PaletteName = Literal["series", "states", "drops", "categories"]

FONT = "system-ui, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', Helvetica, Arial, sans-serif"
PAPER_FONT = "Liberation Sans, Arial, sans-serif"  # what the renderer of PNG and PDF brings along

SHAPES = ("circle", "square", "diamond", "triangle-up", "cross", "triangle-down")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 2), (12, 3))

_SERIES = ("#0a6cb0", "#c2500a", "#00805c", "#a8477f", "#7a6300", "#4b53b8", "#5c6570", "#96341f")
_SERIES_DARK = (
    "#58b4f0",
    "#ff9a52",
    "#33cc9f",
    "#ec9fcb",
    "#dcc04a",
    "#a5abff",
    "#b4bdc7",
    "#ff8f7a",
)
_STATES = ("#a8477f", "#e0a11b", "#0a6cb0", "#d9dee4")  # user, system, softirq, idle
_STATES_DARK = ("#ec9fcb", "#e9b949", "#3f9fe0", "#2f363f")
_DROPS = ("#5c6570", "#0a6cb0", "#d9730d", "#00805c", "#7a6300", "#a8477f", "#4b53b8", "#1d1f23")
_DROPS_DARK = (
    "#8d97a3",
    "#58b4f0",
    "#ff9a52",
    "#33cc9f",
    "#dcc04a",
    "#ec9fcb",
    "#a5abff",
    "#f0f2f5",
)
# What CPU time was for: eight hues of the series, and four more; grey is what nobody knows.
_CATEGORIES = (
    *("#0a6cb0", "#00805c", "#7a6300", "#a8477f", "#c2500a", "#4b53b8", "#0f7d8c", "#96341f"),
    *("#6b3fa0", "#4d7a1f", "#8a5a3c", "#5c6570"),
)
_CATEGORIES_DARK = (
    *("#58b4f0", "#33cc9f", "#dcc04a", "#ec9fcb", "#ff9a52", "#a5abff", "#55d3e0", "#ff8f7a"),
    *("#c9a2f5", "#a9d36a", "#d3a98c", "#b4bdc7"),
)


@dataclass(frozen=True)
class Colours:
    """All colours of one mode, by the names of the CSS variables that carry them."""

    page: str
    card: str
    ink: str
    muted: str
    line: str
    soft: str
    good: str
    bad: str
    neutral: str
    series: Sequence[str]
    states: Sequence[str]
    drops: Sequence[str]
    categories: Sequence[str]

    def palette(self, name: PaletteName) -> Sequence[str]:
        """Return the colours of a kind of series."""
        return {
            "series": self.series,
            "states": self.states,
            "drops": self.drops,
            "categories": self.categories,
        }[name]

    def variables(self) -> dict[str, str]:
        """Return the CSS variables."""
        plain = ("page", "card", "ink", "muted", "line", "soft", "good", "bad", "neutral")
        found = {name: str(getattr(self, name)) for name in plain}
        for name in get_args(PaletteName):
            found |= {f"{name}-{i}": colour for i, colour in enumerate(getattr(self, name))}
        return found


LIGHT = Colours(
    page="#f6f7f9",
    card="#ffffff",
    ink="#1b2027",
    muted="#5a6470",
    line="#d8dde3",
    soft="#eef1f4",
    good="#00734f",
    bad="#b3350c",
    neutral="#0a5f9c",
    series=_SERIES,
    states=_STATES,
    drops=_DROPS,
    categories=_CATEGORIES,
)
DARK = Colours(
    page="#12151a",
    card="#1a1f26",
    ink="#e8ebef",
    muted="#a3adb8",
    line="#333b45",
    soft="#232a33",
    good="#45d3a6",
    bad="#ff9470",
    neutral="#6fbef5",
    series=_SERIES_DARK,
    states=_STATES_DARK,
    drops=_DROPS_DARK,
    categories=_CATEGORIES_DARK,
)
MODES: Mapping[Mode, Colours] = {"light": LIGHT, "dark": DARK}


def css_colours() -> Colours:
    """Return colours that are references to the CSS variables, for drawings inside the page."""
    variables = {name: f"var(--{name})" for name in LIGHT.variables()}
    lists = {
        kind: tuple(value for name, value in variables.items() if name.startswith(f"{kind}-"))
        for kind in get_args(PaletteName)
    }
    plain = {name: value for name, value in variables.items() if "-" not in name}
    return Colours(**plain, **lists)  # type: ignore[arg-type]  # each name is one of the fields


def vega_config(colours: Colours, font: str = FONT) -> dict[str, Any]:
    """Return the Vega configuration of a mode, without the palette of a plot's series."""
    text = {"labelFont": font, "titleFont": font, "labelColor": colours.muted}
    return {
        "background": None,
        "font": font,
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": 500,
            "titleColor": colours.muted,
            "gridColor": colours.line,
            "gridOpacity": 0.7,
            "domainColor": colours.muted,
            "tickColor": colours.muted,
            "titlePadding": 8,
        },
        "axisX": {"grid": False},
        "axisY": {"domain": False, "ticks": False, "labelPadding": 6},
        "rule": {"color": colours.muted},
        "tick": {"color": colours.ink},
        "text": {"color": colours.muted, "font": font},
        "range": {"symbol": list(SHAPES)},
    }

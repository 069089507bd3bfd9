"""The symbols of a legend."""

from __future__ import annotations

from isolane.report.chart import Swatch
from isolane.report.theme import DASHES, Colours

WIDTH, HEIGHT = 30, 14

_SHAPES = (
    '<circle cx="15" cy="7" r="4.2"/>',
    '<rect x="11" y="3" width="8" height="8"/>',
    '<path d="M15,1.5 L20,7 L15,12.5 L10,7 z"/>',
    '<path d="M15,2 L20,11 L10,11 z"/>',
    '<path d="M13.3,2 h3.4 v3.3 h3.3 v3.4 h-3.3 v3.3 h-3.4 v-3.3 h-3.3 v-3.4 h3.3 z"/>',
    '<path d="M15,12 L20,3 L10,3 z"/>',
)


def picture(swatch: Swatch, colours: Colours) -> str:
    """Draw what a series looks like in its plot, as the inside of an SVG of `WIDTH` x `HEIGHT`."""
    tint = colours.palette(swatch.palette)[
        swatch.index % 8 if swatch.palette == "series" else swatch.index
    ]
    if swatch.mark == "bar":
        return (
            f'<rect x="8" y="0" width="14" height="14" rx="2" fill="{tint}" '
            f'stroke="{colours.line}"/>'
        )
    if swatch.mark == "tick":
        return f'<rect x="5" y="5.5" width="20" height="3" fill="{colours.ink}"/>'
    if swatch.mark == "gap":
        return f'<path d="M10,2 L20,12 M20,2 L10,12" stroke="{colours.ink}" stroke-width="2.5"/>'
    if swatch.mark == "published":
        return (
            f'<line x1="0" y1="7" x2="30" y2="7" stroke="{colours.muted}" stroke-dasharray="1 3"/>'
            f'<circle cx="15" cy="7" r="4.6" fill="{colours.card}" stroke="{colours.muted}" '
            'stroke-width="2"/>'
        )
    dashes = " ".join(str(length) for length in DASHES[swatch.index % 6])
    dashed = "" if swatch.index % 6 == 0 else f' stroke-dasharray="{dashes}"'
    return (
        f'<line x1="0" y1="7" x2="30" y2="7" stroke="{tint}" stroke-width="2"{dashed}/>'
        f'<g fill="{tint}">{_SHAPES[swatch.index % 6]}</g>'
    )

"""A flame graph as one SVG that needs nothing else: call chains, as wide as their CPU time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from isolane.cpu_profile.categories import Category, CategoryTable, shipped_table
from isolane.cpu_profile.flame_tree import FlameNode, flame_tree
from isolane.cpu_profile.sampled_stacks import CpuProfile
from isolane.report.theme import FONT, LIGHT, Colours

WIDTH: Final = 1200.0
"""Of the drawn area, pixels."""
ROW: Final = 17
"""Height of a box with the gap above it, pixels."""
LETTER: Final = 6.8
"""Width of a letter of 12 pixels, on average, rounded up: what is clipped by it stays inside."""
MIN_SHARE: Final = 0.001
"""Boxes that are narrower than this part of the whole are left out: they are 1.2 pixels wide."""
ENTRY: Final = 200
"""Width of an entry of the legend, pixels."""
_TITLE, _SWATCH = 30, 18


@dataclass(frozen=True)
class FlameBox:
    """One box: a function in one call chain."""

    name: str
    category: Category | None
    depth: int
    """0: the root."""
    first: int
    """Samples to the left of it."""
    samples: int


@dataclass(frozen=True)
class FlameLayout:
    """The boxes of a flame graph, and what was left out."""

    boxes: tuple[FlameBox, ...]
    samples: int
    narrow: int
    """Boxes that are left out for being too narrow; those above them are not counted."""
    narrow_samples: int
    """Samples in them."""


def lay_out_flames(root: FlameNode, min_share: float = MIN_SHARE) -> FlameLayout:
    """Give each function of a tree its position; what a function called is above it."""
    boxes, waiting = [], [(root, 0, 0)]
    narrow = narrow_samples = 0
    while waiting:  # not by recursion: chains have up to 254 functions
        node, depth, first = waiting.pop()
        boxes.append(FlameBox(node.name, node.category, depth, first, node.samples))
        for child in node.sorted_children():
            if child.samples < min_share * root.samples:
                narrow += 1
                narrow_samples += child.samples
            else:
                waiting.append((child, depth + 1, first))
            first += child.samples
    return FlameLayout(tuple(boxes), root.samples, narrow, narrow_samples)


def flame_graph(
    profile: CpuProfile,
    title: str,
    owner: str | None = None,
    colours: Colours = LIGHT,
    table: CategoryTable | None = None,
) -> str:
    """Draw the stacks of one owner, or of all.

    Parameters
    ----------
    profile
        Idle and lost samples are left out.
    title
        Heading. Text in it, and names of functions, are escaped.
    owner
        A router's name or ``host``; None: all.
    colours
        Of a mode, or references to the CSS variables of the page that the drawing is put in.
    table
        Categories, which give boxes their colours; by default the table that ships.

    Returns
    -------
    str
        An ``<svg>`` element, which is a whole file, too: no script, no font, no link. Each box
        has a ``<title>``, which browsers show as a tooltip.
    """
    found = lay_out_flames(flame_tree(profile, table or shipped_table(), owner))
    rows = 1 + max(box.depth for box in found.boxes)
    bottom = _TITLE + rows * ROW
    used = [one for one in Category if any(box.category is one for box in found.boxes)]
    lines = -(-len(used) * ENTRY // int(WIDTH))
    height = bottom + 24 + lines * _SWATCH + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height}" '
        f'width="{WIDTH:.0f}" height="{height}" font-family="{escape(FONT)}" font-size="12" '
        f'role="img" aria-label="{_xml(title)}">'
    )
    parts = [
        head,
        f'<rect class="ground" width="{WIDTH:.0f}" height="{height}" fill="{colours.card}"/>',
        _text(4, 19, title, colours.ink, ' font-size="14" font-weight="600"'),
        *(_box(box, found.samples, bottom, profile.period_ns, colours) for box in found.boxes),
        _text(4, bottom + 16, _note(found, profile.period_ns), colours.muted),
        *_legend(used, bottom + 24, colours),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _note(found: FlameLayout, period_ns: int) -> str:
    whole = f"{found.samples:,} samples, {found.samples * period_ns / 1e6:,.0f} ms of CPU time"
    if not found.narrow:
        return f"{whole}; every box is drawn"
    boxes = "1 box" if found.narrow == 1 else f"{found.narrow:,} boxes"
    return (
        f"{whole}; left out: {boxes} of less than {100 * MIN_SHARE:g} % each, with "
        f"{_percent(found.narrow_samples, found.samples)} of the samples"
    )


def _box(box: FlameBox, samples: int, bottom: int, period_ns: int, colours: Colours) -> str:
    scale = WIDTH / samples if samples else 0.0
    x, width = box.first * scale, box.samples * scale if samples else WIDTH
    y = bottom - (box.depth + 1) * ROW
    fill = colours.soft if box.category is None else _colour(box.category, colours)
    # Pale, so that text in the page's own colour can be read on it in both modes.
    opacity = "" if box.category is None else ' fill-opacity="0.4"'
    told = (
        f"{box.name}{f' ({box.category})' if box.category else ''}: "
        f"{_percent(box.samples, samples)}, {box.samples:,} samples, "
        f"{box.samples * period_ns / 1e6:,.1f} ms"
    )
    clipped = _clip(box.name, width)
    text = _text(x + 3, y + 12, clipped, colours.ink) if clipped else ""
    return (
        f'<g><title>{_xml(told)}</title><rect class="box" x="{x:.3f}" y="{y}" '
        f'width="{width:.3f}" height="{ROW - 1}" rx="1" fill="{fill}"{opacity} '
        f'stroke="{colours.card}" stroke-width="0.5"/>{text}</g>'
    )


def _clip(name: str, width: float) -> str:
    """Cut off what a box has no space for; nothing where not even three letters fit."""
    letters = int((width - 6) / LETTER)
    if letters < 3:
        return ""
    return name if len(name) <= letters else f"{name[: letters - 2]}.."


def _legend(used: Sequence[Category], top: int, colours: Colours) -> Iterator[str]:
    in_line = int(WIDTH) // ENTRY
    for index, category in enumerate(used):
        x, y = 4 + index % in_line * ENTRY, top + index // in_line * _SWATCH
        yield (
            f'<rect x="{x}" y="{y + 2}" width="12" height="12" rx="2" fill-opacity="0.4" '
            f'fill="{_colour(category, colours)}"/>'
        )
        yield _text(x + 18, y + 12, category.value, colours.ink)


def _colour(category: Category, colours: Colours) -> str:
    return colours.categories[list(Category).index(category)]


def _text(x: float, y: float, text: str, colour: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{colour}"{extra}>{_xml(text)}</text>'


def _xml(text: str) -> str:
    """Escape a text; what XML cannot hold at all, such as control characters, becomes ``?``."""
    held = (char if char.isprintable() else "?" for char in text)
    return escape("".join(held))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "0 %"

"""What every page needs: the template environment, styles, and what plots are drawn from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, get_args

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from isolane import __version__
from isolane.report.chart import Figure, Swatch
from isolane.report.swatch import HEIGHT, WIDTH, picture
from isolane.report.tables import Value
from isolane.report.theme import MODES, Colours, PaletteName, css_colours, vega_config
from isolane.report.vega_bundle import bundle


@cache
def environment() -> Environment:
    """Return the template environment: it escapes everything and refuses undefined names."""
    found = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(asset),
    )
    found.filters["groupby_first"] = groups
    return found


def groups(rows: Sequence[tuple[Value, ...]]) -> list[tuple[str, list[Any]]]:
    """Group rows by the value of their first column, in the order of first appearance."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row[0].text, []).append(row)
    return list(found.items())


def asset(name: str) -> str:
    """Read a file from this module's folder."""
    return (resources.files("isolane.report") / name).read_text(encoding="utf-8")


def styles() -> str:
    """Return the style sheet with the colours of both modes."""

    def rule(colours: Colours) -> str:
        pairs = (f"--{name}: {value};" for name, value in colours.variables().items())
        return f":root {{ {' '.join(pairs)} }}"

    dark = f"@media (prefers-color-scheme: dark) {{ {rule(MODES['dark'])} }}"
    return "\n".join((rule(MODES["light"]), dark, asset("page.css")))


def as_json(value: object) -> Markup:
    """Write data so that nothing in it can end the script element that holds it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704 - escaped


def themes() -> dict[str, Any]:
    """Return Vega's configuration and the palettes, by mode."""
    return {
        mode: {
            "config": vega_config(colours),
            "palettes": {name: colours.palette(name) for name in get_args(PaletteName)},
        }
        for mode, colours in MODES.items()
    }


def specs(shown: Sequence[Figure]) -> dict[str, Any]:
    """Return the plots that the page's script draws, by the id of the element that each fills."""
    return {
        f"plot-{figure.id}-{number}": {
            "figure": figure.id,
            "palette": figure.palette,
            "spec": panel.spec,
        }
        for figure in shown
        for number, panel in enumerate(figure.panels, start=1)
    }


def with_plots(figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what each page with plots takes besides its own words and tables."""
    return {
        "version": __version__,
        "figures": [for_page(figure) for figure in figures],
        "css": Markup(styles()),  # noqa: S704 - a file of this package
        "js": Markup(asset("page.js")),  # noqa: S704 - the same
        "bundle": Markup(bundle()) if figures else "",  # noqa: S704 - the library
        "specs": as_json(specs(figures)),
        "themes": as_json(themes()),
    }


def for_page(figure: Figure) -> Mapping[str, Any]:
    """Return a figure as the template takes it."""
    return {
        "id": figure.id,
        "title": figure.title,
        "caption": figure.caption,
        "panels": figure.panels,
        "columns": figure.columns,
        "legend": [_entry(swatch) for swatch in figure.legend],
    }


def _entry(swatch: Swatch) -> dict[str, Any]:
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    svg = f'<svg {size} aria-hidden="true">{picture(swatch, css_colours())}</svg>'
    return {
        "label": swatch.label,
        "toggle": swatch.mark in {"line", "bar"},
        "svg": Markup(svg),  # noqa: S704 - made of colours and numbers only
    }

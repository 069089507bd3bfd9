"""The report as one HTML file that opens offline."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import vl_convert
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from isolane.report import tables
from isolane.report.chart import Figure, Swatch
from isolane.report.drawing import draw
from isolane.report.figures import figures
from isolane.report.run import Run
from isolane.report.swatch import HEIGHT, WIDTH, picture
from isolane.report.theme import MODES, Colours, css_colours, vega_config

LEVELS = {
    "good": ("✓", "Isolated"),
    "bad": ("✕", "Not isolated"),
    "neutral": ("●", "Measured"),
    "none": ("○", "No verdict"),
}
"""Sign and words for a verdict's level: its colour alone would not reach everybody."""


def page(run: Run) -> str:
    """Write the whole page: styles, data, plots and the library that draws them."""
    summary = run.summary
    shown = figures(summary)
    started = datetime.fromtimestamp(summary.started_unix_s, UTC)
    sign, words = LEVELS[summary.verdict.level]
    template = _environment().from_string(_asset("page.html.j2"))
    return template.render(
        summary=summary,
        started=f"{started:%Y-%m-%d %H:%M} UTC",
        started_iso=started.isoformat(),
        level={"sign": sign, "words": words},
        facts=tables.facts(summary),
        figures=[_for_page(figure) for figure in shown],
        results=tables.results(summary),
        published=tables.published(summary),
        brackets=tables.brackets(summary),
        description=[" ".join(part.split()) for part in summary.description.split("\n\n")],
        drawings=[(found.arm, draw(found, css_colours())) for found in summary.drawings],
        host=tables.host(run.host),
        command=run.command,
        experiment=run.experiment,
        css=Markup(_css()),  # noqa: S704 - a file of this package
        js=Markup(_asset("page.js")),  # noqa: S704 - the same
        bundle=Markup(_bundle()) if shown else "",  # noqa: S704 - the library
        specs=_json(_specs(shown)),
        themes=_json(_themes()),
    )


def _environment() -> Environment:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["groupby_first"] = _groups
    return environment


def _groups(rows: Sequence[tuple[tables.Value, ...]]) -> list[tuple[str, list[Any]]]:
    """Group rows by what is in their first column, in the order of its first appearance."""
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row[0].text, []).append(row)
    return list(found.items())


def _asset(name: str) -> str:
    return (resources.files("isolane.report") / name).read_text(encoding="utf-8")


def _css() -> str:
    def rule(colours: Colours) -> str:
        pairs = (f"--{name}: {value};" for name, value in colours.variables().items())
        return f":root {{ {' '.join(pairs)} }}"

    dark = f"@media (prefers-color-scheme: dark) {{ {rule(MODES['dark'])} }}"
    return "\n".join((rule(MODES["light"]), dark, _asset("page.css")))


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and vega-embed, once for all plots; must not end its script element."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return bundle.replace("</script", "<\\/script")


def _json(value: object) -> Markup:
    """Write data so that nothing in it can end the script element that holds it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704 - escaped


def _themes() -> dict[str, Any]:
    return {
        mode: {
            "config": vega_config(colours),
            "palettes": {
                "series": colours.series,
                "states": colours.states,
                "places": colours.places,
            },
        }
        for mode, colours in MODES.items()
    }


def _specs(shown: tuple[Figure, ...]) -> dict[str, Any]:
    return {
        f"plot-{figure.id}-{number}": {
            "figure": figure.id,
            "palette": figure.palette,
            "spec": panel.spec,
        }
        for figure in shown
        for number, panel in enumerate(figure.panels, start=1)
    }


def _for_page(figure: Figure) -> Mapping[str, Any]:
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

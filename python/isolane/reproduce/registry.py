"""The papers that can be reproduced; each is imported when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final, cast

from isolane.errors import SpecError
from isolane.reproduce.model import Paper

PAPERS: Final[Mapping[str, str]] = {
    "rathore2013": "isolane.reproduce.rathore2013",
    "ahn": "isolane.reproduce.ahn",
    "adamczyk2012": "isolane.reproduce.adamczyk",
    "oliveira2024": "isolane.reproduce.oliveira2024",
}
"""Name of each paper and the module whose ``PAPER`` it is."""


def paper(name: str) -> Paper:
    """Return a paper by its name.

    Raises
    ------
    SpecError
        If there is no such paper.
    """
    if name not in PAPERS:
        raise SpecError(f"paper {name!r} is not known; accepted: {', '.join(PAPERS)}")
    return cast("Paper", importlib.import_module(PAPERS[name]).PAPER)


def chosen(it: Paper, figure: str | None) -> tuple[str, ...]:
    """Return the figures to reproduce: all, or the one asked for.

    Raises
    ------
    SpecError
        If the paper has no such figure.
    """
    if figure is None:
        return tuple(it.figures)
    if figure not in it.figures:
        known = "; ".join(f"{key} ({what})" for key, what in it.figures.items())
        raise SpecError(f"{it.name} has no figure {figure!r}; accepted: {known}")
    return (figure,)

"""``isolane version``: versions, for bug reports."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated

import typer

EPILOG = """Example:

\b
  isolane version --all
"""

_OF_INTEREST = ("pydantic", "polars", "pyroute2", "scipy", "altair", "typer")


def command(
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also print the versions of Python, the kernel and the packages used."
        ),
    ] = False,
) -> None:
    """Print the version of Isolane.

    With --all also the versions that a bug report needs: Python, kernel, packages.
    """
    from isolane import __version__

    typer.echo(f"isolane {__version__}")
    if everything:
        typer.echo(f"python {platform.python_version()}")
        typer.echo(f"kernel {platform.release()} ({platform.machine()})")
        for package in _OF_INTEREST:
            typer.echo(f"{package} {metadata.version(package)}")

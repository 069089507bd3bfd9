"""The command line: ``isolane --help``."""

from __future__ import annotations

from isolane.cli.app import main

__all__ = ["main"]

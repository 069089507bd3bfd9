"""Isolane measures, enforces and predicts the isolation of virtual routers on one Linux host."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"

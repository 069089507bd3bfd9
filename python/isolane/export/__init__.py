"""Exports counters for Prometheus, a dashboard for Grafana and units for systemd."""

from isolane.export.exposition import CONTENT_TYPES, Format, exposition
from isolane.export.metrics import Family, Reading, families, read
from isolane.export.netback_metrics import netback_families
from isolane.export.serve import parse_address, serve, write_textfile
from isolane.export.shipped_files import dashboard, unit_files

__all__ = [
    "CONTENT_TYPES",
    "Family",
    "Format",
    "Reading",
    "dashboard",
    "exposition",
    "families",
    "netback_families",
    "parse_address",
    "read",
    "serve",
    "unit_files",
    "write_textfile",
]

"""Tells what this host can do. Tries each capability wherever that is possible."""

from __future__ import annotations

from isolane.doctor.answers import Capability, Finding, Status
from isolane.doctor.examination import examine, lacking, require

__all__ = ["Capability", "Finding", "Status", "examine", "lacking", "require"]

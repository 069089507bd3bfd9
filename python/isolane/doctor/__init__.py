"""Finds out what this host can do; each capability is tried wherever possible."""

from __future__ import annotations

from isolane.doctor.answers import Capability, Finding, Status
from isolane.doctor.examination import examine, lacking, require

__all__ = ["Capability", "Finding", "Status", "examine", "lacking", "require"]

"""What this host can do: each capability is tried, not looked up, wherever it can be."""

from __future__ import annotations

from isolane.doctor.examination import examine, lacking, require
from isolane.doctor.model import Capability, Finding, Status

__all__ = ["Capability", "Finding", "Status", "examine", "lacking", "require"]

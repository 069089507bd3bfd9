"""Whether a policy's promises hold: each is measured with real frames, or named as not measured."""

from isolane.verify.report_data import Finding, Report

__all__ = ["Finding", "Report"]

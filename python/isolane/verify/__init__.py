"""Measures with real frames whether the promises of a policy hold; says which it cannot measure."""

from isolane.verify.report_data import Finding, Report

__all__ = ["Finding", "Report"]

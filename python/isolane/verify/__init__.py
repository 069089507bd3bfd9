"""Measures with real frames whether the promises of a policy hold; says which it cannot measure."""

from isolane.verify.report_data import Crowd, Finding, Report

__all__ = ["Crowd", "Finding", "Report"]

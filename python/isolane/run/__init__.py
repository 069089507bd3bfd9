"""Trials, arms and results: what a run does and what it leaves on disk."""

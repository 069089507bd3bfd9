"""Reproduces published experiments by simulation, and compares the figures."""

"""From trials to a summary: cells, findings, verdict, answer, and the words for them. Pure.

Imports `results`, `stats` and `spec`: it needs no host, no clock and no trial to be made.
"""

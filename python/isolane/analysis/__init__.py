"""From trials to a summary: cells, findings, verdict, answer, and the words for them. Pure.

It imports ``results``, ``stats``, ``cpu_profile`` and ``spec``: it needs no host, no clock and no
trial to be made. ``run``, ``report``, ``compare`` and commands import it.
"""

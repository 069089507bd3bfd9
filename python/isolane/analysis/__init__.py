"""From trials to a summary: cells, findings, verdict, answer, and the words for them.

It imports ``results``, ``stats``, ``cpu_profile`` and ``spec``, and is pure but for ``capacity``,
which reads a run folder: it needs no host, no clock and no trial to be made. Whatever tells of
results imports it.
"""

"""The course of a run or search: which trial comes next, and what becomes of it.

It imports ``trials``, ``results`` and ``analysis``. Only commands import it.
"""

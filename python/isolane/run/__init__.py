"""The course of a run or search: which trial comes next, and what becomes of it.

Imports `results`, `trials` and `analysis`; commands and `verify` import it.
"""

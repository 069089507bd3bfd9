"""What a run leaves on disk: its models, its folder, its record.

Imports `spec`, and what files and processes need; no other part of a run.
"""

"""What a run leaves on disk: its models, its folder, its record.

Of this package it imports ``spec``, ``cpu_profile`` and what files and processes need; it knows of
no trial that is made. Whatever reads or writes a run imports it.
"""

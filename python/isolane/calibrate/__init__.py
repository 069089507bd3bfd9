"""Fits host profiles to published figures or to a run on this host."""

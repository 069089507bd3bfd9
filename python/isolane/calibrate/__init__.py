"""Host profiles fitted to figures: published ones, or those of a run on this host."""

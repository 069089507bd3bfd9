"""Benches: what Isolane promises to be good at, measured on this host. See README.md."""

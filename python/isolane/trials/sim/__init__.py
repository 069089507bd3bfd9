"""The simulated back end: the same trials on a host that exists as data only."""

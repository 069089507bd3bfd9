"""The simulated back end: the same trials on a host that exists as data only."""

from isolane.run.sim.backend import SimBackEnd

__all__ = ["SimBackEnd"]

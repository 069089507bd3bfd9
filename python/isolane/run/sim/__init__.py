"""The simulated back end: the same trials on a host that exists as data only."""

from isolane.run.sim.sim_backend import SimBackEnd

__all__ = ["SimBackEnd"]

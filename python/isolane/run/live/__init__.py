"""The live back end: real frames through real routers on this host."""

from isolane.run.live.backend import LiveBackEnd

__all__ = ["LiveBackEnd"]

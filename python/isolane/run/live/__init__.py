"""The live back end: real frames through real routers on this host."""

from isolane.run.live.live_backend import LiveBackEnd

__all__ = ["LiveBackEnd"]

"""The live back end: real frames through real routers on this host.

``live_backend`` imports all of it; ``isolane generate``, ``receive`` and ``clean`` need but a part.
"""

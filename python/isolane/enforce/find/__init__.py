"""Finds the running routers of a policy: their processes, network namespaces and interfaces."""

from isolane.enforce.find.routers import find_routers

__all__ = ["find_routers"]

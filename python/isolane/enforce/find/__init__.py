"""Finding running routers: from a policy's identities to processes, namespaces and interfaces."""

from isolane.enforce.find.routers import find_routers

__all__ = ["find_routers"]

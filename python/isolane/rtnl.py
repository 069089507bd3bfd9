"""pyroute2, loaded when something of it is first used: a dry run can do without.

It takes longer to load than all else that looks at a host, so everybody takes it from here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyroute2 import IPRoute, NetlinkError
    from pyroute2.netlink import nlmsg
    from pyroute2.netlink.generic import GenericNetlinkSocket
    from pyroute2.netlink.rtnl.tcmsg.common import calc_xmittime

__all__ = ["GenericNetlinkSocket", "IPRoute", "NetlinkError", "calc_xmittime", "nlmsg"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pyroute2  # noqa: PLC0415 - this is what the module is for
    from pyroute2.netlink import generic  # noqa: PLC0415
    from pyroute2.netlink.rtnl.tcmsg import common  # noqa: PLC0415

    for module in (pyroute2, pyroute2.netlink, generic, common):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"pyroute2 has no {name}")

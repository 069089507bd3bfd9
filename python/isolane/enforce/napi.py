"""Kernel threads that poll an interface, by the netdev family of generic netlink (Linux 6.8)."""

from __future__ import annotations

import time

from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from isolane.errors import NotSupported
from isolane.testbed.netns import Namespace

_NAPI_GET = 11
_APPEAR_S = 1.0


class _Napi(genlmsg):  # type: ignore[misc]
    """``napi`` of Documentation/netlink/specs/netdev.yaml."""

    prefix = "NAPI_"
    nla_map = (
        ("NAPI_UNSPEC", "none"),
        ("NAPI_IFINDEX", "uint32"),
        ("NAPI_ID", "uint32"),
        ("NAPI_IRQ", "uint32"),
        ("NAPI_PID", "uint32"),
    )


class NapiThreads:
    """Asks a namespace for its NAPI threads; all interfaces in one answer.

    Parameters
    ----------
    namespace
        Entered by the calling thread.

    Raises
    ------
    NotSupported
        If the kernel does not tell (before Linux 6.8).
    """

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def of(self, ifindex: int) -> list[int]:
        """Return the threads of an interface, sorted; waits until the kernel has made them.

        Raises
        ------
        NotSupported
            If it has none: its driver has no NAPI, or it is down.
        """
        deadline = time.monotonic() + _APPEAR_S
        while True:
            found = self._ask().get(ifindex, [])
            if found:
                return sorted(found)
            if time.monotonic() > deadline:
                raise NotSupported(
                    f"interface {ifindex} of {self._namespace.name} has no NAPI thread: its "
                    "driver has no NAPI, or it is down"
                )
            time.sleep(0.002)

    def _ask(self) -> dict[int, list[int]]:
        self._namespace.enter()
        threads: dict[int, list[int]] = {}
        try:
            with GenericNetlinkSocket() as socket:
                socket.bind("netdev", _Napi)
                request = _Napi()
                request["cmd"], request["version"] = _NAPI_GET, 1
                flags = NLM_F_REQUEST | NLM_F_DUMP
                for answer in socket.nlm_request(request, msg_type=socket.prid, msg_flags=flags):
                    thread = answer.get_attr("NAPI_PID")
                    if thread:
                        threads.setdefault(answer.get_attr("NAPI_IFINDEX"), []).append(thread)
        except (NetlinkError, KeyError) as error:
            raise NotSupported(
                f"not supported on this host: the kernel does not tell its NAPI threads ({error}); "
                "needs Linux 6.8"
            ) from None
        return threads

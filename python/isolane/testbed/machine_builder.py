"""Builds what virtual machines need: taps, the wires between them and the NICs; starts them."""

from __future__ import annotations

import threading

from isolane.testbed import kernel
from isolane.testbed.guests import GuestGroup, UmlGuest, await_guests
from isolane.testbed.journal import Journal
from isolane.testbed.layout import Layout, Redirect, Tap
from isolane.testbed.netns import GROUP, Namespace, step

_MTU = 1500
_INGRESS = 0xFFFF0000
"""Handle of the ingress qdisc."""
_ETH_P_ALL = 3


class MachineBuilder:
    """The steps of building that virtual machines add; see :class:`Builder` for the parameters."""

    def __init__(
        self,
        layout: Layout,
        namespaces: dict[str, Namespace],
        ifindex: dict[tuple[str, str], int],
        journal: Journal,
        stop: threading.Event,
    ) -> None:
        self._layout = layout
        self._ns = namespaces
        self._ifindex = ifindex
        self._journal = journal
        self._stop = stop
        self.guests: dict[str, UmlGuest] = {}
        """Router -> virtual machine."""
        self.group: GuestGroup | None = None
        """Where their processes are; None as long as there are none."""
        self.booted = False

    def make_taps(self) -> None:
        """Make the host's ends of the virtual machines' NICs."""
        for tap in self._layout.taps:
            self._tap(tap)

    def _tap(self, tap: Tap) -> None:
        namespace = self._ns[tap.netns]
        with step(f"making tap {tap.ifname}", "taps (CONFIG_TUN, /dev/net/tun)"):
            namespace.enter()
            kernel.make_tap(tap.ifname)
            index = namespace.links.link_lookup(ifname=tap.ifname)[0]
            namespace.links.link("set", index=index, address=tap.mac, mtu=_MTU, group=GROUP)

    def start(self) -> None:
        """Wire the taps to their NICs, and start the machines; they boot while more is built."""
        for redirect in self._layout.redirects:
            self._redirect(redirect)
        machines = [router for router in self._layout.routers if router.hypervisor is not None]
        if not machines:
            return
        self.group = GuestGroup(self._journal.run)
        self.group.create(self._journal)
        for router in machines:
            self._ns[router.netns].enter()
            guest = UmlGuest(router, self.group)
            self.guests[router.name] = guest
            guest.start()

    def _redirect(self, redirect: Redirect) -> None:
        """Have all that arrives at one device leave by another one, before any protocol sees it."""
        links = self._ns[redirect.netns].links
        source = self._ifindex[redirect.netns, redirect.source]
        target = self._ifindex[redirect.netns, redirect.target]
        with step(
            f"redirecting {redirect.source} to {redirect.target}",
            "redirection (CONFIG_NET_CLS_U32, CONFIG_NET_ACT_MIRRED, CONFIG_NET_SCH_INGRESS)",
        ):
            links.tc("add", "ingress", index=source)
            links.tc(
                "add-filter",
                "u32",
                index=source,
                parent=_INGRESS,
                prio=1,
                protocol=_ETH_P_ALL,
                target=_INGRESS,  # a filter without a class would not be the last word
                keys=["0x0/0x0+0"],
                action={
                    "kind": "mirred", "direction": "egress", "action": "redirect",
                    "ifindex": target,
                },
            )  # fmt: skip

    def await_ready(self) -> None:
        """Wait until each virtual machine forwards, then keep each on its core.

        They boot on all cores: there is no traffic yet that they could disturb.
        """
        await_guests(list(self.guests.values()), self._stop)
        for router in self._layout.routers:
            if router.name in self.guests:
                self.guests[router.name].pin([router.core])
        self.booted = True

    def remove(self) -> list[str]:
        """End all virtual machines; return what refused to go, as sentences."""
        for guest in self.guests.values():
            guest.end()
        self.guests.clear()
        return [] if self.group is None else self.group.remove()

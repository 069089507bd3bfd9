"""Builds a layout: namespaces, wires, bridges, addresses, neighbours.

Each function is one step. It takes namespaces by name and leaves the thread in the last one that it
worked in.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from isolane.errors import TestbedError
from isolane.testbed import bridge_netfilter, kernel, netns, services
from isolane.testbed.bed_devices import (
    DUT,
    GEN,
    RCV,
    Bridge,
    End,
    Layout,
    Macvlan,
    Passthru,
    RouterLayout,
    Veth,
)
from isolane.testbed.journal import Journal
from isolane.testbed.netns import GROUP, Namespace, step

_IFF_UP, _IFF_NOARP, _IFF_ALLMULTI = 0x1, 0x80, 0x200
_NUD_PERMANENT = 0x80
_IFA_F_NODAD = 0x02
_MTU = 1500
_FIRST_INDEX = 1000
_CARRIER_S = 60.0
"""The kernel may report a change of carrier up to a second late, where it has time for that."""
_NTF_MASTER = 0x04
_NUD_NOARP = 0x40  # in a bridge's table: static; "permanent" would mean the bridge's own address

_OF_SERVERS: Final[Mapping[str, int | str]] = {
    "ipv4/ip_local_port_range": "1024 65535",
    "ipv4/ip_unprivileged_port_start": 0,  # their servers have no rights
    "ipv4/tcp_max_syn_backlog": 65535,
    "core/somaxconn": 65535,
}
"""Sysctls of a namespace with a web server or a client: many short connections."""

Namespaces = dict[str, Namespace]


class Builder:
    """Builds ``layout`` into ``namespaces``, which holds whatever exists so far.

    Parameters
    ----------
    interrupted
        Says whether to give up at the next step: the waiting thread was interrupted.
    """

    def __init__(
        self,
        layout: Layout,
        namespaces: Namespaces,
        journal: Journal,
        interrupted: Callable[[], bool],
    ) -> None:
        self._layout = layout
        self._ns = namespaces
        self._journal = journal
        self._interrupted = interrupted
        self.ifindex: dict[tuple[str, str], int] = {}
        """(namespace, interface) -> index."""

    def build(self) -> None:
        """Do all steps in turn, beginning in the host's namespace."""
        layout = self._layout
        of_bridges = bridge_netfilter.here()
        netns.make_directory(self._journal)
        for name in layout.netns:
            self.go_on()
            self._ns[name] = Namespace.create(name, self._journal)
            self._settings(name)
        for bridge in layout.bridges:
            self._bridge(bridge, of_bridges)
        for number, veth in enumerate(layout.veths):
            self.go_on()
            self._veth(veth, _FIRST_INDEX + number)
        self._learn_indices()
        for veth in layout.veths:
            self._offloads(veth)
            self._attach(veth.tx)
            self._attach(veth.rx)
        self._bring_up()
        # Only now: a macvlan made upon a device that is not in service yet learns of its carrier
        # a second later.
        first = _FIRST_INDEX + len(layout.veths)
        for number, upper in enumerate(layout.uppers, first):
            self._upper(upper, number)
        if layout.uppers:
            self._learn_indices()
            self._bring_up()
        for bridge in layout.bridges:
            self._forwarding_table(bridge)
        for router in layout.routers:
            self.go_on()
            self._addresses(router)
            self._services(router)

    def go_on(self) -> None:
        """Raise TestbedError when the building was interrupted."""
        if self._interrupted():
            raise TestbedError("building the test bed was interrupted")

    def _settings(self, name: str) -> None:
        """Write the sysctls of a namespace before it has devices, which inherit ``default``."""
        namespace = self._ns[name]
        layout = self._layout
        routers = [r for r in layout.routers if r.netns == name and not (r.bare or r.guest)]
        talks = bool(routers) or (layout.web and name in (GEN, RCV))
        for scope in ("all", "default"):
            namespace.sysctl(f"ipv4/conf/{scope}/rp_filter", 0)
            namespace.sysctl(f"ipv4/conf/{scope}/send_redirects", 0)
        if talks and layout.ip == 6:
            for key in ("accept_dad", "accept_ra", "autoconf", "router_solicitations"):
                namespace.sysctl(f"ipv6/conf/default/{key}", 0)
            # Multicast listener reports cannot be switched off, but repeated at once, not within
            # seconds; Testbed waits until they are over.
            namespace.sysctl("ipv6/conf/default/mldv2_unsolicited_report_interval", 0)
            namespace.sysctl("ipv6/conf/default/addr_gen_mode", 1)  # no link-local addresses
            namespace.sysctl("ipv6/conf/all/forwarding", int(bool(routers)))
        elif Path("/proc/sys/net/ipv6").exists():
            # An idle interface with IPv6 talks: router solicitations, multicast listener reports.
            namespace.sysctl("ipv6/conf/all/disable_ipv6", 1)
            namespace.sysctl("ipv6/conf/default/disable_ipv6", 1)
        if routers and layout.ip == 4:
            namespace.sysctl("ipv4/ip_forward", 1)
        if talks and layout.web:
            for key, value in _OF_SERVERS.items():
                namespace.sysctl(key, value)

    def _bridge(self, bridge: Bridge, of_host: Mapping[str, bool]) -> None:
        self._ns[bridge.netns].enter()
        asked = self._layout.bridge_netfilter
        for key, value in bridge_netfilter.settings(of_host, asked=asked).items():
            self._ns[bridge.netns].sysctl(key, value)
        with step(f"making bridge {bridge.ifname}", "bridges (CONFIG_BRIDGE)"):
            self._ns[bridge.netns].links.link(
                "add",
                ifname=bridge.ifname,
                kind="bridge",
                address=bridge.mac,
                mtu=_MTU,
                group=GROUP,
                br_stp_state=0,
                br_mcast_snooping=0,
                br_ageing_time=0,
            )

    def _veth(self, veth: Veth, index: int) -> None:
        """Make a pair, each end at once where it belongs: the host never sees a device.

        The ends must not have the same index, as the first device of two namespaces would: the
        kernel then takes the device for one without a peer and lets a change of its carrier wait
        for up to a second (linkwatch_urgent_event()), while the device drops what it is to send.
        """
        tx, rx = veth.tx, veth.rx
        with step(f"making wire {tx.ifname} - {rx.ifname}", "veth pairs (CONFIG_VETH)"):
            self._ns[tx.netns].links.link(
                "add",
                ifname=tx.ifname,
                index=index,
                kind="veth",
                address=tx.mac,
                mtu=_MTU,
                group=GROUP,
                peer={
                    "ifname": rx.ifname,
                    "address": rx.mac,
                    "mtu": _MTU,
                    "group": GROUP,
                    "net_ns_fd": str(self._ns[rx.netns].path),
                },
            )

    def _upper(self, upper: Macvlan | Passthru, index: int) -> None:
        """Make a device upon another one, in the namespace that it belongs to."""
        own: dict[str, str]
        if isinstance(upper, Macvlan):
            kind, netns, mode = "macvtap" if upper.tap else "macvlan", DUT, "bridge"
            own = {"address": upper.mac}
        else:  # it has the address of the device below
            kind, netns, mode, own = "macvtap", upper.netns, "passthru", {}
        with step(f"making {kind} {upper.ifname}", f"{kind} (CONFIG_{kind.upper()})"):
            self._ns[netns].links.link(
                "add",
                ifname=upper.ifname,
                index=index,
                kind=kind,
                **{f"{kind}_mode": mode},
                link=self.ifindex[netns, upper.lower],
                group=GROUP,
                net_ns_fd=str(self._ns[upper.netns].path),
                **own,
            )

    def _learn_indices(self) -> None:
        for name, namespace in self._ns.items():
            for ifname in namespace.interfaces():
                self.ifindex[name, ifname] = int(namespace.read(ifname, "ifindex"))

    def _offloads(self, veth: Veth) -> None:
        """Make the receiving end of a wire a NIC with NAPI; has to come before it is up.

        With GRO on a veth has NAPI, which XDP redirect and NAPI threads need; its peer takes XDP
        frames only if GRO was on when it was brought up (veth_set_xdp_features()). With TSO on
        the sending end, veth_xmit() passes NAPI by for frames that are no candidates for GRO; a
        wire for frames of at most 1518 bytes has no use for TSO.
        """
        if not veth.rx.nic:
            return
        with step(f"making {veth.rx.ifname} a NIC with NAPI", "veth with NAPI (Linux 5.13)"):
            for end in (veth.tx, veth.rx):
                ioctl = self._ns[end.netns].ioctl
                kernel.set_offload(ioctl, end.ifname, "tso", on=False)
                kernel.set_offload(ioctl, end.ifname, "gro", on=end.nic)

    def _attach(self, end: End) -> None:
        """Make a veth's end a port of its bridge that learns nothing, nor floods without need."""
        if end.master is None:
            return
        links = self._ns[end.netns].links
        index = self.ifindex[end.netns, end.ifname]
        with step(f"attaching {end.ifname} to {end.master}", "bridges (CONFIG_BRIDGE)"):
            links.link("set", index=index, master=self.ifindex[end.netns, end.master])
            floods = int(end.floods)
            links.brport(
                "set",
                index=index,
                learning=0,
                unicast_flood=0,
                mcast_flood=floods,
                bcast_flood=floods,
            )

    def _bring_up(self) -> None:
        """Bring up all devices that are down, and wait until they have a carrier."""
        asking = {tap for router in self._layout.routers if router.asks for tap in router.taps}
        for (name, ifname), index in self.ifindex.items():
            namespace = self._ns[name]
            if int(namespace.read(ifname, "flags"), 16) & _IFF_UP:
                continue
            flags = _IFF_UP if ifname == "lo" else _IFF_UP | _IFF_NOARP
            if ifname in asking:  # else a macvtap keeps the questions of IPv6 to itself
                flags |= _IFF_ALLMULTI
            with step(f"bringing up {ifname} in {name}", "nothing unusual"):
                namespace.links.link("set", index=index, flags=flags, change=flags)
        self._await_carriers()

    def _forwarding_table(self, bridge: Bridge) -> None:
        namespace = self._ns[bridge.netns]
        for mac, port in bridge.fdb:
            with step(f"adding {mac} to bridge {bridge.ifname}", "bridges (CONFIG_BRIDGE)"):
                index = self.ifindex[bridge.netns, port]
                namespace.links.fdb(
                    "add", ifindex=index, lladdr=mac, flags=_NTF_MASTER, state=_NUD_NOARP
                )

    def _addresses(self, router: RouterLayout) -> None:
        if router.bare or router.guest:
            return
        namespace = self._ns[router.netns]
        sides = (
            (router.in_ifname, router.in_address, router.src_ip, router.src_mac),
            (router.out_ifname, router.out_address, router.dst_ip, router.dst_mac),
        )
        for ifname, address, neighbour, mac in sides:
            index = self.ifindex[router.netns, ifname]
            with step(f"giving {ifname} the address {address}", f"IPv{self._layout.ip}"):
                self._add_address(namespace, index, address)
                namespace.links.neigh(
                    "add", dst=neighbour, lladdr=mac, ifindex=index, state=_NUD_PERMANENT
                )
        if router.web is not None:
            self._far_addresses(router)

    def _add_address(self, namespace: Namespace, index: int, address: str) -> None:
        """Give an interface an address that can be used at once.

        Without the flag the kernel would look for duplicates of an IPv6 address, or, where that is
        switched off, would call it off later.
        """
        flags = _IFA_F_NODAD if self._layout.ip == 6 else 0
        namespace.links.addr("add", index=index, address=address, flags=flags)

    def _far_addresses(self, router: RouterLayout) -> None:
        """Give generator and receiver addresses of their own, to ask from and to answer at."""
        for name, ifname, own, its, mac in (
            (GEN, router.gen_ifname, router.src_ip, router.in_address, router.in_mac),
            (RCV, router.rcv_ifname, router.dst_ip, router.out_address, router.out_mac),
        ):
            index, there = self.ifindex[name, ifname], ipaddress.ip_interface(its)
            address, links = f"{own}/{there.network.prefixlen}", self._ns[name].links
            with step(f"giving {ifname} the address {address}", f"IPv{self._layout.ip}"):
                self._add_address(self._ns[name], index, address)
                links.neigh(
                    "add", dst=str(there.ip), lladdr=mac, ifindex=index, state=_NUD_PERMANENT
                )

    def _services(self, router: RouterLayout) -> None:
        if router.services is not None:
            text = services.ruleset(router.services, self._layout.ip, router.out_ifname)
            services.begin(self._ns[router.netns], router.name, text)

    def _await_carriers(self) -> None:
        """Wait until each device has a carrier: before that it drops frames."""
        deadline = time.monotonic() + _CARRIER_S
        bridges = {bridge.ifname for bridge in self._layout.bridges}  # forward without a carrier
        for name, ifname in self.ifindex:
            if ifname in bridges:
                continue
            namespace = self._ns[name]
            while (state := namespace.read(ifname, "operstate")) not in ("up", "unknown"):
                if time.monotonic() > deadline:
                    raise TestbedError(f"{ifname} in {name} did not come up: it is {state}")
                time.sleep(0.002)

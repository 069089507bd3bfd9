"""The virtual machines of a test bed: started side by side, asked for their losses, ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from isolane.errors import MeasurementError, TestbedError
from isolane.guests import (
    GO_ON,
    IMAGE_MB,
    QEMU_DISK,
    QEMU_MB,
    STOP,
    UML_DISK,
    UML_MB,
    Guest,
    GuestPart,
    ImageGuest,
    ImagePlan,
    NicSocket,
    QemuGuest,
    QemuNic,
    QemuPlan,
    Seed,
    UmlGuest,
    UmlNic,
    UmlPlan,
    in_time,
    user_data,
)
from isolane.guests.router_script import Nics, RouterSide, router_script
from isolane.netback import Status
from isolane.spec.image_models import AUTO
from isolane.spec.work_models import DISK_WORK, Work
from isolane.testbed.bed_back_end import BedBackEnd
from isolane.testbed.bed_devices import Layout, RouterLayout
from isolane.testbed.bed_plan import DiskImage, Machine, WorkTime
from isolane.testbed.guest_losses import GuestReading, at_rest, frames_received
from isolane.testbed.ip_counters import FILES, IpCounts
from isolane.testbed.journal import Journal
from isolane.testbed.netns import Namespace
from isolane.testbed.responders import responder_script
from isolane.testbed.router_work import work_script

_DEVICES: Final = "net/dev"
READY_S: Final = 120.0
"""Longest time until a guest is ready; eight of them on one core need some 10 s."""


class BedGuests:
    """The guests of a test bed, by router.

    All is done by the thread that enters namespaces: a guest ends with the thread that started it.

    Parameters
    ----------
    layout, namespaces
        The test bed: its namespaces and devices are there already.
    journal
        Records each guest before it is started.
    back_end
        Serves the NICs of those of path ``netback``; it runs already.
    """

    def __init__(
        self,
        layout: Layout,
        namespaces: Mapping[str, Namespace],
        journal: Journal,
        back_end: BedBackEnd,
    ) -> None:
        self._layout = layout
        self._back_end = back_end
        self._ns = namespaces
        self._journal = journal
        self._guests: dict[str, Guest] = {}
        self._sockets: dict[str, list[NicSocket]] = {}

    def start(self, go_on: Callable[[], None]) -> None:
        """Start all guests, and wait until each of them is ready.

        Parameters
        ----------
        go_on
            Raises when the building of the test bed was interrupted.

        Raises
        ------
        NotSupported
            If this host lacks what runs one of them.
        TestbedError
            If one of them does not get ready, with the last lines of its console.
        """
        routers = [router for router in self._layout.routers if router.guest]
        for router in routers:
            go_on()
            self._start(router)
        waiting = list(self._guests.values())
        while waiting:
            go_on()
            waiting = [guest for guest in waiting if not guest.is_ready(0.02)]

    def _start(self, router: RouterLayout) -> None:
        machine = router.guest
        assert machine is not None
        guest = (self._uml if _is_uml(router) else self._qemu)(router, machine)
        self._journal.record("guest", name=router.name)
        guest.start()
        self._guests[router.name] = guest

    def _uml(self, router: RouterLayout, machine: Machine) -> Guest:
        memory_mb = machine.memory_mb or UML_MB
        if router.served:
            served = self._back_end.nics(router)
            script, name = self._script(router), router.name
            plan = UmlPlan(
                name, script, router.core, nics=served, memory_mb=memory_mb, disk=_has_disk(router)
            )
            return UmlGuest(plan, READY_S)
        self._ns[router.netns].enter()
        nics = self._sockets.setdefault(router.name, [])
        for ifname in (router.in_ifname, router.out_ifname):
            # One by one: what is open is closed, whatever fails.
            nics.append(NicSocket(ifname, bypass=not router.shaped))
        plan = UmlPlan(
            router.name,
            self._script(router),
            router.core,
            nics=(UmlNic(nics[0], router.in_mac), UmlNic(nics[1], router.out_mac)),
            memory_mb=memory_mb,
            disk=_has_disk(router),
        )
        return UmlGuest(plan, READY_S)

    def _qemu(self, router: RouterLayout, machine: Machine) -> Guest:
        assert machine.hypervisor != "uml"
        assert machine.nic != "vector"
        nics = self._back_end.nics(router) if router.served else self._taps(router)
        if machine.image is not None:
            image = ImagePlan(
                router.name,
                "",
                router.core,
                accelerator=machine.hypervisor,
                model=machine.nic,
                memory_mb=machine.memory_mb or IMAGE_MB,
                vcpus=machine.vcpus,
                nics=nics,
                image=machine.image.file,
                seed=_seed(router, machine.image),
            )
            return ImageGuest(image, READY_S)
        plan = QemuPlan(
            router.name,
            self._script(router),
            router.core,
            accelerator=machine.hypervisor,
            model=machine.nic,
            memory_mb=machine.memory_mb or QEMU_MB,
            vcpus=machine.vcpus,
            nics=nics,
            disk=_has_disk(router),
        )
        return QemuGuest(plan, READY_S)

    def _taps(self, router: RouterLayout) -> tuple[QemuNic, ...]:
        namespace = self._ns[router.netns]
        macs = router.in_mac, router.out_mac
        return tuple(
            QemuNic(_character_device(namespace, tap), mac)
            for tap, mac in zip(router.taps, macs, strict=True)
        )

    def _script(self, router: RouterLayout) -> str:
        ip: Literal[4, 6] = 4 if self._layout.ip == 4 else 6
        sides = (
            RouterSide(router.in_address, router.src_ip, router.src_mac),
            RouterSide(router.out_address, router.dst_ip, router.dst_mac),
        )
        script = router_script(ip, _nics(router), sides)
        if router.responder:
            script = f"{script}\n{responder_script(router.in_address)}"
        if not router.works:
            return script
        disk = UML_DISK if _is_uml(router) else QEMU_DISK
        return f"{script}\n{work_script(router.works, disk)}"

    def work(self, works: Mapping[str, WorkTime]) -> None:
        """Have the programs of these guests work at these times, and no others.

        Raises
        ------
        MeasurementError
            When one of them does not answer.
        """
        working = [router for router in self._layout.routers if router.guest and router.works]
        try:
            for router in working:
                wanted = works.get(router.name)
                orders: dict[str, str] = {one: _order(one, wanted) for one in router.works}
                self._guests[router.name].tell_work(orders)
            for router in working:
                self._guests[router.name].await_work()
        except TestbedError as error:
            raise MeasurementError(str(error)) from error

    def processes(self) -> dict[str, int]:
        """Return the process that all of each guest comes from."""
        return {router: guest.process for router, guest in self._guests.items()}

    def threads(self) -> dict[str, dict[GuestPart, list[int]]]:
        """Return the host's threads that are each guest, by what they do for it."""
        return {router: guest.parts() for router, guest in self._guests.items()}

    def lost(self) -> dict[str, dict[str, int]]:
        """Return the frames lost in each guest since it was started, by router and drop point.

        Beside them those ``delivered`` to the guest itself.

        Raises
        ------
        MeasurementError
            When one of them does not answer any more.
        """
        if not self._guests:
            return {}
        try:
            found = at_rest(self._read)
        except TestbedError as error:
            raise MeasurementError(str(error)) from None
        silent = [router for router in self._layout.routers if router.asks]
        return {
            **{
                router: {**reading.lost(), "delivered": reading.ip.delivered}
                for router, reading in found.items()
            },
            **{router.name: {"router_queue": self._refused(router)} for router in silent},
        }

    def last_lines(self, router: str) -> str:
        """Return the last lines of a guest's console, in one line."""
        return self._guests[router].last_lines

    def _read(self) -> dict[str, GuestReading]:
        telling = [router for router in self._layout.routers if router.guest and not router.asks]
        for router in telling:
            self._guests[router.name].ask(_DEVICES, FILES[self._layout.ip])
        answers = {router.name: self._guests[router.name].answer() for router in telling}
        status = self._back_end.status()
        return {
            router.name: self._reading(router, answers[router.name], status) for router in telling
        }

    def _reading(
        self, router: RouterLayout, told: Mapping[str, str], status: Status | None
    ) -> GuestReading:
        received = frames_received(told[_DEVICES])
        if router.served and status is not None:
            ingress, egress = self._back_end.ports(status, router.name)
            refused = ingress.ring_full + ingress.too_long + ingress.no_guest
            sent = egress.sent
        else:
            refused = self._refused(router)
            sent = int(self._ns[router.netns].read(router.out_ifname, "statistics/tx_packets"))
        return GuestReading(
            refused=refused,
            taken=sum(received.get(nic, 0) for nic in _nics(router)),
            ip=IpCounts.of(self._layout.ip, told[FILES[self._layout.ip]]),
            sent=sent,
            answers=router.answers,
        )

    def _refused(self, router: RouterLayout) -> int:
        """Return the frames that found the buffer full that a guest's NIC reads from."""
        if _is_uml(router):
            return sum(each.dropped() for each in self._sockets[router.name])
        # macvtap_count_rx_dropped() counts them as errors, and so the device has no others.
        namespace = self._ns[router.netns]
        return sum(int(namespace.read(tap, "statistics/rx_errors")) for tap in router.taps)

    def check_alive(self) -> None:
        """Raise MeasurementError, naming a guest that has ended by itself."""
        for router, guest in self._guests.items():
            if not guest.is_running:
                raise MeasurementError(
                    f"the guest of router {router} has ended; its console: {guest.last_lines}"
                )

    def close(self) -> None:
        """End all guests."""
        while self._guests:
            self._guests.popitem()[1].close()
        while self._sockets:
            for one in self._sockets.popitem()[1]:
                one.close()


def _seed(router: RouterLayout, image: DiskImage) -> Seed | None:
    """Return what cloud-init in a guest is told; None where it is told nothing."""
    wanted = image.cloud_init
    if wanted is None:
        return None
    nics = ((router.in_mac, router.in_address), (router.out_mac, router.out_address))
    return Seed(router.name, nics, None if wanted == AUTO else user_data(wanted))


def _order(work: Work, wanted: WorkTime | None) -> str:
    if wanted is None or wanted.work != work:
        return STOP
    return GO_ON if wanted.for_s is None else in_time(wanted.after_s, wanted.for_s)


def _has_disk(router: RouterLayout) -> bool:
    return DISK_WORK in router.works


def _nics(router: RouterLayout) -> Nics:
    """Return a guest's names of its interfaces."""
    own = _is_uml(router) and not router.served
    return ("vec0", "vec1") if own else ("eth0", "eth1")


def _is_uml(router: RouterLayout) -> bool:
    return router.guest is not None and router.guest.hypervisor == "uml"


def _character_device(namespace: Namespace, tap: str) -> tuple[int, int]:
    """Return the numbers, major and minor, of the device that a macvtap is read and written by."""
    index = namespace.read(tap, "ifindex")
    major, minor = namespace.read(tap, f"macvtap/tap{index}/dev").split(":")
    return int(major), int(minor)

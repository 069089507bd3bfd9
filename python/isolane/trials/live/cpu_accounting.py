"""CPU accounting: the CPU time that each router and each core used in one trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from isolane import _native
from isolane.guests import GuestPart
from isolane.procfs import TICK_NS, CoreTicks
from isolane.results.cpu_results import CorePartName, GuestCpu
from isolane.results.results import CorePart, CoreTrial, Placement
from isolane.testbed import POLICY_NICS
from isolane.trials.cpu_causes import Parts, SharedWork, divide
from isolane.trials.live.cores import Cores
from isolane.trials.live.managed import Managed
from isolane.trials.live.measured_bed import MeasuredBed
from isolane.trials.live.poll_costs import frame_costs

FIXED = _native.CpuAccountant.fixed()
IDLE, PROCESS, KTHREAD = FIXED.index("idle"), FIXED.index("process"), FIXED.index("kthread")
SOFTIRQ, BACKLOG, NET_TX = FIXED.index("softirq"), FIXED.index("backlog"), FIXED.index("net-tx")
OTHER_NIC, INTERRUPT = FIXED.index("other-nic"), FIXED.index("interrupt")
STEAL = FIXED.index("steal")

Ticks = dict[int, CoreTicks]
CpuUses = list[list[_native.CpuUse]]
"""What each account used of each core in the window: ``[core][account]``."""


@dataclass(frozen=True)
class Handled:
    """Frames of one router in a trial, by what was done with them."""

    taken: int
    """Its NIC's ring took them: offered less what never got so far."""
    dropped: int
    """Dropped before the router's queue."""
    sent: int
    """Left the router."""


@dataclass(frozen=True)
class Accounts:
    """The CPU accountant's account numbers, by whom they belong to."""

    by_router: dict[str, int]
    shared: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Account of a NIC that several routers may share -> the routers behind it."""
    own: frozenset[str] = frozenset()
    """Routers that have threads or polls of their own."""
    backlog: frozenset[str] = frozenset()
    """Routers whose frames pass the backlogs of the cores."""
    demux: int | None = None
    """The one of `shared` whose NIC has a demultiplexer."""
    guests: Mapping[str, Mapping[GuestPart, int]] = field(default_factory=dict)
    """Router that is a virtual machine -> an account for each part of its threads; what else is
    its own has its account in `by_router`."""

    @property
    def all(self) -> tuple[int, ...]:
        """Every account that receive processing is charged to."""
        return (*self.owned, *self.shared)

    @property
    def owned(self) -> tuple[int, ...]:
        """Those of them that are routers' own."""
        parts = [account for each in self.guests.values() for account in each.values()]
        return (*self.by_router.values(), *parts)


def open_accounts(
    accountant: _native.CpuAccountant, bed: MeasuredBed, routers: list[str], managed: Managed
) -> Accounts:
    """Tell the accountant which interfaces and threads belong to whom."""
    first = _native.CpuAccountant.FIRST_OWN
    by_router = {router: first + i for i, router in enumerate(routers)}
    free = first + len(routers)
    shared: dict[int, tuple[str, ...]] = {}
    guests = bed.guest_threads  # once: each look goes through all processes of the host
    its_workers = workers(guests, bed, managed)
    own = set(its_workers)
    demux = None
    accountant.forget()
    for nic in bed.dut_interfaces:
        if nic.router is None:
            account = free + len(shared)
            shared[account] = bed.behind[nic.ifname]
        else:
            account = by_router[nic.router]
            own.add(nic.router)
        accountant.add_nic(netns=nic.netns, ifindex=nic.ifindex, account=account)
        threads = list(bed.receive_threads.get(nic.ifname, ()))
        if nic.ifname == POLICY_NICS[0] and managed.nic_threads:
            threads, demux = [*managed.nic_threads, *managed.pacemaker_threads], account
            accountant.sample_polls(account=account)
        _charge(accountant, threads, account)
    for router, its in its_workers.items():
        _charge(accountant, its, by_router[router])
        side = bed.host_sides.get(router)  # polled on top of the router's thread that sends
        if side is not None:
            accountant.add_nic(netns=side.netns, ifindex=side.ifindex, account=by_router[router])
    together = [bed.back_end_threads]
    if demux is None:
        together.append((managed.pacemaker_threads, tuple(managed.threads)))
    for threads, members in together:
        if threads:
            account = free + len(shared)
            shared[account] = members
            _charge(accountant, threads, account)
    parts = _guest_accounts(accountant, guests, by_router, free + len(shared))
    return Accounts(by_router, shared, frozenset(own), bed.on_backlog, demux, parts)


def _charge(accountant: _native.CpuAccountant, threads: Iterable[int], account: int) -> None:
    for thread in threads:
        accountant.add_thread(thread=thread, account=account)


GuestThreads = Mapping[str, Mapping[GuestPart, list[int]]]
"""Router that is a virtual machine -> its threads, by what they do for it."""


def _guest_accounts(
    accountant: _native.CpuAccountant,
    guests: GuestThreads,
    by_router: Mapping[str, int],
    first: int,
) -> dict[str, dict[GuestPart, int]]:
    """Charge the parts of guests to accounts of their own, where there are enough of these."""
    needed = sum(map(len, guests.values()))
    divided = first + needed <= _native.CpuAccountant.ACCOUNTS
    found: dict[str, dict[GuestPart, int]] = {}
    free = first
    for router, parts in guests.items():
        for part, threads in parts.items():
            account = free if divided else by_router[router]
            for thread in threads:
                accountant.add_thread(thread=thread, account=account)
            if divided:
                found.setdefault(router, {})[part] = account
                free += 1
    return found


def workers(guests: GuestThreads, bed: MeasuredBed, managed: Managed) -> dict[str, set[int]]:
    """Return the threads that work for one router alone, but for a guest's."""
    found: dict[str, set[int]] = {router: set() for router in guests}
    for router, its in bed.responder_threads.items():
        found[router] = set(its)
    for router, its in managed.threads.items():
        own = {thread for part in guests.get(router, {}).values() for thread in part}
        found.setdefault(router, set()).update(set(its) - own)
    return found


def _time_ns(used: _native.CpuUse) -> int:
    return used.softirq_ns + used.thread_ns


@dataclass(frozen=True)
class CpuAccounting:
    """The CPU time of one trial, by core and account."""

    uses: CpuUses
    accounts: Accounts
    cores: Cores
    window_ns: int
    ticks: tuple[Ticks, Ticks]
    """Before and after the trial: nobody reads them in it, which would disturb it."""
    polls: _native.PollSums | None = None
    """Of the demultiplexer."""

    def of_router(self, router: str) -> int | None:
        """Return a router's own CPU time, ns; None where nothing runs for it alone."""
        if router not in self.accounts.own:
            return None
        parts = self.accounts.guests.get(router, {})
        return sum(map(self._used, (self.accounts.by_router[router], *parts.values())))

    def of_guest(self, router: str) -> dict[GuestCpu, int] | None:
        """Return a virtual machine's own CPU time by what it was for, ns; None for others.

        The parts add up to :meth:`of_router`.
        """
        parts = self.accounts.guests.get(router)
        if parts is None:
            return None
        host: dict[GuestCpu, int] = {"host": self._used(self.accounts.by_router[router])}
        return host | {part: self._used(account) for part, account in parts.items()}

    def causes(self, handled: Mapping[str, Handled]) -> dict[str, Parts]:
        """Return the CPU time that each router caused, by why it was spent, ns."""
        own = {router: self.of_router(router) for router in self.accounts.by_router}
        return divide(own, self.shared_work(handled))

    def shared_work(self, handled: Mapping[str, Handled]) -> list[SharedWork]:
        """Return all work that routers share, each with the frames that it is divided by."""
        found = []
        for account, members in self.accounts.shared.items():
            used = self._used(account)
            here = {name: handled[name] for name in members if name in handled}
            found += self._received(account, used, here)
        found.append(SharedWork("backlog", self._on_dut(BACKLOG), self._queued(handled)))
        sent = {name: frames.sent for name, frames in handled.items()}
        return [*found, SharedWork("transmit", self._on_dut(NET_TX), sent)]

    def _received(
        self, account: int, used_ns: int, here: Mapping[str, Handled]
    ) -> list[SharedWork]:
        """Divide the time of a shared NIC between frames passed on and dropped, if it can be."""
        taken = {name: frames.taken for name, frames in here.items()}
        demultiplexed = self.polls is not None and account == self.accounts.demux
        costs = frame_costs(self.polls) if self.polls and demultiplexed else None
        if costs is None:
            return [SharedWork("receive", used_ns, taken)]
        dropped = {name: min(frames.dropped, frames.taken) for name, frames in here.items()}
        passed = {name: taken[name] - dropped[name] for name in here}
        passing = costs.passed_ns * sum(passed.values())
        dropping = costs.dropped_ns * sum(dropped.values())
        for_drops = round(used_ns * dropping / (passing + dropping)) if dropping else 0
        return [
            SharedWork("receive", used_ns - for_drops, passed),
            SharedWork("drop", for_drops, dropped),
        ]

    def _queued(self, handled: Mapping[str, Handled]) -> dict[str, int]:
        return {
            name: frames.taken - frames.dropped
            for name, frames in handled.items()
            if name in self.accounts.backlog
        }

    def _used(self, account: int) -> int:
        return sum(_time_ns(core[account]) for core in self.uses)

    def _on_dut(self, account: int) -> int:
        return sum(_time_ns(self.uses[core][account]) for core in self.cores.dut)

    def placement(self) -> Placement:
        """Count polls and frames on the DUT's cores and elsewhere."""
        polls, frames = [0, 0], [0, 0]
        for core, use in enumerate(self.uses):
            elsewhere = core not in self.cores.dut
            for account in self.accounts.all:
                polls[elsewhere] += use[account].polls
                frames[elsewhere] += use[account].frames
        return Placement(
            polls_on_dut=polls[0],
            polls_elsewhere=polls[1],
            frames_on_dut=frames[0],
            frames_elsewhere=frames[1],
            ok=frames[1] == 0,
        )

    def of_others(self, core: int) -> float:
        """Return the part of the window in which other processes had a core, 0 to 1."""
        return self.uses[core][PROCESS].thread_ns / self.window_ns

    def stolen(self, core: int) -> float:
        """Return the part of the window that the hypervisor took of a core.

        In whole ticks where the scheduler does not notice it: those of the trial, which is longer
        than its window by some 50 ms.
        """
        exact_ns = self.uses[core][STEAL].thread_ns
        if exact_ns:
            return exact_ns / self.window_ns
        all_ticks = max(1, self.window_ns // TICK_NS)
        return min(1.0, self.ticks[1][core].since(self.ticks[0][core]).steal / all_ticks)

    def stolen_exactly(self, core: int) -> bool:
        """Whether that is exact: the scheduler itself has noticed some."""
        return self.uses[core][STEAL].thread_ns > 0

    @property
    def online(self) -> tuple[int, ...]:
        """The cores that were there all the time."""
        return tuple(sorted(self.ticks[0].keys() & self.ticks[1].keys()))

    def of_cores(self, handled: Mapping[str, Handled]) -> tuple[CoreTrial, ...]:
        """Return how each core's time was divided."""
        work = self.shared_work(handled)
        assigned = {
            account
            for account, part in ((BACKLOG, "backlog"), (NET_TX, "transmit"))
            if any(one.part == part and one.assigned for one in work)
        }
        return tuple(self._of_core(core, assigned) for core in self.online)

    def _of_core(self, core: int, assigned: set[int]) -> CoreTrial:
        use, window = self.uses[core], self.window_ns
        stolen = use[STEAL].thread_ns
        softirq = sum(used.softirq_ns for used in use)
        idle, process = use[IDLE].thread_ns, use[PROCESS].thread_ns
        threads = sum(used.thread_ns for used in use) - idle - process - stolen
        busy = softirq + threads + process
        # These four add up to the window: what was stolen counts with those that it was taken from.
        scale = (busy + stolen) / busy / window if busy else 0.0
        spent = self.ticks[1][core].since(self.ticks[0][core])
        # The sum is exact; only the kernel's ticks tell user from system time.
        user_ticks = spent.user + spent.nice
        ticks = user_ticks + spent.system
        user = process * user_ticks / ticks if ticks else process
        mine = sum(_time_ns(use[account]) for account in self.accounts.all)
        return CoreTrial(
            core=core,
            part=self._part(core),
            user=user * scale,
            system=(threads + process - user) * scale,
            softirq=softirq * scale,
            idle=(idle if busy else idle + stolen) / window,
            routers=mine / window,
            steal=self.stolen(core),
            parts=self._parts(core, assigned if core in self.cores.dut else set()),
        )

    def _parts(self, core: int, assigned: set[int]) -> dict[CorePartName, float]:
        """Divide a core's time into routers' own, shared work, and the rest, by name."""
        use = self.uses[core]
        shared = [*self.accounts.shared, *assigned]
        nobodys = [account for account in (BACKLOG, NET_TX) if account not in assigned]
        by_name: dict[CorePartName, Sequence[int]] = {
            "own": self.accounts.owned,
            "shared": shared,
            "interrupts": (INTERRUPT,),
            "softirqs": (SOFTIRQ, *nobodys),
            "other_nics": (OTHER_NIC,),
            "kernel_threads": (KTHREAD,),
            "processes": (PROCESS,),
            "steal": (STEAL,),
            "idle": (IDLE,),
        }
        return {
            name: sum(_time_ns(use[account]) for account in accounts) / self.window_ns
            for name, accounts in by_name.items()
        }

    def _part(self, core: int) -> CorePart:
        if core in self.cores.dut:
            return "dut"
        return "measure" if core in self.cores.measure else "other"

"""CPU accounting: the CPU time that each router and each core used in one trial."""

from __future__ import annotations

from dataclasses import dataclass

from isolane import _native
from isolane.procfs import TICK_NS, CoreTicks
from isolane.run.live.cores import Cores
from isolane.run.live.managed import Managed
from isolane.run.results import CorePart, CoreTrial, Placement
from isolane.testbed import Testbed

FIXED = _native.CpuAccountant.fixed()
IDLE, PROCESS, BACKLOG = FIXED.index("idle"), FIXED.index("process"), FIXED.index("backlog")
SHARED_REASON = (
    "one receive context serves all routers of this path, and the kernel does not tell their "
    "shares apart"
)

Ticks = dict[int, CoreTicks]
CpuUses = list[list[_native.CpuUse]]
"""What each account used of each core in the window: ``[core][account]``."""


@dataclass(frozen=True)
class Accounts:
    """The CPU accountant's account numbers, by whom they belong to."""

    by_router: dict[str, int]
    shared: int
    alone: frozenset[str] = frozenset()
    """Routers whose work is all on their own account; shared time is then the host's."""

    @property
    def all(self) -> tuple[int, ...]:
        """Every account that receive processing is charged to."""
        return (*self.by_router.values(), self.shared)


def open_accounts(
    accountant: _native.CpuAccountant, bed: Testbed, routers: list[str], managed: Managed
) -> Accounts:
    """Tell the accountant which interfaces and threads belong to whom."""
    first = _native.CpuAccountant.FIRST_OWN
    by_router = {router: first + i for i, router in enumerate(routers)}
    accounts = Accounts(by_router, first + len(routers), frozenset(managed.threads))
    accountant.forget()
    for nic in bed.dut_interfaces:
        account = accounts.shared if nic.router is None else by_router[nic.router]
        accountant.add_nic(netns=nic.netns, ifindex=nic.ifindex, account=account)
        for thread in bed.receive_threads.get(nic.ifname, ()):
            accountant.add_thread(thread=thread, account=account)
    for router, threads in managed.threads.items():
        for thread in threads:
            accountant.add_thread(thread=thread, account=by_router[router])
        side = bed.host_sides[router]  # polled on top of the router's thread that sends
        accountant.add_nic(netns=side.netns, ifindex=side.ifindex, account=by_router[router])
    for thread in managed.nic_threads:
        accountant.add_thread(thread=thread, account=accounts.shared)
    return accounts


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

    def of_router(self, router: str) -> int | None:
        """Return the CPU time of a router, ns; None where it shares its context with others."""
        account = self.accounts.by_router[router]
        own = self._used(account)
        if own or router in self.accounts.alone or not self._used(self.accounts.shared):
            return own
        if len(self.accounts.by_router) > 1:
            return None
        backlog = sum(self.uses[core][BACKLOG].softirq_ns for core in self.cores.dut)
        return self._used(self.accounts.shared) + backlog

    def _used(self, account: int) -> int:
        return sum(_time_ns(core[account]) for core in self.uses)

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

    def imbalance(self) -> float:
        """Return by how much a core's accounts miss the window at most, as a share of it."""
        sums = [sum(map(_time_ns, use)) for use in self.uses]
        return max(abs(total / self.window_ns - 1) for total in sums)

    def of_others(self, core: int) -> float:
        """Return the part of the window in which other processes had a core, 0 to 1."""
        return self.uses[core][PROCESS].thread_ns / self.window_ns

    def stolen(self, core: int) -> float:
        """Return the part of the window that the hypervisor took of a core, in whole ticks."""
        all_ticks = max(1, self.window_ns // TICK_NS)
        return min(1.0, self.ticks[1][core].since(self.ticks[0][core]).steal / all_ticks)

    def of_cores(self) -> tuple[CoreTrial, ...]:
        """Return how each core's time was divided."""
        return tuple(self._of_core(core) for core in range(len(self.uses)))

    def _of_core(self, core: int) -> CoreTrial:
        use, window = self.uses[core], self.window_ns
        softirq = sum(used.softirq_ns for used in use)
        idle, process = use[IDLE].thread_ns, use[PROCESS].thread_ns
        threads = sum(used.thread_ns for used in use) - idle - process
        spent = self.ticks[1][core].since(self.ticks[0][core])
        # The sum is exact; only the kernel's ticks tell user from system time.
        user_ticks = spent.user + spent.nice
        ticks = user_ticks + spent.system
        user = process * user_ticks / ticks if ticks else process
        mine = sum(_time_ns(use[account]) for account in self.accounts.all)
        return CoreTrial(
            core=core,
            part=self._part(core),
            user=user / window,
            system=(threads + process - user) / window,
            softirq=softirq / window,
            idle=idle / window,
            routers=mine / window,
            steal=self.stolen(core),
        )

    def _part(self, core: int) -> CorePart:
        if core in self.cores.dut:
            return "dut"
        return "measure" if core in self.cores.measure else "other"

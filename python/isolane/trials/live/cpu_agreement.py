"""Compares the CPU accountant with the kernel's own accounting of the same time.

Three comparisons for each core. (1) All accounts together are the window: this fails where time was
dropped or counted twice on its way through the accounts. (2) The time of all tasks, softirqs and
interrupts on top of them included, is what the CPU scheduler has added to their
``sum_exec_runtime``. (3) The time that the core idled is what ``/proc/stat`` says, which the kernel
measures at the entry to and the exit from idle: this fails where softirqs pass for idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isolane import _native
from isolane.procfs import TICK_NS
from isolane.results.cpu_results import CoreAudit
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.trials.live.cpu_accounting import IDLE, INTERRUPT, STEAL, CpuUses, Ticks

TASKS_BOUND = 0.01
"""Share of the window by which accountant and kernel may differ about tasks, besides interrupts and
steal: these come on top of a task, and only the accountant always takes them off its time."""
IDLE_BOUND = 0.04
"""Share of the trial by which they may differ about idle time, besides the kernel's resolution."""
IDLE_TICKS = 4
"""Idle and iowait are each rounded to ticks, twice."""
NS_PER_EVENT = 216.0
"""Cost of one run of the accountant's programs, as `benches/accountant.py` measured it on the
development machine: 166 to 239 with 95 %."""


@dataclass(frozen=True)
class IdleReading:
    """What accountant and kernel said of idle time at the same moment."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    idle_ns: Sequence[int]
    """By core: the accountant's figure, since it was loaded."""
    ticks: Ticks

    @classmethod
    def take(cls, accountant: _native.CpuAccountant, ticks: Ticks) -> IdleReading:
        """Read the accountant; `ticks` were read just before."""
        return cls(_native.monotonic_ns(), accountant.idle_ns(cores=1 + max(ticks)), ticks)


def kernel_times_idle(cmdline: Path = Path("/proc/cmdline")) -> bool:
    """Whether the kernel times idle, as it does unless ticks never stop (``nohz``, ``highres``)."""
    words = cmdline.read_text().split()
    return not {"nohz=off", "nohz=0", "highres=off"} & set(words)


@dataclass(frozen=True)
class Agreement:
    """The CPU accountant's figures of one trial beside the kernel's."""

    uses: CpuUses
    window_ns: int
    events: Sequence[int]
    """By core: runs of the accountant's programs in the window."""
    uncompared_ns: Sequence[int]
    """By core: time of tasks of which the kernel's figure is not known."""
    early_ns: Sequence[int]
    """By core: interrupts and softirqs that woke up a task on an idle core. The kernel charges the
    task from that moment, in the midst of them."""
    idle: tuple[IdleReading, IdleReading] | None
    """Before and after the trial; None where the kernel does not time idle."""
    online: Sequence[int]
    """The cores that there were."""

    def of_cores(self) -> tuple[CoreAudit, ...]:
        """Return the comparison of each core."""
        return tuple(self._of_core(core) for core in self.online)

    def _of_core(self, core: int) -> CoreAudit:
        use, window = self.uses[core], self.window_ns
        tasks = [used for account, used in enumerate(use) if account not in (IDLE, STEAL)]
        ours = sum(used.thread_ns + used.over_ns for used in tasks)
        kernel = sum(used.kernel_ns for used in tasks)
        return CoreAudit(
            core=core,
            accounted=sum(used.softirq_ns + used.thread_ns for used in use) / window,
            accountant_tasks_ns=ours,
            kernel_tasks_ns=kernel,
            tasks_difference=(ours - kernel) / window,
            uncompared=self.uncompared_ns[core] / window,
            early=self.early_ns[core] / window,
            idle_difference=self._idle_difference(core),
            events=self.events[core],
            overhead=self.events[core] * NS_PER_EVENT / window,
            ns_per_event=NS_PER_EVENT,
        )

    def _on_top(self, core: int) -> float:
        """Return the share of the window that interrupts and steal had of a core."""
        used = (self.uses[core][account] for account in (INTERRUPT, STEAL))
        return sum(one.softirq_ns + one.thread_ns for one in used) / self.window_ns

    def _beyond(self, core: CoreAudit) -> float:
        """Return by how much accountant and kernel differ about tasks without a reason."""
        early = core.early if core.tasks_difference < 0 else 0.0
        return abs(core.tasks_difference) - self._on_top(core.core) - early

    def _idle_difference(self, core: int) -> float | None:
        if self.idle is None:
            return None
        before, after = self.idle
        spent = after.ticks[core].since(before.ticks[core])
        ours = after.idle_ns[core] - before.idle_ns[core]
        kernel = (spent.idle + spent.iowait) * TICK_NS
        return (ours - kernel) / (after.at_ns - before.at_ns)

    def _idle_bound(self) -> float:
        if self.idle is None:
            return IDLE_BOUND
        return IDLE_BOUND + IDLE_TICKS * TICK_NS / (self.idle[1].at_ns - self.idle[0].at_ns)

    def invalid(self, limit: float) -> Iterator[InvalidReason]:
        """Yield the reasons why this trial's CPU figures cannot be believed.

        Parameters
        ----------
        limit
            Share of the window by which all accounts of a core may miss it.
        """
        found = self.of_cores()
        worst = max(found, key=lambda core: abs(core.accounted - 1))
        if abs(worst.accounted - 1) > limit:
            yield InvalidReason(
                InvalidKind.CPU_ACCOUNTING,
                f"the accounts of core {worst.core} miss the window by "
                f"{100 * abs(worst.accounted - 1):.1f} %",
            )
        worst = max(found, key=self._beyond)
        if self._beyond(worst) > TASKS_BOUND:
            yield InvalidReason(
                InvalidKind.CPU_DISAGREEMENT,
                f"on core {worst.core} the CPU accountant says that tasks ran for "
                f"{worst.accountant_tasks_ns / 1e6:.1f} ms, the CPU scheduler for "
                f"{worst.kernel_tasks_ns / 1e6:.1f} ms",
            )
        worst = max(found, key=lambda core: abs(core.idle_difference or 0))
        if abs(worst.idle_difference or 0) > self._idle_bound():
            yield InvalidReason(
                InvalidKind.CPU_DISAGREEMENT,
                f"on core {worst.core} CPU accountant and kernel differ about idle time by "
                f"{100 * abs(worst.idle_difference or 0):.1f} % of the trial",
            )

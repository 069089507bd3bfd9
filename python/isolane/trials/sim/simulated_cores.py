"""Cores of a simulated host: its CPU scheduler, and how a policy changes that."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from isolane.enforce.policy_plan import SLICE_NS
from isolane.trials.sim import simulation as to
from isolane.trials.sim.catalogue import SimHost

BEAT_NS: Final = 150_000
"""Between two choices of the CPU scheduler while routers compete, as the pacemaker has it."""
MACHINE_BEAT_NS: Final = 500_000
"""The same while a virtual machine waits for what computes."""
SAMPLE_NS: Final = 1_000_000
"""The same while one router alone has work: the pacemaker looks at the threads that often."""


def core(host: SimHost, number: int, *, xen: bool, beat_ns: int | None) -> to.Core:
    """Return a core.

    Parameters
    ----------
    host
        Its profile names the scheduler.
    number
        Of the core, from 0.
    xen
        Whether Xen's scheduler has it.
    beat_ns
        Between two beats of a pacemaker, each of which is a tick with a switch there and back;
        None: it has none.
    """
    of, paced = host.profile.host, beat_ns is not None
    scheduler = _cfs(host, beat_ns) if of.scheduler == "cfs" else _eevdf(host, beat_ns)
    return to.Core(
        name=f"cpu{number}",
        switch_ns=of.switch_ns,
        tick_cost_ns=of.tick_cost_ns + (2 * of.switch_ns if paced else 0),
        mode="hypervisor" if xen else "kernel",
        scheduler=to.CreditScheduler("credit") if xen else scheduler,
    )


def _cfs(host: SimHost, beat_ns: int | None) -> to.CfsScheduler:
    of = host.profile.host
    cfs = to.CfsScheduler(
        "cfs",
        int(of.latency_ns),
        int(of.min_granularity_ns),
        int(of.wakeup_granularity_ns),
        irq_time_accounting=_accounting(host),
    )
    if beat_ns is not None:
        cfs = replace(cfs, latency_ns=SLICE_NS, min_granularity_ns=SLICE_NS, tick_ns=beat_ns)
    return cfs


def _eevdf(host: SimHost, beat_ns: int | None) -> to.EevdfScheduler:
    slice_ns, accounting = int(host.profile.host.slice_ns), _accounting(host)
    return to.EevdfScheduler("eevdf", slice_ns, beat_ns, irq_time_accounting=accounting)


def _accounting(host: SimHost) -> bool | None:
    """Return what differs from the simulator's own default."""
    return None if host.profile.host.irq_time_accounting else False


def of_policy(host: SimHost, context: to.Context, *, own_wire: bool) -> to.Context:
    """Return a thread as a policy has it: with a short slice, where the scheduler knows such.

    Parameters
    ----------
    host
        Its profile names the scheduler.
    context
        The thread.
    own_wire
        Whether it polls an interface that one router has to itself: it never takes the core
        because it wakes (`SCHED_BATCH`).
    """
    if host.profile.host.scheduler == "cfs":
        return context
    return replace(context, slice_ns=SLICE_NS, batch=True if own_wire else None)

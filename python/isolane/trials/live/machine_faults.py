"""What the machine did to a trial: work on other cores, work of others, doubtful accounts."""

from __future__ import annotations

from collections.abc import Iterator

from isolane.results.invalid import InvalidKind, InvalidReason, disturbances, proven
from isolane.trials.backend import Setting
from isolane.trials.live.cpu_accounting import CpuAccounting
from isolane.trials.live.cpu_agreement import Agreement


def misplaced(cpu: CpuAccounting, limit: float) -> Iterator[InvalidReason]:
    """Yield how many frames were received on other cores, if that is more than a part of them."""
    placement = cpu.placement()
    frames = placement.frames_on_dut + placement.frames_elsewhere
    if placement.frames_elsewhere > limit * frames:
        yield InvalidReason(
            InvalidKind.MISPLACED,
            f"{placement.frames_elsewhere} of {frames} frames were received away from the DUT's "
            "cores",
        )


def machine_faults(
    setting: Setting, cpu: CpuAccounting, agreement: Agreement
) -> Iterator[InvalidReason]:
    """Yield what is wrong with the CPU accounts, and who else used a DUT core in the window."""
    yield from agreement.invalid(setting.budget.limit)
    for core in cpu.cores.dut:
        stolen = cpu.stolen(core)
        if not cpu.stolen_exactly(core):
            stolen = proven(stolen, setting.window_ns)
        yield from disturbances(core, cpu.of_others(core), stolen, setting.budget)

"""What a trial is asked for, from its purpose."""

from __future__ import annotations

from isolane.analysis import generator_maximum, null_dut
from isolane.results.error_budget import ErrorBudget
from isolane.run import generator_search, null_blocks
from isolane.run.capacity_trials import WARMUP_NS, WINDOW_NS
from isolane.run.schedule import Task
from isolane.spec import TrialPlan
from isolane.spec.demands import Demand
from isolane.trials.backend import Setting


def setting_of(
    plan: TrialPlan, task: Task, demands: tuple[Demand, ...], peak_pps: float
) -> Setting:
    """Return what a trial of a task is asked for.

    Parameters
    ----------
    peak_pps
        Highest offered load of all points and arms, frames/s.
    """
    warmup_ns, window_ns = plan.warmup_ns, plan.duration_ns
    of_round = task.purpose == "measure"
    if task.purpose == null_dut.PURPOSE:
        warmup_ns, window_ns = null_blocks.null_times(warmup_ns, window_ns)
    if task.purpose == generator_maximum.PURPOSE:
        warmup_ns, window_ns = generator_search.WARMUP_NS, generator_search.WINDOW_NS
    if task.purpose == "capacity":
        warmup_ns, window_ns = min(warmup_ns, WARMUP_NS), min(window_ns, WINDOW_NS)
    return Setting(
        demands=demands,
        warmup_ns=warmup_ns,
        window_ns=window_ns,
        label="/".join(map(str, task.key)),
        budget=ErrorBudget(plan.threshold),
        as_sent=of_round,
        peak_pps=peak_pps,
        capture=plan.capture and of_round,
        cpu_profile=of_round,
    )

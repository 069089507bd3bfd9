"""What routers are offered in a trial, as the simulator has it."""

from __future__ import annotations

from isolane.spec import Experiment
from isolane.spec.demands import Demand
from isolane.trials.backend import Setting
from isolane.trials.sim import simulation as to
from isolane.trials.sim.web_requests import Peers
from isolane.trials.sim.web_requests import traffic as requests


def traffic(
    experiment: Experiment, setting: Setting, peers: Peers, end_ns: int
) -> tuple[to.Traffic, ...]:
    """Return what all routers are offered.

    Parameters
    ----------
    peers
        Clients and web servers.
    end_ns
        From when on nothing is sent, ns.
    """
    found: list[to.Traffic] = []
    for demand in setting.demands:
        if demand.router.mode == "http":
            if demand.router.load.value > 0:
                kept = experiment.traffic_of(demand.router.name).keep_alive
                found += requests(demand, peers, keep_alive=kept, end_ns=end_ns)
        elif demand.offered_pps > 0:
            name = demand.router.name
            weighted = experiment.traffic_of(name).frame_sizes()
            sizes = tuple(size for size, weight in weighted for _ in range(weight))
            frame_bytes = sizes[0] if len(sizes) == 1 else sizes
            pattern, begins_ns = _pattern(demand, setting), 0
            if (late_ns := _late_ns(demand, setting)) is not None:
                begins_ns = setting.warmup_ns + late_ns
            if setting.priming is not None:
                begins_ns = max(begins_ns, setting.priming.duration_ns)
                above = to.Pattern("cbr", setting.priming_pps(demand))
                found.append(to.Traffic(f"{name}/priming", name, frame_bytes, above, begins_ns))
            found.append(to.Traffic(name, name, frame_bytes, pattern, end_ns, begins_ns))
    return tuple(found)


def _late_ns(demand: Demand, setting: Setting) -> int | None:
    """Return when a router's frames begin, ns from the start of the window; None: at once."""
    timing = demand.router.pattern.timing.within(setting.window_ns)
    if timing.kind != "from":
        return None
    return timing.start_ns(setting.window_ns, f"{setting.label}/{demand.router.name}")


def _pattern(demand: Demand, setting: Setting) -> to.Pattern:
    pps = demand.offered_pps
    timing = demand.router.pattern.timing.within(setting.window_ns)
    match timing.kind:
        case "poisson":
            return to.Pattern("poisson", pps)
        case "bursts":
            return to.Pattern("on-off", pps, on_ns=timing.on_ns, period_ns=timing.period_ns)
        case "ramp":
            return to.Pattern("ramp", pps, mid_ns=setting.mid_ns)
        case "from":
            left_ns = setting.window_ns - (_late_ns(demand, setting) or 0)
            return to.Pattern("cbr", pps * setting.window_ns / left_ns)
        case "constant":
            return to.Pattern("cbr", pps)

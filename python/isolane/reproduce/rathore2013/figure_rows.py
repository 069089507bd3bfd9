"""The rows of the tables: all figures of the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolane.reproduce.model import Row
from isolane.reproduce.rathore2013.names import (
    ONE_CORE,
    SCENARIO1,
    SCENARIO2,
    THROUGHPUT,
    TWO_CORES,
    WORDS,
)
from isolane.reproduce.trials import TOTAL, Figure, Trials, figures_of

_UNITS = {
    "throughput": ("kpps", 1e-3),
    "cpu": ("%", 100.0),
    "cpu-kernel": ("%", 100.0),
    "cpu-user": ("%", 100.0),
    "delay": ("µs", 1e-3),
}
"""Unit of each metric in the paper, and the factor that converts to it."""

_VR = {"vr1": "VR1", "vr2": "VR2", "vr": "router", TOTAL: "total"}
_CPU = {"cpu": "CPU", "cpu-kernel": "CPU, kernel", "cpu-user": "CPU, user"}


def of(found: Trials, figures: Sequence[str], *, fitted: bool) -> tuple[Row, ...]:
    """Return the rows of some figures."""
    return tuple(row for figure in figures for row in _rows(found, figure, fitted=fitted))


_ONE = (("vr", "throughput"),)
_SUM = ((TOTAL, "throughput"),)
_BOTH = (("vr1", "throughput"), ("vr2", "throughput"))
_CPUS = (("vr1", "cpu"), ("vr2", "cpu"), (TOTAL, "cpu"))
_PARTS = tuple((TOTAL, metric) for metric in ("cpu-kernel", "cpu-user", "cpu"))
_ALL = ("native", "container-sriov", "vm-sriov", "container-macvlan", "vm-macvtap")

_WANTED: dict[str, tuple[str, str, Sequence[str], Sequence[tuple[str, str]]]] = {
    "4": ("figure 4", THROUGHPUT, _ALL, _ONE),
    "5": ("figure 5", THROUGHPUT, ("vm-macvtap", "vm-sriov"), _PARTS),
    "6": ("figure 6", THROUGHPUT, _ALL, (("vr", "delay"),)),
    "7": ("figure 7", ONE_CORE, _ALL[1:], _SUM),
    "8": ("figure 8", TWO_CORES, _ALL[1:3], _SUM),
    "table1": ("table 1", SCENARIO1, ("container-sriov",), (*_BOTH, (TOTAL, "cpu"))),
    "table2": ("table 2", SCENARIO1, ("vm-sriov",), (*_BOTH, *_CPUS)),
    "scenario2": (
        "scenario II",
        SCENARIO2,
        ("container-sriov", "vm-sriov", "vm-sriov-shares"),
        (*_BOTH, *_CPUS),
    ),
}
"""What each figure is called, its experiment, arms, and pairs of router and metric."""


def _rows(found: Trials, figure: str, *, fitted: bool) -> Iterator[Row]:
    figure_name, name, arms, about = _WANTED[figure]
    for arm in arms:
        experiment = found.experiments[name]
        published = {(f.arm, f.point, f.router, f.metric): f for f in figures_of(experiment)}
        points = experiment.points()
        for point in points[-1:] if figure == "6" else points:
            for router, metric in about:
                known = published.get((arm, point.index, router, metric))
                asked = Figure(name, arm, point.index, router, metric, None)
                unit, scale = _UNITS[metric]
                simulated = found.value(known or asked)
                theirs = None if known is None else known.published
                loads = {r.name: r.load.value / 1e3 for r in point.routers}
                several = len(loads) > 2 or figure_name in {"figure 7", "figure 8"}
                if several:
                    loads = {f"{len(loads)} routers": sum(loads.values())}
                yield Row(
                    paper="rathore2013",
                    figure=figure_name,
                    configuration=WORDS[arm],
                    offered={name: round(rate, 3) for name, rate in loads.items()},
                    quantity=_quantity(router, metric),
                    unit=unit,
                    published=None if theirs is None else round(theirs * scale, 6),
                    simulated=None if simulated is None else simulated * scale,
                    fitted=fitted and theirs is not None,
                    note=found.note(known or asked),
                )


def _quantity(router: str, metric: str) -> str:
    if metric == "throughput":
        return "throughput" if router in {"vr", TOTAL} else f"throughput {_VR[router]}"
    if metric == "delay":
        return "median latency"
    return _CPU[metric] if router == TOTAL else f"{_CPU[metric]} {_VR[router]}"

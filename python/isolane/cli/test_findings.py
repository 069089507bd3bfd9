"""The table of a verification: figures in their units, reasons in full."""

from __future__ import annotations

import io

from rich.console import Console

from isolane.cli.findings import print_report
from isolane.verify import Finding, Report

FINDINGS = (
    Finding(
        router="gold", promise="cpu_weight", about="all overloaded", verdict="held", unit="share",
        promised=2 / 3, measured=0.67, low=0.66, high=0.68, margin=0.67 - 2 / 3, tolerance=0.01,
    ),
    Finding(
        router="gold", promise="rate_min", about="every router fills eth1", verdict="broken",
        unit="bps", promised=200e6, measured=150e6, low=140e6, high=160e6, margin=-50e6,
        tolerance=2e6,
    ),
    Finding(
        router="tin", promise="rate_max", about="ingress", verdict="not measured", unit="pps",
        promised=100e3, why="its egress ceiling in bps is reached before",
    ),
)  # fmt: skip


def printed(notes: tuple[str, ...] = ()) -> list[str]:
    report = Report(
        policy="edge", mode="test bed", findings=FINDINGS, trials=12, trials_without_verdict=3,
        repeats=3, window_s=0.3, notes=notes,
    )  # fmt: skip
    out = io.StringIO()
    print_report(report, Console(file=out))
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_figures_have_units_signs_and_verdicts() -> None:
    lines = printed()
    assert "gold cpu_weight all overloaded at least 66.67 % 67.00 % +0.33 pp held" in lines
    assert (
        "gold rate_min every router fills eth1 at least 200 Mbps 150 Mbps -25.00 % broken" in lines
    )
    assert (
        "tin rate_max ingress at most 100 kpps not measured: its egress ceiling in bps is "
        "reached before"
    ) in lines


def test_the_sum_counts_all_verdicts_and_trials() -> None:
    lines = printed(("tin has an interface to itself",))
    total = "policy edge, test bed: 1 held, 1 broken, 1 not measured; "
    assert total + "12 trials (3 invalid) of 300 ms" in lines
    assert lines[-1] == "tin has an interface to itself"

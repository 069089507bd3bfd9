"""The table of a verification: figures in their units, reasons in full."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import get_args

import pytest
from rich.console import Console

from isolane.cli.findings import print_report
from isolane.cli.verify import judge
from isolane.errors import IsolaneError
from isolane.verify import Crowd, Finding, Report
from isolane.verify.report_data import Verdict

FINDINGS = (
    Finding(
        router="gold", promise="cpu_weight", about="all overloaded", verdict="held", unit="share",
        promised=2 / 3, measured=0.67, low=0.66, high=0.68, margin=0.67 - 2 / 3, tolerance=0.01,
        interval=(0.665, 0.675), pairs=12, pairs_kept=12, error_bound=0.0004,
    ),
    Finding(
        router="gold", promise="rate_min", about="every router fills eth1", verdict="broken",
        unit="bps", promised=200e6, measured=150e6, low=140e6, high=160e6, margin=-50e6,
        tolerance=2e6, pairs=7, pairs_kept=1, error_bound=0.041, why="its frames were lost early",
    ),
    Finding(
        router="gold", promise="retained", about="while tin is overloaded", verdict="undecided",
        unit="share", promised=1.0, measured=0.99, low=0.97, high=1.0, margin=-0.01, tolerance=0.01,
        interval=(0.98, 1.0), pairs=20, pairs_kept=11, error_bound=0.7, why="kept in 11 of 20",
    ),
    Finding(
        router="tin", promise="rate_max", about="ingress", verdict="not measured", unit="pps",
        promised=100e3, why="its egress ceiling in bps is reached before",
    ),
)  # fmt: skip


REPORT = Report(
    policy="edge", mode="test bed", findings=FINDINGS, trials=12, trials_without_verdict=3,
    window_s=0.3, took_s=71.6, time_limit_s=120, seed=1, error_rate=0.05,
    crowds=(
        Crowd(
            routers=("gold", "tin"), alone_pps=500e3, together_pps=350e3, cost=0.3,
            interval=(0.28, 0.33), pairs=12,
        ),
    ),
)  # fmt: skip


def printed(
    notes: tuple[str, ...] = (), findings: Sequence[Finding] = FINDINGS, *, details: bool = False
) -> list[str]:
    report = REPORT.model_copy(update={"notes": notes, "findings": tuple(findings)})
    out = io.StringIO()
    print_report(report, Console(file=out), details=details)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def test_figures_have_units_signs_and_verdicts() -> None:
    lines = printed()
    assert (
        "gold cpu_weight all overloaded at least 66.67 % 67.00 % +0.33 pp 66.50 % - 67.50 % "
        "12 of 12 < 0.1 % held"
    ) in lines
    assert (
        "gold rate_min every router fills eth1 at least 200 Mbps 150 Mbps -25.00 % - 1 of 7 4.1 % "
        "broken: its frames were lost early"
    ) in lines
    assert (
        "gold retained while tin is overloaded at least 100.00 % 99.00 % -1.00 pp "
        "98.00 % - 100.00 % 11 of 20 70.0 % undecided: kept in 11 of 20"
    ) in lines
    assert (
        "tin rate_max ingress at most 100 kpps not measured: its egress ceiling in bps is "
        "reached before"
    ) in lines


def test_the_sum_counts_all_verdicts_and_trials() -> None:
    lines = printed(("tin has an interface to itself",), details=True)
    assert lines[0] == "policy edge, test bed: 1 held, 1 broken, 1 undecided, 1 not measured"
    assert "12 trials (3 invalid) of 300 ms in 72 s of at most 120 s" in lines
    assert lines[-1] == "tin has an interface to itself"


def test_what_is_not_held_comes_first_and_of_many_alone() -> None:
    words = [line.split()[1] for line in printed()[2:6]]
    assert words == ["rate_min", "retained", "rate_max", "cpu_weight"], "broken first"
    held, *others = FINDINGS
    far = held.model_copy(update={"router": "zinc", "margin": 0.3})
    many = [far, held, *[far] * 4, *others]
    lines = printed(findings=many)
    assert lines[0] == "policy edge, test bed: 6 held, 1 broken, 1 undecided, 1 not measured"
    assert not [line for line in lines if line.startswith(("gold cpu_weight", "zinc"))]
    assert "held: 6, the closest gold cpu_weight by +0.33 pp; all 9 promises: --details" in lines
    assert len([line for line in printed(findings=many, details=True) if "cpu_weight" in line]) == 6


def test_where_everything_holds_two_lines_say_so() -> None:
    lines = printed(findings=[FINDINGS[0]] * 9)
    assert lines[0] == "policy edge, test bed: 9 held"
    assert lines[1] == "held: 9, the closest gold cpu_weight by +0.33 pp; all 9 promises: --details"


def test_what_overload_costs_is_a_finding_of_its_own() -> None:
    assert (
        "overload costs 30.0 % (28.0 to 33.0 %): gold, tin together forward 350 kpps, one of them "
        "alone 500 kpps"
    ) in printed()


def test_the_error_rate_of_the_table_is_told() -> None:
    (line,) = [line for line in printed(details=True) if line.startswith("error: ")]
    assert "5 % at most" in line


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ("held", 0),
        ("held, not measured", 0),
        ("held, broken, undecided, not measured", 4),
        ("held, undecided, not measured", 1),
        ("undecided", 1),
        ("not measured", 3),
    ],
)
def test_the_exit_status_fits_the_verdicts(verdicts: str, status: int) -> None:
    by_verdict = {finding.verdict: finding for finding in FINDINGS}
    findings = tuple(by_verdict[verdict] for verdict in get_args(Verdict) if verdict in verdicts)
    report = REPORT.model_copy(update={"findings": findings})
    if status == 0:
        judge(report.count)
        return
    with pytest.raises(IsolaneError) as caught:
        judge(report.count)
    assert caught.value.exit_code == status

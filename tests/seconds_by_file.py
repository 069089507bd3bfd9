"""At the end of a run with ``--durations``: how long each file of tests took, the longest first."""

from __future__ import annotations

from collections import defaultdict

import pytest

_SHOWN = 25


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Add up set-up, call and tear-down of all tests of a file."""
    if not config.getoption("durations"):
        return
    by_file: dict[str, list[float]] = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                by_file[report.location[0]].append(report.duration)
    terminalreporter.section("seconds by file")
    longest = sorted(by_file, key=lambda file: -sum(by_file[file]))
    for file in longest[:_SHOWN]:
        terminalreporter.write_line(f"{sum(by_file[file]):8.1f} s  {file}")
    rest = sum(sum(by_file[file]) for file in longest[_SHOWN:])
    terminalreporter.write_line(f"{rest:8.1f} s  {max(0, len(longest) - _SHOWN)} other files")

"""What the doctor says on one screen: jobs first, then what is missing, by name."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from isolane.doctor.answers import Finding, Status
from isolane.doctor.capabilities import CAPABILITIES
from isolane.doctor.short_answer import JOBS, render_answer


def findings(**changed: Status) -> list[Finding]:
    """All capabilities are there, but for those that are changed."""
    every = [
        Finding(
            one.id, one.group, one.title, "yes", "tried", rules_out=one.rules_out, remedy=one.remedy
        )
        for one in CAPABILITIES.values()
    ]
    return [replace(one, status=changed.get(one.id.replace("-", "_"), "yes")) for one in every]


def lines(found: list[Finding]) -> list[str]:
    text = io.StringIO()
    render_answer(found, Console(file=text, width=100))
    told = [line.rstrip() for line in text.getvalue().splitlines()]
    assert len(told) <= 12
    assert max(map(len, told)) <= 100
    return told


def test_where_everything_works_nothing_else_is_said() -> None:
    told = lines(findings())
    assert [line.split()[0] for line in told[:3]] == list(JOBS)
    assert all(line.endswith("  works") for line in told[:3])
    assert told[3:] == [
        f"{len(CAPABILITIES)} yes: --details says what each is for, and how to get it"
    ]


def test_what_a_job_lacks_or_has_less_of_stands_beside_it() -> None:
    uml, clsact = CAPABILITIES["uml"].title, CAPABILITIES["qdisc-clsact"].title
    told = lines(findings(uml="no", qdisc_clsact="limited"))
    assert told[0].endswith("  works")
    assert told[1].endswith(f"works, with limits: {clsact}")
    assert told[2].endswith(f"not here: {uml} (no)")
    assert told[3:5] == [f"no: {uml}", f"limited: {clsact}"]
    assert told[5].startswith(f"{len(CAPABILITIES) - 2} yes, 1 limited, 1 no: ")


def test_a_long_list_of_what_is_missing_is_cut() -> None:
    nothing: dict[str, Status] = {name.replace("-", "_"): "no" for name in CAPABILITIES}
    told = lines(findings(**nothing))
    assert "not here: Root (no)" in told[0]
    assert told[-2].endswith(", ...")
    assert told[-1].startswith(f"{len(CAPABILITIES)} no: ")

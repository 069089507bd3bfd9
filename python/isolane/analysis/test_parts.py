"""Parts of a frame's way: what is left for the last one, and what comes of several trials."""

from __future__ import annotations

from typing import Any

import pytest

from isolane import _native
from isolane.analysis.part_cells import part_cells
from isolane.results.parts import LAST, PART_WORDS, WHOLE, PartTime, with_last
from isolane.results.results import DROP_POINTS, RouterTrial, Trial

FIRST = PartTime(part="router-in", frames=10, mean_ns=30.0, p50_ns=30.0, p99_ns=40.0, max_ns=50.0)
SECOND = PartTime(part="router-out", frames=9, mean_ns=20.0, p50_ns=20.0, p99_ns=21.0, max_ns=22.0)
ALL = PartTime(part=WHOLE, frames=9, mean_ns=20.0, p50_ns=20.0, p99_ns=21.0, max_ns=22.0)


def test_the_last_part_is_what_is_left_of_the_delay() -> None:
    parts = with_last((FIRST, SECOND, ALL), 9, 65.0)
    assert parts[:3] == (FIRST, SECOND, ALL)
    assert (parts[3].part, parts[3].frames, parts[3].mean_ns) == (LAST, 9, 15.0)
    assert parts[3].p50_ns is None


def router(parts: tuple[PartTime, ...] | None) -> RouterTrial:
    return RouterTrial(
        router="one", group="one", role="victim", kind="container", path="direct", load_x=None,
        offered_pps=1.0, generated_pps=1.0, received_pps=1.0, offered_frames=1, generated_frames=1,
        received_frames=1, offered_total=1, received_total=1, lost=dict.fromkeys(DROP_POINTS, 0),
        loss_ratio=0.0, delay=None, reordered=0, duplicated=0, cpu_ns=None, cpu_share=None,
        cpu_ns_per_frame=None, cpu_reason=None, parts=parts,
    )  # fmt: skip


def runs(*parts: tuple[PartTime, ...] | None) -> list[tuple[Trial, RouterTrial]]:
    plain: dict[str, Any] = {
        "arm": "a", "point": 0, "point_label": "p", "started_unix_s": 0.0, "window_s": 1.0,
        "status": "ok", "reason": None, "conserved": True,
    }  # fmt: skip
    return [
        (Trial(trial=i, repeat=i, routers=(mine,), **plain), mine)
        for i, mine in enumerate(map(router, parts))
    ]


def later(part: PartTime, ns: float) -> PartTime:
    return part.model_copy(update={"mean_ns": part.mean_ns + ns, "max_ns": 100.0 + ns})


def test_parts_of_several_trials_are_told_in_the_order_of_the_way() -> None:
    found = part_cells(runs(*((later(SECOND, i), later(FIRST, i), ALL) for i in (0, 1, 2))))
    assert [part.part for part in found] == ["router-in", "router-out", WHOLE]
    assert [part.mean_ns.median for part in found] == [31.0, 21.0, 20.0]
    assert (found[0].mean_ns.n, found[0].frames, found[0].max_ns) == (3, 10, 102.0)
    assert found[0].p50_ns is not None
    assert found[0].p50_ns.median == 30.0


@pytest.mark.parametrize("lacking", [None, (), (FIRST.model_copy(update={"frames": 0}),)])
def test_a_trial_without_such_frames_is_left_out(lacking: tuple[PartTime, ...] | None) -> None:
    found = part_cells(runs((FIRST, SECOND), lacking))
    assert [(part.part, part.mean_ns.n) for part in found] == [("router-in", 1), ("router-out", 1)]
    assert part_cells(runs(lacking)) == ()


def test_each_part_has_words() -> None:
    assert [*list(PART_WORDS)[:-1], WHOLE] == _native.Points.names()
    assert list(PART_WORDS)[-1] == LAST

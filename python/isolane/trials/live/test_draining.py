from __future__ import annotations

from itertools import chain, count, repeat

from isolane.trials.live.draining import drained


def test_it_waits_until_nothing_more_arrives() -> None:
    arriving = chain((1, 2, 2, 3, 3, 3), repeat(4))
    assert drained(lambda: next(arriving), limit_s=600) == 4


def test_it_gives_up_where_frames_go_on_arriving() -> None:
    numbers = count(1)
    assert drained(lambda: next(numbers), quiet_s=0.01, limit_s=0.05) >= 1

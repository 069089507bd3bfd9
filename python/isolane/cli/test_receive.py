from __future__ import annotations

import pytest

from isolane.cli.receive import _telling


def test_frames_and_rate_are_told_each_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    moments = iter([0.0, 5.0, 10.0, 15.0, 22.5])
    with _telling(lambda: next(moments)) as tell:
        for total in (10_000, 20_000, 35_000, 45_000):
            tell(total)
    assert capsys.readouterr().err.splitlines() == [
        "isolane: 20000 frames, 2 kpps",
        "isolane: 45000 frames, 2 kpps",
    ]

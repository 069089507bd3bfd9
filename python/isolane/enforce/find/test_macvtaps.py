"""Which character devices are macvtaps."""

from __future__ import annotations

import os
from pathlib import Path

from isolane.enforce.find.macvtaps import devices_of, majors_of

LISTED = """\
Character devices:
  1 mem
 10 misc
245 macvtap
246 macvtap
247 ipvtap

Block devices:
  7 loop
250 macvtap
"""


def test_the_major_numbers_of_a_driver() -> None:
    assert majors_of(LISTED, "macvtap") == {245, 246}
    assert majors_of("", "macvtap") == set()


def test_a_process_without_macvtaps() -> None:
    with Path(os.devnull).open("rb"):
        assert devices_of(os.getpid()) == set()
    assert devices_of(2**22) == set(), "there is no such process"

"""What a rate limit drops is missing at the receiver, and counted."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.shapers import limit, sent_and_received
from tests.wires import routed_line

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_what_a_limit_drops_is_missing_and_counted(kind: str, tmp_path: Path) -> None:
    with routed_line(4) as line:
        assert line.router_netns
        limit(line.router_netns, line.router_out, kind)
        dropped, lost = 0, 0
        for turn in itertools.count():
            sent, arrived, missing = sent_and_received(line, tmp_path / str(turn), 0.5)
            lost += sent - arrived
            dropped = line.queue()["drops"]
            # The wire's own queue overflows on a machine that is busy with something else.
            assert lost == dropped + line.drops()
            assert missing <= sent - arrived, "what the receiver misses is what was lost"
            if missing and dropped:
                return
            assert turn < 20, "it never sent more than the limit"

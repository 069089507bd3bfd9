"""What a back-end sees to as it starts: open files, early drops, how frames arrive."""

from __future__ import annotations

import resource
import socket

import pytest

from isolane.errors import NotSupported
from isolane.netback.service import allow_descriptors, arrival_of
from isolane.spec.netback_models import UplinkEntry
from isolane.spec.schedulers import EarlyDrop

pytestmark = pytest.mark.native


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Stands for the process's limit: what it is now, and what it may be."""
    found = [(100, 1000)]

    def change(_: int, wanted: tuple[int, int]) -> None:
        if wanted[1] > found[0][1]:
            raise ValueError("not allowed to raise maximum limit")
        found[0] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: found[0])
    monkeypatch.setattr(resource, "setrlimit", change)
    return found


def test_a_limit_that_is_too_low_is_raised_as_far_as_needed(limits: list[tuple[int, int]]) -> None:
    allow_descriptors(4)
    assert limits == [(176, 1000)]
    allow_descriptors(1)
    assert limits == [(176, 1000)], "it is high enough"


def test_what_may_not_be_is_told(limits: list[tuple[int, int]]) -> None:
    with pytest.raises(NotSupported, match="256 ports need 3200 open files, and 1000 are allowed"):
        allow_descriptors(256)
    assert limits == [(100, 1000)]


def test_an_uplink_that_has_just_gone_is_told_of_by_the_next_step() -> None:
    gone = {"early_drop": "off", "receive_queues": 0}
    assert arrival_of(UplinkEntry(early_drop="driver"), 2**31 - 1) == gone


@pytest.mark.parametrize("word", ["driver", "socket", "off"])
def test_frames_of_each_receive_queue_arrive_as_the_uplink_says(word: EarlyDrop) -> None:
    """Veths: tests/netback/test_early_drop_live.py."""
    lo = socket.if_nametoindex("lo")
    assert arrival_of(UplinkEntry(), lo) == {"early_drop": "driver", "receive_queues": 1}
    uplink = UplinkEntry(early_drop=word, receive="packet")
    assert arrival_of(uplink, lo) == {"early_drop": word, "receive_queues": 0}

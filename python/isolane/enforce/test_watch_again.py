"""When a watcher applies a policy again because threads have ended, and when not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isolane.enforce.policy_lock import BusyError
from isolane.enforce.router_watcher import Watcher
from isolane.errors import NotSupported
from isolane.rtnl import NetlinkError

SWEEP_S = 60.0


class _Enforcer:
    """Tells which threads have ended, and refuses to apply."""

    base = None
    directory = Path("/nowhere")

    def __init__(self, error: Exception) -> None:
        self.error, self.lost, self.applied, self.sees = error, {"nic1"}, 0, True

    def look(self, _: Callable[..., object]) -> tuple[object, tuple[()], set[str]]:
        if not self.sees:
            raise self.error
        return object(), (), set(self.lost)

    def apply_again(self) -> None:
        self.applied += 1
        raise self.error


def watching(error: Exception, told: list[str] | None = None) -> tuple[Watcher, _Enforcer]:
    host = _Enforcer(error)
    as_enforcer: Any = host
    watcher = Watcher(as_enforcer, ([] if told is None else told).append, sweep_s=SWEEP_S)
    watcher._known = {}
    return watcher, host


def test_who_has_waited_for_another_command_searches_no_more_often_afterwards() -> None:
    watcher, host = watching(BusyError("another command is at work"))
    watcher.look()
    assert watcher._pause_s() < SWEEP_S
    host.lost = set()  # that command has applied it
    watcher.look()
    assert watcher._pause_s() == SWEEP_S


@pytest.mark.parametrize("event", [False, True])
def test_for_an_interface_that_is_down_it_waits_for_an_event(event: bool) -> None:
    watcher, host = watching(NotSupported("nic1 has no threads, or it is down"))
    for _ in range(3):
        watcher.look()
        watcher._in_vain -= {"nic1"} if event else set()
    assert host.applied == (3 if event else 1)
    assert event or watcher._pause_s() == SWEEP_S


@pytest.mark.parametrize("sees", [True, False])
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), NetlinkError(12, "memory")])
def test_it_goes_on_whatever_the_kernel_refuses(error: Exception, sees: bool) -> None:
    told: list[str] = []
    watcher, host = watching(error, told)
    host.sees = sees
    watcher.look()
    assert told == [f"not applied, will be tried again: {error}"]
    assert sees or watcher._pause_s() < SWEEP_S

"""What of a policy is taken back where it could not be put in force whole."""

from __future__ import annotations

from typing import Any

import pytest

from isolane.trials.live import managed
from isolane.trials.live.managed import Managed


class _Hand:
    """Puts half of a policy in force, and is interrupted."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def apply(self, _policy: object) -> None:
        self.done.append("apply")
        raise KeyboardInterrupt

    def clear(self) -> None:
        self.done.append("clear")


class _Bed:
    def stop_polling(self) -> None:
        pass


def test_a_signal_while_a_policy_is_put_in_force_takes_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand, bed, policy = _Hand(), _Bed(), object()
    monkeypatch.setattr(managed, "enforcer", lambda: hand)
    applied: Any = (bed, policy)
    with pytest.raises(KeyboardInterrupt), Managed(applied):
        pytest.fail("it was not put in force")
    assert hand.done == ["apply", "clear"]

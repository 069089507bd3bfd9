"""What stays loaded is used again where it fits, and loaded anew where it does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from isolane import _native
from isolane.trials.live.loaded import GeneratorTrial, Loaded


@dataclass
class Program:
    """Stands for a loaded generator, which takes trials of one cookie."""

    cookie: int
    trials: list[int] = field(default_factory=list)

    def reuse(self, *, cookie: int, end_ns: int, **_: Any) -> bool:
        if cookie == self.cookie:
            self.trials.append(end_ns)
        return cookie == self.cookie


@dataclass
class Accountant:
    open: bool = True

    def close(self) -> None:
        self.open = False


def trial(cookie: int, end_ns: int) -> GeneratorTrial:
    return GeneratorTrial(
        netns="", core=0, cookie=cookie, streams=[], window_start_ns=0, window_end_ns=0,
        end_ns=end_ns, peak_rate_millipps=0, bin_ns=0,
    )  # fmt: skip


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was loaded, in order."""
    found: list[Any] = []

    def generator(*, cookie: int, end_ns: int, **_: Any) -> Program:
        found.append(Program(cookie, [end_ns]))
        return found[-1]  # type: ignore[no-any-return]

    def accountant() -> Accountant:
        found.append(Accountant())
        return found[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr(_native, "Generator", generator)
    monkeypatch.setattr(_native, "CpuAccountant", accountant)
    return found


def test_a_generator_is_loaded_once_for_trials_that_fit(made: list[Any]) -> None:
    loaded = Loaded()
    used = [loaded.generator(trial(1, 10)), loaded.generator(trial(1, 20))]
    other = loaded.generator(trial(2, 30))
    again = loaded.generator(trial(2, 40))
    assert [one.trials for one in made] == [[10, 20], [30, 40]]
    assert [id(one) for one in (*used, other, again)] == [id(made[i]) for i in (0, 0, 1, 1)]


def test_the_accountant_is_loaded_once_until_it_is_closed(made: list[Any]) -> None:
    loaded = Loaded()
    assert made == [], "nothing is loaded before it is asked for"
    first = loaded.accountant()
    assert loaded.accountant() is first
    loaded.close()
    loaded.close()
    assert not made[0].open
    assert loaded.accountant() is not first
    assert made[1].open

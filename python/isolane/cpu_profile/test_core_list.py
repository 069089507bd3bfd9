from __future__ import annotations

import pytest

from isolane.cpu_profile import core_list
from isolane.cpu_profile.core_list import cores_of
from isolane.errors import SpecError


@pytest.fixture(autouse=True)
def _some_are_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_list, "online", lambda: (0, 1, 3, 4, 6))


@pytest.mark.parametrize(
    ("text", "cores"),
    [("", ()), ("3", (3,)), ("4,1", (1, 4)), ("0-4", (0, 1, 3, 4)), ("6,3-4,", (3, 4, 6))],
)
def test_a_list_names_cores(text: str, cores: tuple[int, ...]) -> None:
    assert cores_of("--cores", text) == cores


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("all", "'all' is no list"), ("4-1", "is no list"), ("-1", "is no list"),
        ("1-", "is no list"), ("1-2-3", "is no list"), ("1 3", "is no list"),
        ("2", "core 2 is not online; accepted: 0, 1, 3, 4, 6"), ("0-5", "core 5 is not online"),
    ],
)  # fmt: skip
def test_what_is_none_is_named(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        cores_of("--cores", text)

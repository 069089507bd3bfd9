from __future__ import annotations

import resource

import pytest

from isolane.open_files import allow_open_files

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "becomes"),
    [
        (1024, 4096, None, 4096),
        (1024, 4096, 2048, 2048),
        (1024, 4096, 9999, 4096),
        (1024, INFINITE, 2048, 2048),
        (4096, 4096, 2048, 4096),
        (3000, 4096, 2048, 3000),
        (INFINITE, INFINITE, 2048, INFINITE),
        (1024, INFINITE, None, INFINITE),
    ],
)
def test_the_limit_is_raised_and_never_falls(
    soft: int, hard: int, wanted: int | None, becomes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: now[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: now.append(limits))
    assert allow_open_files(wanted) == becomes
    assert now[-1] == (becomes, hard)
    assert len(now) == (1 if becomes == soft else 2)


def test_what_the_kernel_refuses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, INFINITE))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert allow_open_files() == 1024

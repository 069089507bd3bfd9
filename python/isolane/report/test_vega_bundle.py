from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import vl_convert

from isolane.report.vega_bundle import bundle

_put_together = functools.cache(vl_convert.javascript_bundle)
"""Takes more than a second, so that these tests do it once."""


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(vl_convert, "javascript_bundle", _put_together)
    bundle.cache_clear()
    yield
    bundle.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tmp_path.chmod(0o755)
    return tmp_path / "cache"


def kept(home: Path) -> Path:
    (file,) = (home / "isolane").iterdir()
    return file


def test_the_next_command_does_not_make_it_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bundle()
    assert kept(home).read_text() == made
    bundle.cache_clear()
    monkeypatch.delattr(vl_convert, "javascript_bundle")
    assert bundle() == made


def test_what_is_cut_short_is_made_again(home: Path) -> None:
    made = bundle()
    kept(home).write_text(made[:1000])
    bundle.cache_clear()
    assert bundle() == made == kept(home).read_text()


@pytest.mark.parametrize("trouble", ["open to others", "a file", "no home"])
def test_without_a_directory_of_its_own_it_is_made_and_not_kept(
    trouble: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if trouble == "open to others":
        home.mkdir()
        home.chmod(0o777)
    elif trouble == "a file":
        home.write_text("")
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setenv("HOME", "/absent/home")
    assert "vegaEmbed" in bundle()
    assert not home.is_dir() or not any(home.iterdir())

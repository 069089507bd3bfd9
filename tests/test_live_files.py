"""The plugin by which live tests alone are collected from their own files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import ROOT, environment
from tests.live_files import may_be_live

LIMIT_S = 600.0
PURE = "def test_it():\n    pass\n"
LIVE = f"import pytest\n\npytestmark = pytest.mark.root\n\n\n{PURE}"
UNSEEN = f"import pytest\n\npytestmark = getattr(pytest.mark, 'ro' + 'ot')\n\n\n{PURE}"


def collected(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    plugin = ("-p", "tests.live_files", "-p", "no:cacheprovider", "-q", "--collect-only")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options, str(folder)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_pure.py").write_text(PURE)
    (tmp_path / "test_live.py").write_text(LIVE)
    return tmp_path


def test_files_without_a_live_test_are_passed_over(folder: Path) -> None:
    (folder / "test_broken.py").write_text("raise AssertionError('nobody imports it')\n")
    done = collected(folder, "-m", "root")
    assert "1 test collected" in done.stdout, done.stdout
    assert "test_live.py::test_it" in done.stdout
    assert "deselected" not in done.stdout


def test_whoever_asks_for_others_gets_all(folder: Path) -> None:
    assert "2 tests collected" in collected(folder).stdout
    done = collected(folder, "-m", "not root")
    assert "1/2 tests collected (1 deselected)" in done.stdout, done.stdout


def test_a_live_test_that_would_be_passed_over_is_refused_by_name(folder: Path) -> None:
    (folder / "test_unseen.py").write_text(UNSEEN)
    done = collected(folder)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"live tests without a word of it: {folder / 'test_unseen.py'}" in done.stderr


@pytest.mark.parametrize(
    ("text", "live"),
    [
        ("@pytest.mark.root", True),
        ("def test_it(needs_root: None)", True),
        ("def test_it(playground: Playground)", True),
        ("root = Path('/')", False),
        ("mark.rooted, unneeds_root", False),
    ],
)
def test_what_makes_a_test_a_live_one_is_a_whole_word(
    text: str, live: bool, tmp_path: Path
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    assert may_be_live(file) == live

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.enforce.settings.controllers import needed, uses

NEW = {
    "cgroup.subtree_control": "memory pids\n", "cpu.weight": "100\n", "cpu.idle": "0\n",
    "cpu.max": "max 100000\n", "cpu.max.burst": "0\n", "cpu.uclamp.min": "0.00\n",
    "cpu.uclamp.max": "max\n",
}  # fmt: skip
"""A cgroup as Linux 6.18 makes it."""


def group(path: Path, **files: str) -> Path:
    path.mkdir()
    given = {name.replace("_", "."): text for name, text in files.items()}
    for name, text in {**NEW, **given}.items():
        (path / name).write_text(text)
    return path


def test_a_cgroup_that_nobody_has_set_anything_in_does_not_need_the_controller(
    tmp_path: Path,
) -> None:
    assert not uses(group(tmp_path / "a"), "cpu")
    (tmp_path / "b").mkdir()  # cpu is off: it has none of these files
    assert not uses(tmp_path / "b", "cpu")


@pytest.mark.parametrize(
    "files",
    [{"cpu_weight": "150\n"}, {"cpu_max": "50000 100000\n"}, {"cpu_idle": "1\n"},
     {"cpu_uclamp_max": "50.00\n"}],
)  # fmt: skip
def test_a_cgroup_with_a_share_or_a_cap_needs_it(tmp_path: Path, files: dict[str, str]) -> None:
    assert uses(group(tmp_path / "a", **files), "cpu")


def test_a_cgroup_that_passes_it_on_needs_it(tmp_path: Path) -> None:
    path = group(tmp_path / "a")
    (path / "cgroup.subtree_control").write_text("memory cpu\n")
    assert uses(path, "cpu")


def test_where_nothing_tells_who_came_later_it_is_needed(tmp_path: Path) -> None:
    assert needed(tmp_path, tmp_path / "gone", "cpu")
    assert not needed(tmp_path, None, "cpu")
    group(tmp_path / "a")
    assert needed(tmp_path, None, "cpu")

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from isolane.export import unit_files

UNITS = (
    "isolane-metrics.service",
    "isolane-netback@.service",
    "isolane-watch.service",
    "isolane.service",
)


def executable(folder: Path, name: str = "isolane") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def started(text: str) -> set[str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {value for key, value in parser["Service"].items() if key.startswith("Exec")}


def test_the_units_are_shipped_and_start_isolane() -> None:
    units = unit_files()
    assert tuple(units) == UNITS
    assert started(units["isolane.service"]) == {
        "isolane apply /etc/isolane/policy.yaml",
        "isolane clear",
    }
    assert started(units["isolane-watch.service"]) == {"isolane watch"}
    assert started(units["isolane-netback@.service"]) == {
        "isolane netback start /etc/isolane/netback/%i.yaml"
    }
    # Whoever stops the watcher or the counters does not stop what is in force.
    assert "ExecStop" not in units["isolane-watch.service"] + units["isolane-metrics.service"]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/opt/venv/bin/isolane", "/opt/venv/bin/isolane"),
        ("/opt/my venv/isolane", '"/opt/my venv/isolane"'),
        ("/opt/100%/isolane", "/opt/100%%/isolane"),
        ('/opt/a"b\\c/isolane', '"/opt/a\\"b\\\\c/isolane"'),
    ],
)
def test_a_path_is_written_as_systemd_reads_it(path: str, word: str) -> None:
    assert started(unit_files(path)["isolane-watch.service"]) == {f"{word} watch"}


@pytest.mark.parametrize("folder", ["plain", "100%"])
def test_systemd_accepts_them(tmp_path: Path, folder: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    (tmp_path / folder).mkdir()
    for name, text in unit_files(str(executable(tmp_path / folder))).items():
        (tmp_path / name).write_text(text)
    verified = subprocess.run(
        ["systemd-analyze", "verify",
         *(str(tmp_path / name.replace("@.", "@edge.")) for name in UNITS)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    about_them = [line for line in verified.stderr.splitlines() if "isolane" in line]
    assert (verified.returncode, about_them) == (0, []), verified.stderr

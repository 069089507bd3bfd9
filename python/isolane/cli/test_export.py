from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from isolane.cli.test_app import isolane
from tests.live import in_process


def test_the_dashboard_is_json_on_stdout_or_in_a_file(tmp_path: Path) -> None:
    shown = in_process("export", "grafana")
    assert shown.returncode == 0
    assert json.loads(shown.stdout)["title"] == "Isolane: virtual routers"
    file = tmp_path / "dashboard.json"
    written = in_process("export", "grafana", "-o", file)
    assert (written.returncode, written.stdout) == (0, "")
    assert file.read_text() == shown.stdout


def test_units_are_written_with_the_program_that_writes_them(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "isolane"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom isolane.cli import main\nmain()\n")
    program.chmod(0o755)
    done = subprocess.run(
        [program, "export", "systemd", "--output", tmp_path],
        capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    unit = (tmp_path / "isolane.service").read_text()
    assert f"\nExecStart={program} apply /etc/isolane/policy.yaml\n" in unit
    assert f"wrote {tmp_path / 'isolane-watch.service'}" in done.stderr
    # Otherwise, as here, they name a program that systemd finds by itself.
    assert "\nExecStart=isolane watch\n" in isolane("export", "systemd").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("grafana", "--listen", "127.0.0.1:1"), "--listen belongs to"),
        (("systemd", "--drift"), "--drift belongs to"),
        (("prometheus", "--output", "x"), "use --textfile"),
        (("prometheus", "--every", "1s"), "--every needs --textfile"),
        (("prometheus", "--listen", "127.0.0.1:1", "--textfile", "x"), "name one of them"),
        (("prometheus", "--textfile", "x", "--every", "0s"), "accepted: 1s to 24h"),
        (("prometheus", "--textfile", "x", "--every", ""), "--every: '' is not a duration"),
        (("prometheus", "--textfile", "x", "--every", "9e30h"), "accepted: 1s to 24h"),
        (("nagios",), "nagios"),
        ((), "prometheus|grafana|systemd"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[str, ...], words: str) -> None:
    refused = in_process("export", *arguments)
    assert refused.returncode == 2
    assert refused.stdout == ""
    # The message is in a frame, and broken into lines.
    assert words.split(maxsplit=1)[0] in " ".join(refused.stderr.replace("│", " ").split())


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    refused = in_process("export", "systemd", "-o", tmp_path / "none")
    assert refused.returncode == 1
    assert f"there is no directory {tmp_path}/none" in refused.stderr


def test_a_masked_unit_stays_masked(tmp_path: Path) -> None:
    masked = tmp_path / "isolane-watch.service"
    masked.symlink_to("/dev/null")
    refused = in_process("export", "systemd", "-o", tmp_path)
    assert refused.returncode == 1
    assert "systemctl unmask isolane-watch.service" in refused.stderr
    assert masked.is_symlink()


@pytest.mark.parametrize("sweep", ["0s", "0.5s", "", "9e30h"])
def test_a_watch_that_would_spin_or_never_look_is_refused(sweep: str) -> None:
    refused = in_process("watch", "--sweep", sweep)
    assert refused.returncode == 2
    assert "--sweep" in refused.stderr
    assert refused.stderr.count("\n") == 1

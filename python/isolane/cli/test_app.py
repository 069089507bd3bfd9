from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from isolane.cli.app import COMMANDS, guarded, needed
from isolane.errors import NotSupported, SpecError
from tests.live import in_process
from tests.loading import loaded, loading

HEAVY = ("polars", "numpy", "scipy", "altair", "pydantic", "pyroute2", "rich", "isolane._native")


def isolane(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "isolane", *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def fail(error: BaseException) -> NoReturn:
    raise error


@pytest.fixture(autouse=True)
def _same_signals_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_help_lists_every_command_and_teaches() -> None:
    shown = isolane("--help")
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert all(f"\n  {name} " in shown.stdout for name in COMMANDS)
    assert "isolane run experiments/noisy-neighbour.yaml" in shown.stdout
    assert "..." not in shown.stdout.split("Commands:")[1].split("Start here")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_has_examples(name: str) -> None:
    shown = in_process(name, "--help")
    assert shown.returncode == 0
    assert "Example" in shown.stdout


def test_building_the_application_imports_nothing_heavy() -> None:
    code = (
        "import sys; from isolane.cli.app import build; build();"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_a_dry_run_loads_nothing_that_it_can_do_without() -> None:
    """The live one: `tests/test_run_live.py`."""
    words = ["run", "experiments/noisy-neighbour.yaml", "--on", "sim", "--dry-run"]
    done = loading(*words)
    assert "a simulated host can run it" in done.stderr
    assert not loaded(done) & {"polars", "numpy", "scipy", "altair", "pyroute2", "isolane.run"}


def test_only_the_command_that_is_named_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(needed(["run", "x.yaml", "search"])) == ["run"]
    for words in ([], ["--help"], ["rnu"], ["--version", "run"]):
        assert needed(words) == COMMANDS
    mistyped = in_process("rnu", "x.yaml")
    assert "Did you mean 'run'?" in mistyped.stderr
    monkeypatch.setenv("_ISOLANE_COMPLETE", "complete_bash")
    assert needed(["run"]) == COMMANDS


def test_usage_errors_exit_2_and_go_to_stderr() -> None:
    for arguments in (("nope",), ("report",), ("report", "x", "--format", "docx"), ("--nope",)):
        shown = in_process(*arguments)
        assert shown.returncode == 2, arguments
        assert shown.stdout == ""
        assert "Traceback" not in shown.stderr


def test_version() -> None:
    assert isolane("--version").stdout == in_process("version").stdout
    assert "pydantic" in in_process("version", "--all").stdout


def test_each_error_has_its_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(lambda: None) == 0
    assert guarded(lambda: fail(SpecError("line 3: loads: unknown key"))) == 2
    assert capsys.readouterr().err == "isolane: error: line 3: loads: unknown key\n"
    assert guarded(lambda: fail(NotSupported("needs root"))) == 3
    assert guarded(lambda: fail(KeyboardInterrupt())) == 130
    wrapped = RuntimeError("Error calling __set_name__")
    wrapped.__cause__ = KeyboardInterrupt()
    assert guarded(lambda: fail(wrapped)) == 130
    assert guarded(lambda: fail(SystemExit(7))) == 7
    assert guarded(lambda: fail(SystemExit())) == 0


def test_unexpected_errors_are_one_line_and_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: fail(ValueError("two\nlines"))) == 1
    said = capsys.readouterr().err
    (log,) = tmp_path.glob("isolane-error-*.log")
    assert said == f"isolane: error: ValueError: two lines (details: {log})\n"
    assert "Traceback" in log.read_text()


def test_unexpected_errors_are_told_when_no_log_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert guarded(lambda: fail(ValueError("odd"))) == 1
    assert capsys.readouterr().err == "isolane: error: ValueError: odd\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_run_the_clean_up(number: signal.Signals, tmp_path: Path) -> None:
    # A real process, because what matters is that "finally" runs when the kernel signals it.
    mark = tmp_path / "cleaned"
    code = f"""
import pathlib, sys, time
from isolane.cli.app import guarded
def work():
    try:
        print("ready", flush=True)
        while True:
            time.sleep(0.1)  # a signal just before it is heard after it
    finally:
        pathlib.Path({str(mark)!r}).touch()
sys.exit(guarded(work))
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(timeout=300) == 128 + number
    assert mark.exists()


def test_nohup_stays_nohup() -> None:
    code = (
        "import os, signal; from isolane.cli.app import guarded;"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "guarded(lambda: os.kill(os.getpid(), signal.SIGHUP)); print('alive')"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert shown.stdout == "alive\n"

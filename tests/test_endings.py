"""Commands that run for a time, ended by Ctrl-C, SIGTERM, SIGHUP or an interface that goes.

Each says what is kept and how to go on, and leaves with 128 + signal.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from isolane.results.folder import RunFolder
from isolane.trials.live.cores import staying_on

from tests.conftest import Tiny
from tests.live import (
    COMMAND,
    LIMIT_S,
    ROOT,
    assert_same_host,
    await_free,
    background,
    environment,
    in_process,
    quiet_host,
    running,
)
from tests.wires import Line, inside, ip, plain_line

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WORDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
}


def one_core() -> AbstractContextManager[None]:
    """What begins meanwhile simulates by itself: other processes take seconds to be ready."""
    return staying_on((max(os.sched_getaffinity(0)),))


@pytest.mark.native
@pytest.mark.parametrize("number", SIGNALS)
def test_a_run_says_what_is_kept_and_how_to_go_on(
    number: signal.Signals, tiny: Tiny, tmp_path: Path
) -> None:
    with contextlib.nullcontext() if number == signal.SIGINT else one_core():
        _a_run_says_what_is_kept_and_how_to_go_on(number, tiny, tmp_path)


def _a_run_says_what_is_kept_and_how_to_go_on(
    number: signal.Signals, tiny: Tiny, tmp_path: Path
) -> None:
    target = tmp_path / "a run"
    journal = target / "trials.jsonl"
    run = ("run", tiny(repeats=200), "--on", "sim", "--output", target)
    with background(tmp_path / "first", *run) as process:
        process.until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 1)
        assert process.end(number) == 128 + number
        *_, hint, word = process.stderr.splitlines()
    kept = len(RunFolder.open(target).trials())
    trials = "1 trial is" if kept == 1 else f"{kept} trials are"
    command = f"isolane run --resume '{target}'"
    assert hint == f"isolane: {trials} kept in {target}; go on with: {command}"
    assert word == f"isolane: {WORDS[number]}"
    summary = RunFolder.open(target).summary()
    assert summary is not None
    assert not summary.complete
    if number != signal.SIGINT:  # once is enough
        return
    with background(tmp_path / "again", "run", "--resume", target) as process:
        process.until(lambda: journal.read_bytes().count(b"\n") > kept)
        assert process.end(number) == 128 + number


@pytest.mark.native
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_of_its_processes_ends_a_run_in_order(
    number: signal.Signals, tiny: Tiny, tmp_path: Path
) -> None:
    """As from a terminal that closes, or a service that is stopped."""
    journal, told = tmp_path / "run" / "trials.jsonl", tmp_path / "stderr"
    words = ("run", tiny(repeats=200), "--on", "sim", "--output", journal.parent)
    with (
        told.open("wb") as stderr,
        subprocess.Popen(
            [*COMMAND, *map(str, words)], env=environment(), stdout=subprocess.DEVNULL,
            stderr=stderr, start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            deadline = time.monotonic() + LIMIT_S
            while not (journal.exists() and journal.read_bytes().count(b"\n") >= 1):
                assert process.poll() is None, told.read_text()
                assert time.monotonic() < deadline, told.read_text()
                time.sleep(0.01)
            os.killpg(process.pid, number)
            assert process.wait(LIMIT_S) == 128 + number
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert "Traceback" not in told.read_text(), told.read_text()
    assert told.read_text().splitlines()[-1] == f"isolane: {WORDS[number]}"


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
def test_a_live_run_says_it_too(tiny: Tiny, tmp_path: Path) -> None:
    before = quiet_host()
    with running(tmp_path, tiny(repeats=100)) as (process, target):
        journal = target / "trials.jsonl"
        process.until(lambda: journal.read_bytes().count(b"\n") >= 1)
        assert process.end(signal.SIGINT) == 130
        assert f"go on with: isolane run --resume {target}" in process.stderr
    assert_same_host(before)


@pytest.mark.native
@pytest.mark.parametrize(("number", "jobs"), [(signal.SIGINT, 2), (signal.SIGTERM, 1)])
def test_a_reproduction_keeps_what_was_simulated(
    number: signal.Signals, jobs: int, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    what = ("reproduce", "rathore2013", "--figure", "7", "--jobs", jobs, "--json", "-o", page)
    with background(tmp_path / "out", *what) as process:
        process.until(lambda: "16 of 160" in process.stderr)
        assert process.end(number) == 128 + number
        assert json.loads(process.stdout)["complete"] is False
        assert WORDS[number] in process.stderr
        assert "begins anew" in process.stderr
    assert page.stat().st_size > 10_000


@pytest.mark.native
def test_a_calibration_keeps_the_best_so_far(tmp_path: Path) -> None:
    profile = tmp_path / "fitted.yaml"
    fit = ("calibrate", "rathore2013", "--scale", "0.01", "--jobs", 1, "--output", profile)
    with background(tmp_path / "out", *fit) as process:
        process.until(lambda: "round 1" in process.stderr)
        assert process.end(signal.SIGTERM) == 143
        again = f"isolane calibrate rathore2013 --profile {profile} --output {profile}"
        assert f"ended by SIGTERM; the profile is the best fit so far; go on with: {again}" in (
            process.stderr
        )
        assert "mean absolute error" in process.stdout
    assert "rathore2013" in profile.read_text()


@pytest.mark.native
@pytest.mark.parametrize("command", ["reproduce ahn", "calibrate rathore2013"])
def test_an_output_that_cannot_be_is_refused_before_hours_of_work(
    command: str, tmp_path: Path
) -> None:
    done = in_process(*command.split(), "--output", tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        f"isolane: error: {tmp_path}: cannot be written: it is a directory; name a file\n"
    )


def sender(line: Line, *more: str) -> tuple[str, ...]:
    where = ("generate", line.gen, "--netns", line.gen_netns, "--to", line.dst, "--mac", line.mac)
    return (*where, "--rate", "2kpps", "--duration", "60s", *more)


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("number", SIGNALS)
def test_traffic_is_told_whoever_ends_it(number: signal.Signals, tmp_path: Path) -> None:
    with plain_line(4) as line:
        receive = ("receive", line.rcv, "--netns", line.rcv_netns, "--json", "-d", "60s")
        with background(tmp_path / "rcv", *receive) as receiver:
            receiver.until(lambda: "receiving on" in receiver.stderr)
            with background(tmp_path / "gen", *sender(line, "--json")) as generator:
                generator.until(lambda: line.sent() > 500)
                assert generator.end(number) == 128 + number
            sent = json.loads(generator.stdout)
            line.await_arrival(sent["frames"])
            assert receiver.end(number) == 128 + number
        received, drops = json.loads(receiver.stdout), line.drops()
    assert sent["frames"] == received["streams"][0]["received"] + drops > 500
    assert sent["scheduled"] < 60 * 2000
    assert f"isolane: {WORDS[number]}; the audit" in generator.stderr
    assert f"isolane: {WORDS[number]}; the counts" in receiver.stderr


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
def test_an_interface_that_vanishes_ends_both_sides_with_their_counts(tmp_path: Path) -> None:
    with plain_line(4) as line:
        # Without a limit, and with another interface that stays.
        inside(line.rcv_netns, "ip", "link", "set", "lo", "up")
        receive = ("receive", line.rcv, "lo", "--netns", line.rcv_netns, "--json")
        with background(tmp_path / "rcv", *receive) as receiver:
            receiver.until(lambda: "receiving on" in receiver.stderr)
            with background(tmp_path / "gen", *sender(line, "--json")) as generator:
                generator.until(lambda: line.sent() > 500)
                ip("-n", line.gen_netns, "link", "del", line.gen)
                assert generator.end() == 1
            assert receiver.end() == 1
        sent, received = json.loads(generator.stdout), json.loads(receiver.stdout)
    assert f"isolane: error: {line.gen} vanished; the audit covers" in generator.stderr
    assert f"isolane: error: {line.rcv} vanished; the counts cover" in receiver.stderr
    assert 0 < received["streams"][0]["received"] <= sent["frames"] < 60 * 2000


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
def test_a_receiver_with_a_limit_shows_the_time_left(tmp_path: Path) -> None:
    with plain_line(4) as line:
        receive = ("receive", line.rcv, "--netns", line.rcv_netns, "--duration", "40s")
        with background(tmp_path / "rcv", *receive) as receiver:
            receiver.until(lambda: " of 40 seconds: 0 frames, 0 pps, about " in receiver.stderr)
            receiver.end(signal.SIGTERM)


def told_by_the_receiver(folder: Path) -> dict[str, Any]:
    with plain_line(4) as line:
        receive = ("receive", line.rcv, "--netns", line.rcv_netns, "--json")
        with background(folder / "rcv", *receive) as receiver:
            receiver.until(lambda: "receiving on" in receiver.stderr)
            with background(folder / "gen", *sender(line)) as generator:
                generator.until(lambda: line.sent() > 4000)
                generator.end(signal.SIGTERM)
            assert receiver.end(signal.SIGINT) == 0, "without a limit this is its end"
        return dict(json.loads(receiver.stdout))


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
def test_the_receiver_tells_rates(tmp_path: Path) -> None:
    received, deadline = told_by_the_receiver(tmp_path), time.monotonic() + LIMIT_S
    while received["seconds"] is None:  # it had no core while frames came
        assert time.monotonic() < deadline
        received = told_by_the_receiver(tmp_path)
    # How fast they came is the machine's; that rate, time and frames fit each other is not.
    assert received["seconds"] > 0
    counted = received["rate_pps"] * received["seconds"]
    assert 0 < counted <= received["streams"][0]["received"]


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
def test_a_verification_that_is_ended_says_that_nothing_is_kept(tmp_path: Path) -> None:
    policy = tmp_path / "edge.yaml"
    policy.write_text(
        "isolane: 1\nname: edge\nnics: {eth8: {rate: 100Mbps}, eth9: {rate: 100Mbps}}\n"
        "routers:\n"
        "  gold: {netns: g, interfaces: {a: eth8, b: eth9}, cpu_weight: 300}\n"
        "  bronze: {netns: b, interfaces: {a: eth8, b: eth9}, cpu_weight: 100}\n"
    )
    before = quiet_host()
    await_free()
    with background(tmp_path / "out", "verify", policy, "--time-limit", "1h") as process:
        process.until(lambda: Path("/run/netns/isolane-dut").exists())
        assert process.end(signal.SIGTERM) == 143
        assert "an unfinished verification keeps no results" in process.stderr
    assert_same_host(before)


@pytest.mark.root
@pytest.mark.native
@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize(
    ("command", "ready", "word"),
    [
        ("watch", "no policy is in force", "stays in force"),
        ("export prometheus --listen 127.0.0.1:0", "metrics at", "the kernel keeps counting"),
        ("export prometheus --every 1s --textfile {}/x.prom", "", "keeps the last counters"),
    ],
)
def test_what_runs_beside_a_policy_says_that_it_has_ended(
    command: str, ready: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOLANE_POLICY", "endings")
    with background(tmp_path, *command.format(tmp_path).split()) as process:
        process.until(lambda: ready in process.stderr if ready else (tmp_path / "x.prom").exists())
        assert process.end(signal.SIGTERM) == 143
        assert word in process.stderr
        assert process.stderr.endswith("isolane: ended by SIGTERM\n")


IGNORED = ("env", "--ignore-signal=INT,HUP")
"""As nohup starts a command, and a shell one in the background of a script."""


@pytest.mark.native
def test_what_was_ignored_at_the_start_does_not_end_a_run(tiny: Tiny, tmp_path: Path) -> None:
    target = tmp_path / "run"
    journal = target / "trials.jsonl"
    command = [*IGNORED, *COMMAND, "run", str(tiny(repeats=5)), "--on", "sim", "--output"]
    with one_core(), subprocess.Popen(
        [*command, str(target)],
        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while process.poll() is None and not (journal.exists() and journal.stat().st_size):
            time.sleep(0.005)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    summary = RunFolder.open(target).summary()
    assert summary is not None
    assert summary.complete


def test_children_of_the_tests_ignore_nothing_that_the_tests_ignore(tmp_path: Path) -> None:
    """Else a command under test would wait for ever when the tests run under nohup."""
    test = tmp_path / "test_child.py"
    test.write_text(
        "import subprocess, sys\n"
        "def test_it():\n"
        "    told = 'import signal; print([signal.getsignal(n).name for n in (1, 15)])'\n"
        "    done = subprocess.check_output([sys.executable, '-c', told], text=True)\n"
        "    assert done == \"['SIG_DFL', 'SIG_DFL']\\n\"\n"
    )
    words = (
        "-m",
        "pytest",
        "-p",
        "tests.host_as_before",
        "-p",
        "no:cacheprovider",
        "-q",
        str(test),
    )
    done = subprocess.run(
        [*IGNORED, sys.executable, *words], cwd=ROOT, env=environment(),
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout

"""A run that is ended at any moment leaves the host as it was."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from isolane.results.folder import RunFolder

from tests.conftest import Tiny
from tests.live import assert_same_host, background, has, isolane, quiet_host, running
from tests.look import HELD, look
from tests.wires import ip

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

ARMS = ("direct softirq", "bridge threaded", "macvlan threaded", "direct threaded")
MINE = "isolane-mine"
TURNS = 10


@pytest.fixture
def mine() -> Iterator[str]:
    """A namespace of the user's with a name like ours."""
    ip("netns", "add", MINE)
    ip("-n", MINE, "link", "add", "isl-mine", "type", "bridge")
    yield MINE
    ip("netns", "del", MINE)


def moments(seed: int, count: int, latest_s: float) -> list[float]:
    draw = random.Random(seed)
    return [draw.uniform(0, latest_s) for _ in range(count)]


@pytest.mark.parametrize(
    ("number", "status", "after_s"),
    [(signal.SIGINT, 130, 1.27), (signal.SIGTERM, 143, 0.2), (signal.SIGHUP, 129, 0.2)],
)
def test_a_signal_at_any_moment_leaves_nothing(
    after_s: float, number: signal.Signals, status: int, tiny: Tiny, tmp_path: Path, mine: str
) -> None:
    before = quiet_host()
    with running(tmp_path, tiny(arms=ARMS, repeats=50)) as (process, target):
        time.sleep(after_s)
        assert process.end(number) == status
        assert process.stdout == ""
    assert_same_host(before)  # without any cleaning up
    assert mine in ip("netns")
    summary = RunFolder.open(target).summary()
    assert summary is not None
    assert not summary.complete
    assert len(RunFolder.open(target).trials()) == summary.trials


def test_clean_after_kill_9_at_any_moment(tiny: Tiny, tmp_path: Path, mine: str) -> None:
    before = quiet_host()
    found = 0
    # One of them while a test bed is there, whatever the moments of the others hit.
    for turn, after_s in enumerate((None, *moments(2, 3, 1.5))):
        folder = tmp_path / str(turn)
        with running(folder, tiny(arms=ARMS, repeats=50)) as (process, target):
            if after_s is None:
                process.until(lambda: "isolane-dut" in look()["namespaces"])
            else:
                time.sleep(after_s)
            process.end(signal.SIGKILL)
        left = look()["namespaces"] != before["namespaces"]
        done = isolane("clean")
        assert done.returncode == 0, done.stderr
        found += left
        assert_same_host(before)
        for trial in RunFolder.open(target).trials():  # no line is torn
            assert trial.status in ("ok", "no-verdict")
    assert found, "no run was killed while it had something to leave behind"
    assert mine in ip("netns")
    assert "isl-mine" in ip("-n", mine, "link")


def test_the_next_run_removes_what_a_killed_one_left(tiny: Tiny, tmp_path: Path) -> None:
    before = quiet_host()
    file = tiny()
    for turn in range(TURNS):
        with running(tmp_path / str(turn), tiny(repeats=50)) as (process, target):
            process.until(partial(has, target / "trials.jsonl", b"\n"))
            process.end(signal.SIGKILL)
        if "isolane-gen" in look()["namespaces"]:
            break
    else:
        pytest.fail(f"each of {TURNS} runs was killed between two test beds")
    done = isolane("run", file, "--output", tmp_path / "next")
    assert done.returncode == 0, done.stderr
    assert "removed what a killed run left behind: network namespace isolane-gen" in done.stderr
    assert_same_host(before)


def test_generate_and_receive_leave_no_program_when_killed(tmp_path: Path) -> None:
    before = quiet_host()
    with background(tmp_path, "receive", "lo") as process:
        process.until(lambda: "receiving on" in process.stderr)
        assert look()[HELD] != before[HELD]
        process.end(signal.SIGKILL)
    assert_same_host(before)

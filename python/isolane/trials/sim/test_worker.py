from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from isolane.trials.sim.worker import executor, stop

MINUTES_S = 300.0


def test_nothing_of_a_pool_is_left_when_it_was_stopped_at_work() -> None:
    before = set(threading.enumerate())
    pool = executor(2)
    long = [pool.submit(time.sleep, MINUTES_S) for _ in range(5)]
    processes = list((pool._processes or {}).values())
    assert processes
    stop(pool)
    assert set(threading.enumerate()) == before
    assert [process.is_alive() for process in processes] == [False] * len(processes)
    assert all(future.done() for future in long)


def test_a_pool_that_had_nothing_to_do_is_stopped() -> None:
    stop(executor(2))


SLOW = """
import time
from concurrent.futures import process
from isolane.trials.sim.worker import executor, stop

class Slow(process._ThreadWakeup):
    def close(self):
        time.sleep(0.1)
        super().close()

    def wakeup(self):
        if not self._closed:
            time.sleep(0.3)
            self._writer.send_bytes(b"")

if __name__ == "__main__":
    process._ThreadWakeup = Slow
    pool = executor(1)
    pool.submit(int).result()
    stop(pool)
"""

HALF = """
import sys, time
from pathlib import Path
from isolane.trials.sim.worker import executor, stop

def half(path):
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["result_queue"]._writer._send(bytes(3))  # of the length, which has four
    Path(path).touch()
    time.sleep(300)

if __name__ == "__main__":
    pool, sent = executor(1), Path(sys.argv[0]).with_suffix(".sent")
    pool.submit(half, sent)
    while not sent.exists():
        time.sleep(0.01)
    stop(pool)
"""


@pytest.mark.parametrize("script", [SLOW, HALF], ids=["closes its pipe late", "in mid-result"])
def test_a_command_whose_pool_is_stopped_ends_in_silence(script: str, tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(script)
    command = [sys.executable, str(path)]
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=MINUTES_S / 2
    )
    assert (ended.returncode, ended.stderr) == (0, "")


KILLED = """
import os, signal, sys
from isolane.trials.sim.worker import executor

if __name__ == "__main__":
    pool = executor(2)
    numbers = {future.result() for future in [pool.submit(os.getpid) for _ in range(20)]}
    print(*numbers, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_worker_outlives_a_command_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, timeout=MINUTES_S
    )
    workers = done.stdout.split()
    assert workers
    deadline = time.monotonic() + MINUTES_S
    while left := [number for number in workers if _is_alive(number)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _is_alive(number: str) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

"""Worker processes for simulations: one per core, and none outlives the run."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def workers(jobs: int | None = None) -> int:
    """Return the number of worker processes; default: one for each usable core."""
    return jobs or len(os.sched_getaffinity(0))


def executor(jobs: int) -> ProcessPoolExecutor:
    """Return that many worker processes.

    They are spawned, because a fork would copy the threads of the native module and of polars only
    in part.
    """
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_leave_signals)


def stop(pool: ProcessPoolExecutor) -> None:
    """Stop the workers at once, so that no long simulation outlives the command."""
    processes = list((pool._processes or {}).values())  # noqa: SLF001 - public from Python 3.14 on
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _leave_signals() -> None:
    """Ignore Ctrl-C, which reaches the whole process group; only the parent acts on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

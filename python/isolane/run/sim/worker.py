"""Worker processes: as many as cores, and none left behind."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context


def workers(jobs: int | None = None) -> int:
    """Return how many processes there are to be; default: one for each core that may be used."""
    return jobs or len(os.sched_getaffinity(0))


def executor(jobs: int) -> ProcessPoolExecutor:
    """Return that many worker processes.

    They are spawned, not forked: threads (the native module's, polars') would be copied half-way.
    """
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_leave_signals)


def stop(pool: ProcessPoolExecutor) -> None:
    """Stop the workers at once: a long simulation must not outlive who asked for it."""
    processes = list((pool._processes or {}).values())  # noqa: SLF001 - public from Python 3.14 on
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _leave_signals() -> None:
    """Ctrl-C reaches the whole process group: only the parent is to act on it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

"""Worker processes for simulations: one per core, and none outlives the run."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process, resource_tracker
from typing import Any


def workers(jobs: int | None = None) -> int:
    """Return the number of worker processes; default: one for each usable core."""
    return jobs or len(os.sched_getaffinity(0))


def executor(jobs: int) -> ProcessPoolExecutor:
    """Return that many worker processes.

    They are spawned, because a fork would copy the threads of the native module and of polars only
    in part.
    """
    _start_tracker()
    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin)


def stop(pool: ProcessPoolExecutor) -> None:
    """Stop the workers at once, so that no long simulation outlives the command.

    The pool's thread ends here, too. Python 3.11 wakes it when the command ends, by a pipe that the
    thread may just be closing ("Bad file descriptor"); and it would wait for ever for the rest of a
    result in whose middle a worker was stopped.
    """
    inside: Any = pool  # nothing that is public does it before Python 3.14
    processes = list((inside._processes or {}).values())  # noqa: SLF001
    thread, results = inside._executor_manager_thread, inside._result_queue  # noqa: SLF001
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
    for process in processes:
        process.join()
    results._writer.close()  # noqa: SLF001 - the last one that is open: the thread sees an end
    if thread is not None:
        thread.join()


def _start_tracker() -> None:
    """Start Python's own helper so that it, too, leaves a closing terminal to the parent."""
    if threading.current_thread() is not threading.main_thread():
        resource_tracker.ensure_running()
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        resource_tracker.ensure_running()
    finally:
        signal.signal(signal.SIGHUP, before)


def _begin() -> None:
    """Ignore what reaches the whole process group, and end when the parent has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # nobody is there to take what it simulates

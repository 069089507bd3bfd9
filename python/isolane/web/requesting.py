"""Requests at exact times to one web server: a client at work, and its report."""

from __future__ import annotations

import resource
from dataclasses import dataclass, field
from typing import Any, Self

from isolane import _native
from isolane.errors import MeasurementError, SpecError
from isolane.web.url import Url

OTHER_FILES = 64
"""Descriptors that the process needs besides its connections."""


@dataclass(frozen=True)
class RequestPlan:
    """What is asked for; an open loop has a rate, a closed one a number under way."""

    url: Url
    server: str
    """Its address and port."""
    rate_millirps: int | None
    """Thousandths of a request a second."""
    concurrency: int
    """Requests that are always under way, in a closed loop."""
    poisson: bool
    keep_alive: bool
    max_connections: int
    warm_up_ns: int
    window_ns: int
    timeout_ns: int
    netns: str | None = None
    """The file of a network namespace."""
    core: int | None = None
    seed: int = 1
    """Of a Poisson process."""
    start_ns: int | None = None
    """When the warm-up begins, ns of the monotonic clock; None: at once."""


def allow_connections(needed: int, preferred: int) -> int:
    """Let this process have the descriptors for so many connections, as far as it may.

    Parameters
    ----------
    needed
        Connections without which what is asked for cannot be.
    preferred
        Connections that it would like; fewer make requests wait, of which the report tells.

    Returns
    -------
    int
        How many connections it can have.

    Raises
    ------
    SpecError
        If it cannot have as many as are needed.
    """
    found = _raised(max(needed, preferred))
    if found < needed:
        raise SpecError(
            f"{needed} connections at a time: this process may have {found}; raise its limit of "
            "open files with ulimit -n"
        )
    return found


def _raised(count: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return count if soft == resource.RLIM_INFINITY else max(1, min(count, soft - OTHER_FILES))


@dataclass
class Requesting:
    """A client at work; a context manager that ends it."""

    plan: RequestPlan
    _client: _native.HttpClient = field(init=False)

    def __post_init__(self) -> None:
        """Check the plan."""
        plan = self.plan
        try:
            self._client = _native.HttpClient(
                server=plan.server,
                host=plan.url.host,
                path=plan.url.path,
                keep_alive=plan.keep_alive,
                max_connections=plan.max_connections,
                warm_up_ns=plan.warm_up_ns,
                window_ns=plan.window_ns,
                timeout_ns=plan.timeout_ns,
                rate_millirps=plan.rate_millirps,
                poisson_seed=plan.seed if plan.poisson else None,
                concurrency=plan.concurrency,
                netns=plan.netns,
                core=plan.core,
                start_ns=plan.start_ns,
            )
        except _native.NativeError as error:
            raise SpecError(str(error)) from error

    def __enter__(self) -> Self:
        self._client.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._client.stop()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the last answer or time-out; true when it has come."""
        return self._client.wait(timeout_s)

    def answers(self) -> int:
        """Return the complete answers so far, those of the warm-up included."""
        return self._client.answers()

    def stop(self) -> None:
        """End the window now; what is under way is left out of the report."""
        self._client.stop()

    def native_report(self) -> _native.HttpReport:
        """Return what became of the requests of the window, as it was counted.

        Raises
        ------
        MeasurementError
            If the client could not begin, or the kernel stood in its way.
        """
        try:
            return self._client.report()
        except _native.NativeError as error:
            raise MeasurementError(str(error)) from error

    def report(self) -> dict[str, Any]:
        """Return what became of the requests of the window: counts, rates a second, times in ns.

        Raises
        ------
        MeasurementError
            If the client could not begin, or the kernel stood in its way.
        """
        found = self.native_report()
        seconds = found.window_ns / 1e9
        return {
            "url": str(self.plan.url),
            "server": self.plan.server,
            "seconds": seconds,
            "keep_alive": self.plan.keep_alive,
            "asked_rps": None if self.plan.rate_millirps is None else self.plan.rate_millirps / 1e3,
            "offered": found.offered,
            "answered": found.answered,
            "failed": found.failed,
            "statuses": found.statuses,
            "completed": found.completed,
            "rate_rps": found.completed / seconds if seconds else 0.0,
            "rate_bps": 8 * found.completed_bytes / seconds if seconds else 0.0,
            "connections": found.connections,
            "retried": found.retried,
            "max_in_flight": found.max_in_flight,
            "max_connections": self.plan.max_connections,
            "latency_ns": found.latency.as_dict(),
            "connect_ns": found.connect.as_dict(),
            "late_ns": found.late.as_dict(),
        }

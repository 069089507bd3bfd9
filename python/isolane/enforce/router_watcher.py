"""Applies the policy in force again when one of its routers comes, goes or restarts.

So it does when an interface is polled by new threads, which no setting is for yet.

Traffic does not need it: the settings in force stay in force while it does not run.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from isolane.enforce import transaction
from isolane.enforce.enforcer import Enforcer, find
from isolane.enforce.host_access import Host
from isolane.enforce.link_members import of_unknown_frames
from isolane.enforce.policy_lock import BusyError
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter, MissingRouter
from isolane.enforce.sampling import lost_threads_of
from isolane.errors import NotSupported
from isolane.procfs import started
from isolane.spec.policy import Policy
from isolane.testbed import kernel
from isolane.testbed.namespace_thread import run_in_thread

Found = FoundRouter | MissingRouter
Identity = tuple[object, ...]

POLL_S: Final = 1.0
"""How often to check the routers' processes and namespaces, with one stat() for each."""
SWEEP_S: Final = 60.0
"""How often to search for routers even without an event: this finds what causes none, such as a
new process or an address that a bridge has learned."""
EVENT_BURST_S: Final = 0.2
"""How long to wait after an event for others, since several interfaces often come together."""
_AFTER_S: Final = (1.0, 3.0, 10.0)
"""When to search again, after an event, for routers that are still missing: a container's interface
exists before its engine says that it runs; a guest's address is known after it has booted."""
_RTMGRP_LINK: Final = 1
_MAX_EVENTS: Final = 10_000
_RETRY_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


@dataclass
class Watcher:
    """Keeps the policy in force applied to the routers that run.

    Parameters
    ----------
    enforcer
        Applies the policy and knows where its state is.
    say
        Called with a sentence for each thing that happened.
    poll_s, sweep_s
        See :data:`POLL_S` and :data:`SWEEP_S`.
    """

    enforcer: Enforcer
    say: Callable[[str], None]
    poll_s: float = POLL_S
    sweep_s: float = SWEEP_S
    _known: dict[str, Identity] | None = None
    """Identities of the routers when it last applied the policy; None: not applied yet."""
    _found: tuple[Found, ...] = ()
    _told: dict[str, str] = field(default_factory=dict)
    _failures: int = 0
    _after: int = len(_AFTER_S)
    """How often it has searched again since the last event."""
    _policy: tuple[int, int] | None = None
    """Inode and time of the policy file at the last search."""
    _idle: bool = False
    _unknown: bool = False
    """Whether a machine has keys that nobody keeps as long as its frames are unknown."""
    _in_vain: set[str] = field(default_factory=set)
    """Interfaces that have lost threads, where applying again was refused since the last event."""

    def run(self, stop: int = -1) -> None:
        """Watch until ``stop``, a descriptor, becomes readable; without one, until a signal.

        Raises
        ------
        NotSupported
            When the host's interfaces cannot be watched.
        """
        with self._link_events() as events:
            while True:
                self.look()
                if self._wait(events, stop):
                    return

    def look(self) -> None:
        """Search for the routers, and apply the policy if they have changed."""
        self._policy = self._stamp()
        try:
            looked = self.enforcer.look(_look)
        except NotSupported:
            raise
        except transaction.expected() as error:
            self._fail(str(error))
            return
        if looked is None:
            self._without_policy()
            return
        self._idle = False
        policy, self._found, lost = looked
        self._unknown = any(
            isinstance(router, FoundRouter) and of_unknown_frames(policy, router)
            for router in self._found
        )
        now = {router.name: _identity(router) for router in self._found}
        if now != self._known:
            self._apply(policy, now, set())
        elif lost and lost != self._in_vain:
            self._apply(policy, now, lost)
        else:
            self._failures = 0

    def _without_policy(self) -> None:
        if not self._idle:
            self.say("no policy is in force; waiting for one")
        self._idle, self._known, self._found, self._failures = True, None, (), 0

    def _apply(self, policy: Policy, now: dict[str, Identity], lost: set[str]) -> None:
        self._tell()
        try:
            # Not `apply(policy)`: before it has the lock, another command may clear the policy or
            # apply another one. This applies the policy that is in force once it has the lock.
            outcome = self.enforcer.apply_again()
        except transaction.expected() as error:
            if lost and isinstance(error, BusyError):
                self._failures += 1  # whoever has the lock may just be ending these threads
            else:
                self._in_vain = lost  # an interface that is down has no threads
                self._fail(str(error))
            return
        if outcome is None:
            self._without_policy()
            return
        if lost:
            self.say(f"threads that polled {', '.join(sorted(lost))} have ended")
        first, self._known, self._failures = self._known is None, now, 0
        if first:
            self.say(f"watching policy {policy.name}")
        if outcome.changes:
            self.say(f"policy {policy.name} applied: {len(outcome.changes)} changes")
        for note in outcome.notes:
            self.say(note)

    def _tell(self) -> None:
        """Report which routers have come, gone or restarted."""
        told = {}
        for router in self._found:
            if isinstance(router, MissingRouter):
                told[router.name] = f"waits: {router.reason}"
            elif self._known is None:
                told[router.name] = "is there"
            elif self._known.get(router.name) == _identity(router):
                told[router.name] = self._told.get(router.name, "is there")
            else:
                back = self._known.get(router.name) == ()
                told[router.name] = "is back" if back else "is another one now"
                self._told.pop(router.name, None)
            if told[router.name] != self._told.get(router.name):
                self.say(f"{router.name} {told[router.name]}")
        self._told = told

    def _fail(self, problem: str) -> None:
        self.say(f"not applied, will be tried again: {problem}")
        self._failures += 1

    def _wait(self, events: socket.socket, stop: int) -> bool:
        """Wait for a reason to search again; return whether it was told to stop instead."""
        deadline = time.monotonic() + self._pause_s()
        with selectors.DefaultSelector() as selector:
            for source in (events, stop) if stop >= 0 else (events,):
                selector.register(source, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fileobj for key, _ in selector.select(min(self.poll_s, left))}
                if stop in ready:
                    return True
                if events in ready:
                    time.sleep(EVENT_BURST_S)
                    _drain(events)
                    self._after, self._in_vain = 0, set()
                    return False
                if self._policy != self._stamp():
                    return False
                if not self._failures and any(_changed(router) for router in self._found):
                    self._after = 0  # what ended it may take a while to bring it back
                    return False
        self._after += 1
        return False

    def _pause_s(self) -> float:
        """Return how long to wait for an event before searching without one."""
        pauses = [self.sweep_s]
        if self._failures:
            pauses.append(_RETRY_S[min(self._failures, len(_RETRY_S)) - 1])
        waits = self._unknown or any(not _identity(router) for router in self._found)
        if self._after < len(_AFTER_S) and waits:
            pauses.append(_AFTER_S[self._after])
        return min(pauses)

    def _stamp(self) -> tuple[int, int] | None:
        with suppress(OSError):
            found = (self.enforcer.directory / "policy.yaml").stat()
            return found.st_ino, found.st_mtime_ns
        return None

    @contextmanager
    def _link_events(self) -> Iterator[socket.socket]:
        base = self.enforcer.base

        def opened() -> socket.socket:
            if base is not None:
                descriptor = os.open(base, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    kernel.setns_net(descriptor)
                finally:
                    os.close(descriptor)
            events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
            events.bind((0, _RTMGRP_LINK))
            events.settimeout(0)
            return events

        try:
            events = run_in_thread(opened)
        except OSError as error:
            raise NotSupported(f"the host's interfaces cannot be watched: {error}") from None
        with events:
            yield events


def _look(host: Host, state: State, policy: Policy) -> tuple[Policy, tuple[Found, ...], set[str]]:
    return policy, find(host, state, policy), lost_threads_of(state)


def _identity(router: Found) -> Identity:
    """Return what changes when a router restarts; empty: it does not run.

    A virtual machine's threads do not count: new ones inherit the settings of the thread that
    starts them.
    """
    if isinstance(router, MissingRouter):
        return ()
    began = None if router.pid is None else started(router.pid)
    return (router.netns_cookie, router.netns_inode, router.pid, began, router.interfaces)


def _changed(router: Found) -> bool:
    """Tell by stat() whether a router that ran, or its network back-end, has gone or restarted.

    This does not notice a router whose new namespace has the inode number of the old one, since
    the kernel reuses numbers. Then its interfaces went and came, which is an event.
    """
    if isinstance(router, MissingRouter):
        return False
    try:
        if router.netns is not None and router.netns.stat().st_ino != router.netns_inode:
            return True
        if router.pid is not None:
            Path(f"/proc/{router.pid}").stat()
    except OSError:
        return True
    ports = (at.port for at in router.interfaces if at.port is not None)
    return any(started(port.process) != port.began for port in ports)


def _drain(events: socket.socket) -> None:
    """Discard the events that have arrived."""
    for _ in range(_MAX_EVENTS):
        try:
            events.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:  # ENOBUFS: some were lost; no matter, since any event leads to a search
            continue

"""Runs each command on a policy - apply, clear, set, status - from its lock to its last write."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from isolane.enforce import nic_features, sampling, transaction
from isolane.enforce.find import find_routers
from isolane.enforce.host_access import GROUP, Host, find_namespace
from isolane.enforce.host_checks import check
from isolane.enforce.policy_lock import locked
from isolane.enforce.policy_notes import notes, without_numbers
from isolane.enforce.policy_plan import Plan
from isolane.enforce.policy_state import State
from isolane.enforce.router_addresses import with_own_addresses
from isolane.enforce.router_facts import FoundRouter, MissingRouter, Sample
from isolane.enforce.router_status import RouterStatus, statuses
from isolane.enforce.setting import from_key
from isolane.enforce.settings import LinkRoot
from isolane.enforce.steering import steer
from isolane.enforce.transaction import Drift
from isolane.errors import TestbedError
from isolane.spec.policy import Policy, parse_policy, policy_text
from isolane.testbed.namespace_thread import NamespaceThread

T = TypeVar("T")

POLICY_DIR = Path("/run/isolane/policy")


@dataclass(frozen=True)
class Outcome:
    """What apply, set or clear changed."""

    changes: tuple[str, ...]
    unchanged: int = 0
    waiting: tuple[MissingRouter, ...] = ()
    """Routers of the policy that do not run now; the policy waits for them."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InForce:
    """The policy in force, and the settings that the kernel really has."""

    policy: Policy | None
    applied_at: str | None
    found: tuple[FoundRouter | MissingRouter, ...] = ()
    drift: tuple[Drift, ...] = ()
    settings: int = 0
    routers: tuple[RouterStatus, ...] = ()
    notes: tuple[str, ...] = ()
    """Where frames are lost, or are not handled as the policy says."""


@dataclass
class Enforcer:
    """Applies policies to the routers of one host.

    Parameters
    ----------
    base
        File of the network namespace that the NICs are in; None: the caller's. Test beds give one.
    directory
        Where the state and the policy are kept.
    group
        Name of the cgroup that is the parent of all routers' cgroups.
    """

    base: Path | None = None
    directory: Path = POLICY_DIR
    group: str = GROUP

    def apply(self, policy: Policy, *, adopt: bool = False) -> Outcome:
        """Put a policy in force; changes only the settings that differ from it.

        Raises
        ------
        SpecError
            If the policy does not fit this host; nothing has been changed.
        NotSupported
            If the host lacks what the policy needs; all changes have been rolled back.
        TestbedError
            If others own a setting, or a change failed; all changes have been rolled back.
        """
        return self._do(lambda host, state: self._apply(policy, host, state, adopt=adopt))

    def _apply(self, policy: Policy, host: Host, state: State, *, adopt: bool) -> Outcome:
        recovered = transaction.recover(state, host)
        host.nics |= set(policy.nics)
        everyone = find(host, state, policy)
        found = [router for router in everyone if isinstance(router, FoundRouter)]
        there = nic_features.look(policy.nics, host.here)
        links = check(policy, found, host, there)
        plan = Plan(policy, found, links, there, host, state, steer(policy, found, there))
        about = {
            "netns": host.identity,
            "policy": policy.name,
            "text": policy_text(policy),
            "applied_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        changes = transaction.apply(plan.desired_settings(), state, host, about, adopt=adopt)
        self._show(str(about["text"]))
        waiting = tuple(router for router in everyone if isinstance(router, MissingRouter))
        told = (*_recovered(recovered), *notes(policy, found, there, links))
        return Outcome(tuple(changes.changed), changes.unchanged, waiting, told)

    def _show(self, text: str) -> None:
        """Write the policy to where users, shell completion and ``isolane watch`` read it."""
        path = self.directory / "policy.yaml"
        try:
            fresh = path.with_suffix(".new")
            fresh.write_text(text)
            fresh.replace(path)
        except OSError as error:
            raise TestbedError(f"cannot write {path}: {error.strerror}") from None

    def examine(self, policy: Policy) -> tuple[FoundRouter | MissingRouter, ...]:
        """Check a policy against this host and look for its routers; change nothing.

        Raises
        ------
        SpecError
            If the policy does not fit this host.
        """

        def work(host: Host, state: State) -> tuple[FoundRouter | MissingRouter, ...]:
            everyone = find(host, state, policy)
            found = [router for router in everyone if isinstance(router, FoundRouter)]
            there = nic_features.look(policy.nics, host.here)
            check(policy, found, host, there)
            steer(policy, found, there)
            return everyone

        return self._do(work, exclusive=False)

    def clear(self) -> Outcome:
        """Put every setting back to its value before the first policy.

        Raises
        ------
        TestbedError
            Naming what could not be put back.
        """
        return self._do(self._clear, elsewhere=True)

    def _clear(self, host: Host, state: State) -> Outcome:
        begun, count = len(state.unfinished()), len(state.applied)
        if problems := transaction.clear(state, host):
            raise TestbedError("not everything could be put back: " + "; ".join(problems))
        done = (f"{count} settings put back",) if count else ()
        notes = (f"put back {begun} changes of a command that was killed",) if begun else ()
        return Outcome(done, notes=notes)

    def set_keys(self, router: str, changes: dict[str, str]) -> Outcome:
        """Change keys of a router of the policy in force.

        Raises
        ------
        SpecError
            If the router, a key or a value is not accepted.
        TestbedError
            If no policy is in force.
        """

        def work(host: Host, state: State) -> Outcome:
            policy = _in_force(state)
            if policy is None:
                raise TestbedError("no policy is in force: run isolane apply POLICY.yaml first")
            return self._apply(policy.with_changes(router, changes), host, state, adopt=False)

        return self._do(work)

    def apply_again(self) -> Outcome | None:
        """Apply the policy in force to the routers that run now; None where none is in force.

        Whatever command was faster: it looks at what is in force once it has the lock.
        """

        def work(host: Host, state: State) -> Outcome | None:
            policy = _in_force(state)
            return None if policy is None else self._apply(policy, host, state, adopt=False)

        return self._do(work)

    def status(self) -> InForce:
        """Return the policy in force and compare it with the kernel; change nothing."""

        def work(host: Host, state: State) -> InForce:
            policy = _in_force(state)
            if policy is None:
                return InForce(None, None)
            found = find(host, state, policy)
            missing = {router.name for router in found if isinstance(router, MissingRouter)}
            readings = transaction.read_all(state, host)
            drift = transaction.drifts(state, readings)
            running = [router for router in found if isinstance(router, FoundRouter)]
            there = nic_features.look(policy.nics, host.here)
            return InForce(
                policy=policy,
                applied_at=state.about.get("applied_at"),
                found=found,
                # The settings of a router that has gone are gone, too: no drift.
                drift=tuple(one for one in drift if one.router not in missing),
                settings=len(state.applied),
                routers=statuses(policy, found, state, readings),
                notes=(
                    *notes(policy, running, there, _shared(state)),
                    *without_numbers(sampling.untagged(host, state, policy)),
                    *_lost(host, there),
                ),
            )

        return self._do(work, exclusive=False)

    def sample(self) -> Sample | None:
        """Read the counters of all routers; None when no policy is in force."""
        return self.look(sampling.take)

    def samples(self) -> Generator[Sample | None]:
        """Yield samples without end, each read when asked for; keeps files and sockets open."""
        thread = NamespaceThread()
        opened: tuple[Host, State] | None = None
        stamp = None
        try:
            while True:
                if opened is None or stamp != self._stamp():
                    if opened is not None:
                        thread.do(opened[0].close)
                    stamp = self._stamp()
                    opened = thread.do(self._open)
                policy = _in_force(opened[1])
                taken = partial(sampling.take, *opened, policy) if policy else None
                yield thread.do(taken) if taken else None
        finally:
            if opened is not None:
                thread.do(opened[0].close)
            thread.close()

    def _stamp(self) -> tuple[int, int] | None:
        """Return inode and time of the state on disk, which change with every command."""
        try:
            found = (self.directory / "state.json").stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def threads(self) -> dict[str, list[int]]:
        """Return the threads in each router's cgroup."""
        return sampling.threads_of(State.load(self.directory))

    def nic_threads(self) -> list[int]:
        """Return the kernel threads that poll the NICs."""
        return sampling.nic_threads_of(State.load(self.directory))

    def pacemaker_threads(self) -> list[int]:
        """Return the threads of the pacemaker; empty where none runs."""
        return sampling.pacemaker_threads_of(State.load(self.directory))

    def numbers(self) -> dict[str, int]:
        """Return the numbers of queues, ports, classes by name: ``queue:<router>:<interface>``."""
        return State.load(self.directory).numbers

    def look(self, work: Callable[[Host, State, Policy], T]) -> T | None:
        """Run ``work``, which only reads, on the policy in force; None when there is none."""

        def entered(host: Host, state: State) -> T | None:
            policy = _in_force(state)
            return None if policy is None else work(host, state, policy)

        return self._do(entered, exclusive=False)

    def _do(
        self,
        work: Callable[[Host, State], T],
        *,
        exclusive: bool = True,
        elsewhere: bool = False,
    ) -> T:
        """Run ``work`` in a thread that may enter namespaces.

        Parameters
        ----------
        exclusive
            Hold the policy's lock meanwhile.
        elsewhere
            Also when the policy in force was applied in a namespace that is gone.
        """
        with locked(self.directory) if exclusive else contextlib.nullcontext():
            thread = NamespaceThread()
            try:
                return thread.do(lambda: self._within(work, elsewhere=elsewhere))
            finally:
                thread.close()

    def _within(self, work: Callable[[Host, State], T], *, elsewhere: bool) -> T:
        host, state = self._open(elsewhere=elsewhere)
        try:
            return work(host, state)
        finally:
            host.close()

    def _open(self, *, elsewhere: bool = False) -> tuple[Host, State]:
        host = Host(self.base, self.group)
        try:
            state = State.load(self.directory)
            host.nics |= state.nics()
            applied_in = state.about.get("netns")
            if self.base is None and applied_in is not None and applied_in != host.identity:
                self._refuse_elsewhere(applied_in, clearing=elsewhere)
                host.leave_base()
        except BaseException:
            host.close()
            raise
        return host, state

    def _refuse_elsewhere(self, cookie: int, *, clearing: bool) -> None:
        """Refuse to work in this namespace on a policy that was applied in another one."""
        whose = f"the policy in force ({self.directory}) was applied in another network namespace"
        path = find_namespace(cookie)
        if path is not None:
            raise TestbedError(f"{whose}, {path}: run this there (nsenter --net={path})")
        if not clearing:
            raise TestbedError(f"{whose}, which is gone: run isolane clear first")


def find(host: Host, state: State, policy: Policy) -> tuple[FoundRouter | MissingRouter, ...]:
    """Look for a policy's routers; one whose frames cannot be told from another's waits."""
    _ = host.here  # enters the namespace, from which the search then starts
    return with_own_addresses(policy, find_routers(policy), state)


def _shared(state: State) -> set[str]:
    settings = map(from_key, state.applied)
    return {setting.ifname for setting in settings if isinstance(setting, LinkRoot)}


def _lost(host: Host, there: Mapping[str, nic_features.Nic]) -> tuple[str, ...]:
    counts = {name: host.lost(host.base, name) for name in there}
    return tuple(
        f"{name}: the kernel has lost {count} frames from or to XDP (ethtool -S {name}: drops, "
        "xdp_xmit_errors): an interface was down, or its ring was full"
        for name, count in counts.items()
        if count
    )


def _recovered(count: int) -> tuple[str, ...]:
    return (f"rolled back {count} changes of a command that was killed",) if count else ()


def _in_force(state: State) -> Policy | None:
    """Return the policy; the state file holds its text, so the two always belong together."""
    text = state.about.get("text")
    return None if text is None else parse_policy(text, source="the policy in force")

"""One command on a policy, from the lock to the last write."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from isolane.enforce import engine, pieces, sampling
from isolane.enforce.check import check
from isolane.enforce.engine import Drift
from isolane.enforce.find import find_routers
from isolane.enforce.host import GROUP, Host
from isolane.enforce.model import FoundRouter, MissingRouter, Sample
from isolane.enforce.plan import Plan
from isolane.enforce.state import State, drop
from isolane.errors import NotSupported, TestbedError
from isolane.spec.policy import Policy, parse_policy, policy_text
from isolane.testbed.hands import Hands

T = TypeVar("T")

POLICY_DIR = Path("/run/isolane/policy")
assert pieces  # importing it makes the pieces known


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    changes: tuple[str, ...]
    unchanged: int = 0
    waiting: tuple[MissingRouter, ...] = ()
    """Routers of the policy that do not run now."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InForce:
    """What is in force, and what the kernel really has."""

    policy: Policy | None
    applied_at: str | None
    found: tuple[FoundRouter | MissingRouter, ...] = ()
    drift: tuple[Drift, ...] = ()
    pieces: int = 0


@dataclass
class Enforcer:
    """Applies policies to the routers of one host.

    Parameters
    ----------
    base
        File of the namespace that the NICs are in; None: the caller's. Test beds have one.
    directory
        Where the state is kept.
    group
        Control group that all routers' groups are in.
    """

    base: Path | None = None
    directory: Path = POLICY_DIR
    group: str = GROUP

    def apply(self, policy: Policy, *, adopt: bool = False) -> Outcome:
        """Make the host what the policy says; only what differs is touched.

        Raises
        ------
        SpecError
            If the policy does not fit this host; nothing is changed.
        NotSupported
            If the host lacks what the policy needs; it is as before.
        TestbedError
            If something is somebody else's, or a change failed; the host is as before.
        """
        return self._do(lambda host, state: self._apply(policy, host, state, adopt=adopt))

    def _apply(self, policy: Policy, host: Host, state: State, *, adopt: bool) -> Outcome:
        recovered = engine.recover(state, host)
        everyone = self._find(policy, host)
        found = [router for router in everyone if isinstance(router, FoundRouter)]
        links = check(policy, found, host)
        plan = Plan(policy, found, links, host, state)
        about = {
            "policy": policy.name,
            "applied_at": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        before, state.about = state.about, about
        try:
            changes = engine.apply(plan.wishes(), state, host, adopt=adopt)
        except BaseException:
            state.about = before
            state.save()
            raise
        (self.directory / "policy.yaml").write_text(policy_text(policy))
        notes = [f"rolled back {recovered} changes of a command that was killed"] * bool(recovered)
        waiting = tuple(router for router in everyone if isinstance(router, MissingRouter))
        return Outcome(tuple(changes.changed), changes.unchanged, waiting, tuple(notes))

    def _find(self, policy: Policy, host: Host) -> tuple[FoundRouter | MissingRouter, ...]:
        _ = host.here  # enters it: whoever looks, looks from there
        return find_routers(policy)

    def clear(self) -> Outcome:
        """Put everything back as it was before the first policy.

        Raises
        ------
        TestbedError
            Naming what could not be put back.
        """
        return self._do(self._clear)

    def _clear(self, host: Host, state: State) -> Outcome:
        engine.recover(state, host)
        count = len(state.done)
        if problems := engine.clear(state, host):
            raise TestbedError("not everything could be put back: " + "; ".join(problems))
        drop(self.directory)
        return Outcome((f"{count} settings put back",) if count else ())

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
            policy = self._in_force()
            if policy is None:
                raise TestbedError("no policy is in force: isolane apply POLICY.yaml comes first")
            return self._apply(policy.with_changes(router, changes), host, state, adopt=False)

        return self._do(work)

    def status(self) -> InForce:
        """Say what is in force and whether the kernel still has it; changes nothing."""

        def work(host: Host, state: State) -> InForce:
            policy = self._in_force()
            if policy is None or not state.done:
                return InForce(None, None)
            return InForce(
                policy=policy,
                applied_at=state.about.get("applied_at"),
                found=self._find(policy, host),
                drift=tuple(engine.drifts(state, host)),
                pieces=len(state.done),
            )

        return self._do(work, exclusive=False)

    def sample(self) -> Sample | None:
        """Take the counters of all routers; None when no policy is in force."""
        return self.look(sampling.take)

    def threads(self) -> dict[str, list[int]]:
        """Return the threads in each router's control group."""
        return sampling.threads_of(State.load(self.directory))

    def nic_threads(self) -> list[int]:
        """Return the threads of the NICs."""
        return sampling.nic_threads_of(State.load(self.directory))

    def numbers(self) -> dict[str, int]:
        """Return the numbers of queues, ports, classes: ``queue:<router>:<interface>`` -> slot."""
        return State.load(self.directory).numbers

    def look(self, work: Callable[[Host, State, Policy], T]) -> T | None:
        """Run ``work`` on the policy in force without changing anything; None without one."""

        def entered(host: Host, state: State) -> T | None:
            policy = self._in_force()
            return None if policy is None else work(host, state, policy)

        return self._do(entered, exclusive=False)

    def _in_force(self) -> Policy | None:
        path = self.directory / "policy.yaml"
        try:
            return parse_policy(path.read_text(), source=str(path))
        except FileNotFoundError:
            return None

    def _do(self, work: Callable[[Host, State], T], *, exclusive: bool = True) -> T:
        with self._locked() if exclusive else contextlib.nullcontext():
            hands = Hands()
            try:
                return hands.do(lambda: self._within(work))
            finally:
                hands.close()

    def _within(self, work: Callable[[Host, State], T]) -> T:
        host = Host(self.base, self.group)
        try:
            return work(host, State.load(self.directory))
        finally:
            host.close()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotSupported(
                f"cannot open {self.directory}/lock ({error.strerror}): policies need root"
            ) from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TestbedError(
                    f"another command is changing the policy (it holds {self.directory}/lock)"
                ) from None
            yield
        finally:
            os.close(lock)

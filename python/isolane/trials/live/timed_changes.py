"""Shares of the network back-end that change while a trial runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isolane import _native
from isolane.errors import MeasurementError
from isolane.spec import Arm, PointRouter, PolicyValues
from isolane.spec.port_keys import port_keys
from isolane.spec.schedulers import KEYS
from isolane.testbed import PortChange, change_ports

LEAD_NS = 500_000_000
"""How long before a trial the back-end is told: it reads what is to come on the DUT's core."""

Keys = Mapping[str, str]
"""Keys of a port as `isolane set` takes them."""


class TimedChanges:
    """The changes of one arm's trials: the back-end knows them beforehand, and keeps the times.

    Parameters
    ----------
    arm
        Its changes are carried out in each trial.
    routers
        The routers of the test bed.
    """

    def __init__(self, arm: Arm, routers: Sequence[PointRouter]) -> None:
        self._arm = arm
        self._routers = routers
        self._first = {r.name: self._keys(arm.router(r.group).policy) for r in routers}

    @property
    def lead_ns(self) -> int:
        """How long before the first frame :meth:`plan` is to be called, ns; 0: not needed."""
        return LEAD_NS if self._arm.changes else 0

    def plan(self, start_ns: int, window_ns: int) -> None:
        """Have the back-end begin with the arm's own shares, and change them in time.

        Parameters
        ----------
        start_ns, window_ns
            When the first frame departs, and when the measuring window begins, ns of the monotonic
            clock.

        Raises
        ------
        MeasurementError
            If the back-end does not do so before the first frame.
        """
        if not self._arm.changes:
            return
        changes = [PortChange(router, keys, None) for router, keys in self._first.items()]
        now = dict(self._first)
        for moment in self._arm.changes:
            for router in self._routers:
                keys = self._keys(moment.policies[router.group])
                differing = {k: v for k, v in keys.items() if now[router.name][k] != v}
                if differing:
                    at_ns = window_ns + moment.at_ns
                    changes.append(PortChange(router.name, differing, at_ns))
                now[router.name] = keys
        change_ports(changes)
        late_ns = _native.monotonic_ns() - start_ns
        if late_ns > 0:
            raise MeasurementError(
                f"the network back-end knew the shares to come {late_ns / 1e6:.0f} ms late"
            )

    def _keys(self, policy: PolicyValues | None) -> Keys:
        """Return all keys that the scheduler looks at; `none` for one without a value."""
        scheduler = self._arm.uplink.scheduler
        given = port_keys(policy, scheduler)
        return {key: str(given.get(key, "none")) for key in KEYS[scheduler]}

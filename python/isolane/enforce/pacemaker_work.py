"""What the pacemaker of a policy looks after: which threads and queues, on which cores. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from isolane.spec.policy import Policy


@dataclass
class PacemakerWork:
    """Threads and queues, gathered while a policy is applied."""

    nics: dict[str, list[int]] = field(default_factory=dict)
    """NIC -> threads that poll it."""
    threads: dict[str, list[int]] = field(default_factory=dict)
    """Router -> threads that poll its interfaces."""
    queues: dict[str, list[int]] = field(default_factory=dict)
    """Router -> slots of its queues."""

    def as_json(self, policy: Policy, table: int | None) -> dict[str, Any] | None:
        """Return the work as the native module takes it; None when there is nothing to do.

        A core's pacemaker looks at the routers that may run there. Where a NIC's thread runs it
        looks at all routers, since that thread works for all of them.

        Parameters
        ----------
        table
            The kernel's number of the table of queues; None: no router has a queue there.
        """
        on_core: dict[int, list[int]] = {}
        for nic, threads in self.nics.items():
            for core in policy.nics[nic].cores or ():
                on_core.setdefault(core, []).extend(threads)
        named = self.threads.keys() | self.queues.keys()
        names = [name for name in policy.routers if name in named]
        cores = set(on_core).union(*(policy.routers[name].cores for name in names))
        work = []
        for core in sorted(cores):
            mine = [n for n in names if core in on_core or _runs_on(policy, n, core)]
            routers = [
                {
                    "threads": self.threads.get(name, []),
                    "queues": self.queues.get(name, []),
                    "weight": policy.routers[name].cpu_weight * _runs_on(policy, name, core),
                }
                for name in mine
            ]
            work.append({"core": core, "nic_threads": on_core.get(core, []), "routers": routers})
        return {"table": table, "cores": work} if work else None


def _runs_on(policy: Policy, router: str, core: int) -> bool:
    cores = policy.routers[router].cores
    return core in cores or not cores

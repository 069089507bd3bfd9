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
    machines: dict[str, str] = field(default_factory=dict)
    """Virtual machine -> the file that lists the threads of its cgroup."""
    back_ends: set[int] = field(default_factory=set)
    """Cores that threads of network back-ends are pinned to."""

    def as_json(self, policy: Policy, table: int | None) -> dict[str, Any] | None:
        """Return the work as the native module takes it; None when there is nothing to do.

        A core's pacemaker looks at the routers that may run there. Where a NIC's thread runs it
        looks at all routers, since that thread works for all of them. The core of a network
        back-end needs none: that wakes up and falls asleep with the frames, and each time the
        scheduler chooses anew, while beats would take a fifth of the core.

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
        machines = [name for name in policy.routers if name in self.machines]
        placed = set[int]().union(*(policy.routers[name].cores for name in (*names, *machines)))
        work = []
        for core in sorted(on_core.keys() | placed - self.back_ends):
            mine = [n for n in names if core in on_core or core in policy.routers[n].cores]
            routers = [
                {"threads": self.threads.get(n, []), "queues": self.queues.get(n, [])} for n in mine
            ]
            work.append(
                {
                    "core": core,
                    "nic_threads": on_core.get(core, []),
                    "routers": routers,
                    "machines": [
                        self.machines[n] for n in machines if core in policy.routers[n].cores
                    ],
                }
            )
        return {"table": table, "cores": work} if work else None

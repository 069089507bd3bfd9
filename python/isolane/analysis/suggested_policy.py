"""The policy file of the arm that a run's answer names, to be filled in and applied."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.spec import Experiment, NicEntry, build_policy, policy_text
from isolane.spec.fields import MAX_ARM_NAME
from isolane.spec.policy_models import OWN
from isolane.spec.port_keys import without_port_keys

FILE = "policy.yaml"
"""Its name in the run folder."""
NICS = ("eth1", "eth2")
"""Stand for the host's interfaces ..."""
INTERFACES = ("eth0", "eth1")
"""... and these for the router's own."""


def suggested_policy(experiment: Experiment, arm: str, cores: Sequence[int]) -> str | None:
    """Return a policy file with the values that an arm's routers had.

    A run knows its own routers only, so how yours are found, and the names of interfaces, are to
    be filled in.

    Parameters
    ----------
    cores
        The DUT's cores in the run.

    Returns
    -------
    str or None
        None where no router of the arm is under a policy, or its cores are not known.
    """
    found = next(one for one in experiment.resolved_arms() if one.name == arm)
    entries = {}
    for router in found.routers:
        if router.policy is None:
            continue
        policy = router.policy
        if router.path == "netback":  # which keeps the rest: suggested_netback
            policy = without_port_keys(policy)
            if not policy.written():
                continue
        if max(policy.cores, default=0) >= len(cores):
            return None  # nothing tells which cores the arm had
        values = policy.on(cores)
        targets = NICS if router.path == "isolane" else (OWN, OWN)
        leaves_by = dict(zip(INTERFACES, targets, strict=True))
        for name in experiment.router(router.group).member_names():
            machine = router.kind == "vm"
            entries[name] = values.domain(name) if machine else values.in_netns(name, leaves_by)
    if not entries:
        return None
    shared = any(router.path == "isolane" for router in found.routers)
    nics = dict.fromkeys(NICS, NicEntry()) if shared else {}
    if not shared and any(entry.is_guest and entry.asks_for_link() for entry in entries.values()):
        nics = {NICS[1]: NicEntry(steer="none")}  # what they receive comes as it came
    name = experiment.name[:MAX_ARM_NAME].rstrip("-")
    text = policy_text(build_policy(name, nics, entries, f"arm {arm}"))
    return (
        f"# The policy of arm {arm} of experiment {experiment.name}.\n"
        "# Fill in how your routers are found (netns, docker, libvirt, process, ...) and the\n"
        f"# names of the interfaces; then, as root: isolane apply {FILE}\n{text}"
    )

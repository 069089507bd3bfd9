"""The network back-end of the arm that a run's answer names, to be filled in and started."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML

from isolane.spec import Experiment
from isolane.spec.fields import MAX_ARM_NAME
from isolane.spec.netback_models import MAX_PORTS
from isolane.spec.port_keys import port_keys

FILE = "netback.yaml"
"""Its name in the run folder."""
UPLINK = "eth1"
"""Stands for the host's interface."""


def suggested_netback(experiment: Experiment, arm: str) -> str | None:
    """Return the file of a back-end that shares its uplink as an arm's did.

    A run knows its own virtual machines only, so the interface and the addresses are to be filled
    in.

    Returns
    -------
    str or None
        None where no router of the arm has path netback, or more than a back-end has ports.
    """
    found = next(one for one in experiment.resolved_arms() if one.name == arm)
    ports: dict[str, Any] = {}
    for router in found.routers:
        if router.path != "netback":
            continue
        for name in experiment.router(router.group).member_names():
            mac = f"02:00:00:00:{len(ports) >> 8:02x}:{len(ports) & 255:02x}"
            ports[name] = {"mac": mac, **port_keys(router.policy, found.uplink.scheduler)}
    if not 0 < len(ports) <= MAX_PORTS:
        return None
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    out = io.StringIO()
    name = experiment.name[:MAX_ARM_NAME].rstrip("-")
    yaml.dump(
        {"isolane": 1, "name": name, "uplinks": {UPLINK: found.uplink.as_keys()}, "ports": ports},
        out,
    )
    return (
        f"# The network back-end of arm {arm} of experiment {experiment.name}.\n"
        "# Fill in the interface that your virtual machines share and the addresses of their\n"
        f"# NICs; then, as root: isolane netback start {FILE}\n{out.getvalue()}"
    )

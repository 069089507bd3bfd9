"""What is asked of a router that is a load balancer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from isolane.errors import SpecError
from isolane.spec import Arm, Experiment, PointRouter
from isolane.testbed import WebPlan

_OTHER_PROCESSES: Final = re.compile(r"^\s*(master-worker|daemon|program)\b", re.MULTILINE)
"""What in a configuration would start processes that nobody accounts for."""


def web_plan(experiment: Experiment, arm: Arm, router: PointRouter) -> WebPlan | None:
    """Return what is asked of a router; None if it is no load balancer.

    Raises
    ------
    SpecError
        If its configuration cannot be read.
    """
    if router.mode != "http":
        return None
    traffic, file = experiment.traffic_of(router.name), arm.router(router.group).haproxy
    try:
        own = None if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SpecError(f"haproxy of router {router.name}: {file}: {why}") from None
    if own is not None and (found := _OTHER_PROCESSES.search(own)):
        raise SpecError(
            f"haproxy of router {router.name}: {file}: {found[1]}: HAProxy is one process here; "
            "leave it out"
        )
    return WebPlan(traffic.object_bytes, traffic.keep_alive, own)

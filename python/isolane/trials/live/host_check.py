"""Whether this host can run an experiment: what a dry run asks, and every run before it begins.

It loads neither the generator nor policies: the answer comes at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from isolane import _native
from isolane.errors import MeasurementError, NotSupported
from isolane.external.external_bed import ExternalBed, look_for
from isolane.spec import Arm, Experiment, PointRouter
from isolane.spec.external_models import External
from isolane.testbed import services, web_servers
from isolane.trials.live import guest_needs
from isolane.trials.live.cores import divide
from isolane.trials.live.testbed_policy import clear_leftovers
from isolane.trials.live.web_plans import web_plan
from isolane.trials.sim.catalogue import has_model


def check_host(experiment: Experiment, arms: Sequence[Arm], *, sending: bool = True) -> None:
    """Look whether this host can run these arms of an experiment, and remove what hinders.

    Parameters
    ----------
    sending
        Whether external routers are asked, too, if they are as the experiment says.

    Raises
    ------
    NotSupported
        Naming everything that is missing.
    SpecError
        A file that an arm names cannot be used.
    MeasurementError
        The host does not say, or an external router is not as the experiment says.
    TestbedError
        What a killed run left cannot be removed.
    """
    refuse_simulated(experiment)
    why = experiment.not_runnable_on(len(os.sched_getaffinity(0)))
    if why:
        raise NotSupported(f"{experiment.name} cannot be run on this host: {why}")
    guest_needs.refuse(experiment, [guest_needs.decided(arm) for arm in arms])
    routers = [router for arm in arms for router in arm.routers]
    services.refuse_lacking(router.group for router in routers if router.services)
    web_servers.refuse_lacking(experiment.web)
    asked = experiment.points()[0].routers
    for arm in arms:
        for router in asked:
            web_plan(experiment, arm, router)
    clear_leftovers()
    for arm in arms:
        divide(arm.cores)
        if arm.external and sending:
            with ExternalBed(externals(arm, asked)):
                pass
        elif arm.external:
            look_for(externals(arm, asked))
    try:
        missing = [found.reason for found in _native.probe_features() if not found.works]
    except _native.NativeError as error:  # it says nothing about this host
        raise MeasurementError(str(error)) from error
    if missing:
        raise NotSupported("not supported on this host:\n  " + "\n  ".join(missing))


def refuse_simulated(experiment: Experiment) -> None:
    """Raise NotSupported if the experiment has something that only a simulated host offers."""
    found = experiment.only_simulated()
    if not found:
        return
    routers = [router for arm in experiment.resolved_arms() for router in arm.routers]
    hint = "\npredict it instead: isolane run EXPERIMENT.yaml --on sim"
    raise NotSupported(
        "this version of Isolane cannot run live:\n  "
        + "\n  ".join(found)
        + (hint if all(map(has_model, routers)) else "")
    )


def externals(arm: Arm, routers: Sequence[PointRouter]) -> list[tuple[str, External]]:
    """Return the external routers of an arm, by name."""
    named = [(router.name, arm.router(router.group).external) for router in routers]
    # The checks of the experiment have refused external routers without addresses.
    return [(name, external) for name, external in named if external is not None]

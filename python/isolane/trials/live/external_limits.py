"""What is not measured where routers are external: they are only seen from outside."""

from __future__ import annotations

from isolane.results.results import NotMeasured
from isolane.spec import Arm, TrialPlan


def external_limits(arm: Arm, plan: TrialPlan) -> tuple[NotMeasured, ...]:
    """Return what an arm of external routers does not tell.

    Parameters
    ----------
    plan
        Says whether capture points and files of frames were asked for.
    """
    why = f"{arm.name} has no capture points, because Isolane does not know what it is made of"
    files = ", and capture files" if plan.capture else ""
    parts = NotMeasured(what=f"Where the time goes on {arm.name}{files}", why=why)
    return (
        *((parts,) if plan.stamps else ()),
        NotMeasured(
            what="Where external routers lose frames",
            why=f"on {arm.name} a frame that was sent and did not come back was lost in or behind "
            "the router, or by this host's NIC where its driver counts no such drops",
        ),
        NotMeasured(
            what="Delays of external routers alone",
            why=f"on {arm.name} they are with this host's NICs, interrupt moderation included, and "
            "with all that lies between them and the router; no floor is measured",
        ),
    )

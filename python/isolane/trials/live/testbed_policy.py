"""Where the policy of a test bed's routers is kept, and what a killed run left of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from isolane.testbed import NETNS_DIR

if TYPE_CHECKING:
    from isolane.enforce import Enforcer

_DIRECTORY = Path("/run/isolane/testbed-policy")
_GROUP = "isolane-testbed"
DUT_NETNS = NETNS_DIR / "isolane-dut"


def enforcer() -> Enforcer:
    """Return what puts policies on the routers of a test bed; apart from the host's own."""
    from isolane.enforce import Enforcer  # noqa: PLC0415 - a dry run can do without

    return Enforcer(DUT_NETNS, _DIRECTORY, _GROUP)


def clear_leftovers() -> list[str]:
    """Remove what of a policy a test bed left that was killed: its cgroups.

    Returns
    -------
    list of str
        What was removed, for the user; empty when there was nothing.

    Raises
    ------
    TestbedError
        Naming what cannot be removed.
    """
    if not _DIRECTORY.is_dir():
        return []
    outcome = enforcer().clear()
    found = outcome.changes or outcome.notes
    return ["cgroups of a test bed's policy"] if found else []

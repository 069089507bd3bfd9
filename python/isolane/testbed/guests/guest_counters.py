"""Reads what a guest tells of itself over its serial line. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from isolane.testbed.snmp import not_forwarded

END = b"end\n"
_QDISC_DROPPED = re.compile(r"\(dropped (\d+),")
"""In the answer of ``tc -s qdisc``, once a qdisc."""


@dataclass(frozen=True)
class GuestLosses:
    """Frames that a guest lost since it was started."""

    guest: int
    """In its NICs: what the driver could not take in, and what did not fit into the queue of the
    sending NIC."""
    no_route: int
    """In its IP layer."""


def parse_losses(text: str) -> GuestLosses:
    """Return a guest's losses from its answer.

    That is lines of ``device counter value``, what ``tc -s qdisc`` says of its sending NIC, and the
    IP lines of ``/proc/net/snmp``.

    Raises
    ------
    ValueError
        When the answer is not one.
    """
    lines = text.splitlines()
    own = [line.split() for line in lines if line.startswith("vec")]
    snmp = "\n".join(line for line in lines if line.startswith("Ip"))
    found = {(device, name): int(value) for device, name, value in own}
    queued = [int(number) for number in _QDISC_DROPPED.findall(text)]
    if queued:
        found["vec1", "queue"] = sum(queued)
    lost = ("vec0", "rx_dropped"), ("vec1", "tx_dropped"), ("vec1", "queue")
    missing = [" ".join(key) for key in lost if key not in found]
    if missing:
        raise ValueError(f"the guest did not tell {', '.join(missing)}")
    return GuestLosses(sum(found[key] for key in lost), not_forwarded(snmp, 4))

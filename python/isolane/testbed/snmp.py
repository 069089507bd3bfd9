"""Reads the counters of a router's IP layer, its own or a guest's. Pure."""

from __future__ import annotations


def not_forwarded(text: str, ip: int) -> int:
    """Frames that reached a router's IP layer and neither left it nor were for itself.

    The sum of the named reasons (InHdrErrors, InNoRoutes, InAddrErrors, ...) would miss what
    blackhole and unreachable routes swallow, which nothing counts; the balance does not.

    Parameters
    ----------
    text
        ``/proc/net/snmp``, for IPv6 ``/proc/net/snmp6``.
    """
    if ip == 4:
        counts = parse_snmp(text, "Ip")
        arrived = counts["InReceives"]
        gone = counts["ForwDatagrams"] + counts["InDelivers"]
        after = counts["OutDiscards"] + counts["FragFails"]
    else:
        counts = parse_snmp6(text)
        arrived = counts["Ip6InReceives"] - counts["Ip6InMcastPkts"]
        gone = counts["Ip6OutForwDatagrams"] + counts["Ip6InDelivers"]
        after = counts["Ip6OutDiscards"] + counts["Ip6FragFails"]
    return max(0, arrived - gone) + after


def parse_snmp(text: str, protocol: str) -> dict[str, int]:
    """Values of ``protocol`` in ``/proc/net/snmp``: a line of names, then a line of values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{protocol}:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=True))


def parse_snmp6(text: str) -> dict[str, int]:
    """Values in ``/proc/net/snmp6``: a name and a value a line."""
    return {name: int(value) for name, value in map(str.split, text.splitlines())}

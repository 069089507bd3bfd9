"""What a kernel's IP layer did with the frames that it got: of a router, or of a guest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from isolane.errors import TestbedError

FILES: Final = {4: "net/snmp", 6: "net/snmp6"}
"""Under ``/proc``, by IP version."""


@dataclass(frozen=True)
class IpCounts:
    """Frames so far at the IP layer of a router."""

    arrived: int
    delivered: int
    """Were for the router itself."""
    forwarded: int
    """Found a route."""
    given_up: int
    """Were given up after that."""
    unanswered: int = 0
    """Were for a program or the kernel to answer, and were not: above all datagrams that found a
    socket full, or none."""
    answered: int = 0
    """Datagrams and echo replies that it gave to an interface to send."""

    @classmethod
    def of(cls, ip: int, text: str) -> Self:
        """Return the counts in one of `FILES`.

        Raises
        ------
        TestbedError
            If there is no such count.
        """
        try:
            if ip == 4:
                v4 = parse_snmp(text, "Ip")
                udp, icmp = parse_snmp(text, "Udp"), parse_snmp(text, "Icmp")
                return cls(
                    v4["InReceives"],
                    v4["InDelivers"],
                    v4["ForwDatagrams"],
                    v4["OutDiscards"] + v4["FragFails"],
                    udp["InErrors"] + udp["NoPorts"] + icmp["InEchos"] - icmp["OutEchoReps"],
                    udp["OutDatagrams"] + udp["SndbufErrors"] + icmp["OutEchoReps"],
                )
            v6 = parse_snmp6(text)
            return cls(
                v6["Ip6InReceives"] - v6["Ip6InMcastPkts"],
                v6["Ip6InDelivers"],
                v6["Ip6OutForwDatagrams"],
                v6["Ip6OutDiscards"] + v6["Ip6FragFails"],
                v6["Udp6InErrors"]
                + v6["Udp6NoPorts"]
                + v6["Icmp6InEchos"]
                - v6["Icmp6OutEchoReplies"],
                v6["Udp6OutDatagrams"] + v6["Udp6SndbufErrors"] + v6["Icmp6OutEchoReplies"],
            )
        except (KeyError, IndexError) as error:
            raise TestbedError(f"the kernel does not tell of IPv{ip}: no {error}") from None

    def lost(self, *, answers: bool) -> dict[str, int]:
        """Return the frames lost at the IP layer, by drop point.

        What arrived and neither left nor was for the router itself was not forwarded: the sum of
        the named reasons (InHdrErrors, InNoRoutes, InAddrErrors, ...) would miss what blackhole and
        unreachable routes swallow, which nothing counts; the balance does not.

        Parameters
        ----------
        answers
            Whether the router is to answer frames: an answer that its interface drops is given up
            as well, and counted there.
        """
        ended = max(0, self.arrived - self.forwarded - self.delivered)
        if answers:
            return {"no_route": ended, "unanswered": self.unanswered}
        return {"no_route": ended + self.given_up}

    def sent(self, *, answers: bool) -> int:
        """Return the frames that it gave to an interface to send, but for errors told to others."""
        return self.forwarded + (self.answered if answers else -self.given_up)


def parse_snmp(text: str, protocol: str) -> dict[str, int]:
    """Values of ``protocol`` in ``/proc/net/snmp``: a line of names, then a line of values."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{protocol}:")]
    return dict(zip(lines[0], map(int, lines[1]), strict=True))


def parse_snmp6(text: str) -> dict[str, int]:
    """Values in ``/proc/net/snmp6``: a name and a value a line."""
    return {name: int(value) for name, value in map(str.split, text.splitlines())}

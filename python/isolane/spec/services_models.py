"""What a router does with each frame besides passing it on."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import PlainValidator, StrictBool

from isolane.spec.base import SpecModel
from isolane.spec.fields import whole, whole_schema

MAX_RULES: Final = 10_000
MAX_NAT_FLOWS: Final = 50_000
"""Flows that have a port each at one address."""

Rules = Annotated[int, PlainValidator(whole(0, MAX_RULES)), whole_schema(0, MAX_RULES)]


class Services(SpecModel):
    """What a container's kernel does with each frame besides passing it on."""

    nftables: Rules = 0
    """Rules of nftables that each frame is compared with, 0 to 10000; none of them matches."""
    conntrack: StrictBool = False
    """Connection tracking: each frame is looked up in the table of flows."""
    nat: StrictBool = False
    """Source NAT: frames leave with the router's own address (masquerade). Tracks connections."""

    @property
    def tracks(self) -> bool:
        """Whether frames are looked up in the table of flows."""
        return self.conntrack or self.nat

    @property
    def any(self) -> bool:
        """Whether there is anything to do."""
        return self.nftables > 0 or self.tracks

    def __str__(self) -> str:
        """Return the keys that are given, such as ``nftables 100, nat``."""
        rules = [f"nftables {self.nftables}"] if self.nftables else []
        return ", ".join(rules + [key for key in ("conntrack", "nat") if getattr(self, key)])

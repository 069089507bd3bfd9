"""Adamczyk and Chydzinski 2012: performance isolation across virtual network adapters in Xen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.reproduce.adamczyk import adamczyk_claims, guest_rows, throughput_plots
from isolane.reproduce.adamczyk.runs import load_host, simulate
from isolane.reproduce.model import Options, Reproduction, Workers

EXPERIMENTS: Mapping[str, tuple[str, ...]] = {
    "5": ("equal-rates",),
    "6": ("unequal-rates",),
    "7": ("no-rate",),
    "8": ("connections",),
    "9": ("disk",),
    "10": ("priorities",),
    "11": ("equal-rates-improved", "equal-rates"),
    "12": ("no-rate-improved", "no-rate"),
    "random-sizes": ("random-sizes",),
    "minimum-rates": ("minimum-rates",),
}
"""The experiment that each figure comes from, and those that it is compared with."""

NOTES = (
    (
        "The paper gives curves and few numbers, no costs and no sizes of buffers. The host's "
        "figures are taken from the software of the time or assumed, and chosen so that the "
        "paper's statements can appear. What is compared is what the paper says in words."
    ),
    (
        "Throughput is UDP payload received, as iperf reports it. A datagram is an IP packet of "
        "1,500 bytes, a frame of 1,518."
    ),
    (
        "The output buffer holds as many frames as one socket: the paper says that one guest's "
        "throughput is stable, so one socket's frames fit, and that two guests' frames are dropped."
    ),
)


@dataclass(frozen=True)
class Adamczyk:
    """The paper; see :class:`isolane.reproduce.model.Paper`."""

    name: str = "adamczyk2012"
    title: str = "Performance isolation issues in network virtualization in Xen"
    source: str = (
        "Adamczyk, Chydzinski: Performance Isolation Issues in Network Virtualization in Xen, "
        "International Journal on Advances in Networks and Services 5(1-2), 2012"
    )
    figures: Mapping[str, str] = field(
        default_factory=lambda: {
            "5": "experiment 1: equal rates, the second guest 5 s later",
            "6": "experiment 2: rates of 30 and 40 Mbit/s",
            "7": "experiment 3: no rate, 500 s",
            "8": "experiment 4: one guest with two or three connections",
            "9": "experiment 5: disk load of the other guest, also with dom0's CPU protected",
            "10": "improved: priorities changed every second",
            "11": "improved: experiment 1",
            "12": "improved: experiment 3",
            "random-sizes": "beyond the paper: WRR, DRR and WFQ with random packet sizes",
            "minimum-rates": "beyond the paper: WFQ's weights, minimum rates",
        }
    )

    def reproduce(self, figures: Sequence[str], options: Options, workers: Workers) -> Reproduction:
        """Simulate these figures; see :class:`isolane.reproduce.model.Paper`."""
        shown = list(dict.fromkeys(EXPERIMENTS[figure][0] for figure in figures))
        needed = list(dict.fromkeys(name for figure in figures for name in EXPERIMENTS[figure]))
        found = simulate(needed, options, workers)
        host = load_host(options.profile)
        return Reproduction(
            paper=self.name,
            title=self.title,
            source=self.source,
            profile=f"{host.name}: {host.title}; not fitted",
            rows=guest_rows.of(found, shown),
            claims=adamczyk_claims.of(found, shown),
            plots=throughput_plots.of(found, shown),
            notes=NOTES,
            complete=not workers.interrupted,
        )


PAPER = Adamczyk()

"""Adamczyk and Chydzinski 2012: performance isolation across virtual network adapters in Xen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.errors import SpecError
from isolane.reproduce.adamczyk import adamczyk_claims, guest_rows, live_runs, throughput_plots
from isolane.reproduce.adamczyk.guest_rows import Found
from isolane.reproduce.adamczyk.live_runs import LiveRuns
from isolane.reproduce.adamczyk.runs import load_host, simulate
from isolane.reproduce.model import Live, Options, Reproduction, Workers

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


LIVE_NOTES = (
    (
        "Live: virtual machines forward what a generator sends them, where the paper's run iperf. "
        "The link is a token bucket of 4 ms, with rates of 20 or 50 ms, so that one guest's credit "
        "fits. Rates count what a frame takes on the wire, 1,538 bytes; in the simulation they "
        "count the frame, 1,518."
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
    live: tuple[str, ...] = tuple(live_runs.OF)
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
        live = live_runs.read(options.runs) if options.runs else None
        if live is not None:
            figures = _measured(figures, live.found)
        shown = list(dict.fromkeys(EXPERIMENTS[figure][0] for figure in figures))
        needed = list(dict.fromkeys(name for figure in figures for name in EXPERIMENTS[figure]))
        found = simulate(needed, options, workers)
        host = load_host(options.profile)
        rows, plots = guest_rows.of(found, shown), throughput_plots.of(found, shown)
        if live is not None:
            rows = guest_rows.with_live(rows, guest_rows.of(live.found, shown))
            plots = throughput_plots.with_live(plots, throughput_plots.of(live.fine, shown))
        return Reproduction(
            paper=self.name,
            title=self.title,
            source=self.source,
            profile=f"{host.name}: {host.title}; not fitted",
            rows=rows,
            claims=adamczyk_claims.of(found, shown),
            plots=plots,
            notes=(*NOTES, *(LIVE_NOTES if live is not None else ())),
            live=_told(live, shown),
            complete=not workers.interrupted,
        )


def _measured(figures: Sequence[str], found: Found) -> tuple[str, ...]:
    """Return the figures of which there are runs.

    Raises
    ------
    SpecError
        If there is none.
    """
    known = tuple(figure for figure in figures if EXPERIMENTS[figure][0] in found)
    if not known:
        has = [figure for figure, names in EXPERIMENTS.items() if names[0] in found]
        raise SpecError(
            f"--live: these runs are of figure {', '.join(has)}, which was not asked for"
        )
    return known


def _told(live: LiveRuns | None, shown: Sequence[str]) -> Live | None:
    if live is None:
        return None
    claims = adamczyk_claims.of(live.found, shown)
    return Live(where=live.where, runs=live.told, claims=claims)


PAPER = Adamczyk()

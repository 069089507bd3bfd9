"""De Oliveira Filho et al. 2024: round-trip times between VMs with SR-IOV, bridge and macvtap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.reproduce.model import Options, Reproduction, Workers
from isolane.reproduce.oliveira2024 import echo_claims, echo_rows, rtt_plots, table3
from isolane.reproduce.oliveira2024.echo_trials import PROFILE, simulate
from isolane.reproduce.oliveira2024.load_cells import FIGURES, cells_of, fast_cells_of
from isolane.reproduce.trials import profile_line

NOTES = (
    (
        "Both servers are simulated at once: an echo passes the sender's VM and host, the wire, "
        "the responder's host and VM, and all of it back. Paths are those of `isolane run --on "
        "sim`: a VM is one process, without a vhost thread of its own."
    ),
    (
        "Two figures are fitted, both marked: host.wake_ns of the profile to 0.1 ms without "
        "background VMs, and the background VMs' rate, of which the paper says nothing, to the CPU "
        "use of the sender server under network load. All else is predicted."
    ),
    (
        "A response time is the difference of the medians of two time stamps of the responder's "
        "kernel. Echoes at 1 Mpps are sent as far apart as the mean round trip at 1 kpps, since "
        "ping is taken to have one under way at a time at such intervals; under network load alone."
    ),
    (
        "Table 3: the paper does not say what it pairs; here the medians of trials with the same "
        "load, number of VMs and seed, at 1 kpps. CPU is that of the sender server, as in the "
        "paper's section 3.1. Not simulated: RTT overhead (figures 9 and 10), Kendall's rank "
        "correlation (figure 21)."
    ),
)


@dataclass(frozen=True)
class Oliveira:
    """The paper; see :class:`isolane.reproduce.model.Paper`."""

    name: str = "oliveira2024"
    title: str = "Measuring the impact of SR-IOV and virtualization on packet round-trip time"
    source: str = (
        "de Oliveira Filho, Freitas, do Carmo, Sadok, Kelner: Measuring the impact of SR-IOV and "
        "virtualization on packet round-trip time, 2024"
    )
    live: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(
        default_factory=lambda: {key: shown.title for key, shown in FIGURES.items()}
    )

    def reproduce(self, figures: Sequence[str], options: Options, workers: Workers) -> Reproduction:
        """Simulate these figures; see :class:`isolane.reproduce.model.Paper`."""
        slow = dict.fromkeys(cell for figure in figures for cell in cells_of(figure))
        fast = dict.fromkeys(cell for figure in figures for cell in fast_cells_of(figure))
        found = simulate(slow, fast, options, workers)
        fitted = str(options.profile or PROFILE) == PROFILE
        verdicts = "table3" in figures
        return Reproduction(
            paper=self.name,
            title=self.title,
            source=self.source,
            profile=profile_line(options.profile, PROFILE),
            rows=(
                *echo_rows.of(found, figures, fitted=fitted),
                *(table3.rows(found) if verdicts else ()),
            ),
            claims=(
                *echo_claims.of(found, figures),
                *(table3.claims(found) if verdicts else ()),
            ),
            plots=rtt_plots.of(found, figures),
            notes=NOTES,
            complete=not workers.interrupted,
        )


PAPER = Oliveira()

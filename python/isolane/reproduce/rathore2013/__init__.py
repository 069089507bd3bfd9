"""Rathore, Hidell and Sjödin 2013: containers and virtual machines as routers, with SR-IOV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.reproduce.model import Options, Reproduction, Workers
from isolane.reproduce.rathore2013 import figure_plots, figure_rows, rathore_claims
from isolane.reproduce.trials import load, profile_line, simulate

EXPERIMENTS: Mapping[str, str] = {
    "4": "throughput",
    "5": "throughput",
    "6": "throughput",
    "7": "routers-1core",
    "8": "routers-2cores",
    "table1": "scenario1",
    "table2": "scenario1",
    "scenario2": "scenario2",
}
"""Which experiment each figure comes from."""

PROFILE = "rathore2013"

NOTES = (
    (
        "Scenario II was not given and the profile was not fitted to it: all of it is predicted. "
        "So are the latencies of figure 6 and what lies between the points that the text names."
    ),
    "CPU use of virtual machines is that of their processes, as the host sees it.",
)


@dataclass(frozen=True)
class Rathore:
    """The paper; see :class:`isolane.reproduce.model.Paper`."""

    name: str = "rathore2013"
    title: str = "LXC vs. KVM: performance and isolation of hardware-assisted virtual routers"
    source: str = (
        "Rathore, Hidell, Sjödin: KVM vs. LXC: Comparing Performance and Isolation of "
        "Hardware-Assisted Virtual Routers, American Journal of Networks and Communications, 2013"
    )
    live: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(
        default_factory=lambda: {
            "4": "throughput against offered load, five configurations",
            "5": "CPU of virtual machines against offered load, kernel and user",
            "6": "latency at line rate",
            "7": "1 to 8 routers on one core",
            "8": "1 to 8 routers on two cores",
            "table1": "isolation, scenario I, containers",
            "table2": "isolation, scenario I, virtual machines",
            "scenario2": "isolation, scenario II, predicted (tables 3 to 5)",
        }
    )

    def reproduce(self, figures: Sequence[str], options: Options, workers: Workers) -> Reproduction:
        """Simulate these figures; see :class:`isolane.reproduce.model.Paper`."""
        chosen = options if options.profile else Options(options.seed, PROFILE, options.scale)
        names = dict.fromkeys(EXPERIMENTS[figure] for figure in figures)
        experiments = [load(self.name, name) for name in names]
        found = simulate(experiments, chosen, workers, self.name)
        fitted = str(chosen.profile) == PROFILE
        return Reproduction(
            paper=self.name,
            title=self.title,
            source=self.source,
            profile=profile_line(chosen.profile, PROFILE),
            rows=figure_rows.of(found, figures, fitted=fitted),
            claims=rathore_claims.of(found, figures),
            plots=figure_plots.of(found, figures),
            notes=(*found.notes(), *NOTES),
            complete=not workers.interrupted,
        )


PAPER = Rathore()

"""Ahn, Lee and Yoo: a virtual router on Xen with a virtual function, beside dom0 and native."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from isolane.reproduce.model import (
    Claim,
    Options,
    Plot,
    PlotPoint,
    Reproduction,
    Row,
    Workers,
)
from isolane.reproduce.trials import (
    TOTAL,
    Figure,
    Trials,
    carry_out,
    figures_of,
    jobs,
    load,
    profile_line,
    valid,
)
from isolane.trials.backend import Observation
from isolane.trials.sim.observe import observe
from isolane.trials.sim.split import split
from isolane.trials.sim.trial import TrialJob, run_job

PROFILE = "ahn"

WORDS: Mapping[str, str] = {
    "xen-domu": "Xen domU with a VF",
    "xen-dom0": "Xen dom0",
    "native": "native Linux",
}
PARTS: Mapping[str, str] = {
    "hypervisor": "XEN",
    "net": "NET",
    "memory": "MEM",
    "kernel": "KERNEL",
    "driver": "IXGBE",
}
"""Accounts, and what the paper's figure 1 calls them."""

NOTES = (
    (
        "The paper gives no numbers for the split of CPU time (its figure 1 is a drawing): the "
        "shares are those that the profile assumes, within what the text says about them. Only "
        "their sums are fitted, one for each forwarding rate."
    ),
)

Shares = Mapping[str, Mapping[str, float]]


def trial(job: TrialJob) -> tuple[Observation, dict[str, float]]:
    """Simulate a trial; return its observation and the division of the core's time."""
    model, found = run_job(job)
    return observe(model, job.setting, found), split(model, found)


@dataclass(frozen=True)
class Ahn:
    """The paper; see :class:`isolane.reproduce.model.Paper`."""

    name: str = "ahn"
    title: str = "Performance analysing for virtual router on Xen hypervisor"
    source: str = "Ahn, Lee, Yoo: Performance Analysing for Virtual Router on Xen Hypervisor"
    live: tuple[str, ...] = ()
    figures: Mapping[str, str] = field(
        default_factory=lambda: {
            "table1": "forwarding rate and CPU utilization",
            "1": "split of CPU time as stacked bars",
        }
    )

    def reproduce(self, figures: Sequence[str], options: Options, workers: Workers) -> Reproduction:
        """Simulate these figures; see :class:`isolane.reproduce.model.Paper`."""
        chosen = options if options.profile else Options(options.seed, PROFILE, options.scale)
        experiment = load(self.name, "forwarding")
        todo = jobs(experiment, chosen)
        results = carry_out(trial, todo, workers, self.name)
        good, why = valid({key: (own[0][0],) for key, own in results.items()})
        found = Trials({experiment.name: experiment}, good, why)
        shares = {key[1]: own[0][1] for key, own in results.items() if key in good}
        fitted = str(chosen.profile) == PROFILE
        rows = (
            [*_table(found, figures_of(experiment), fitted=fitted)] if "table1" in figures else []
        )
        rows += [*_bars(shares)] if "1" in figures else []
        return Reproduction(
            paper=self.name,
            title=self.title,
            source=self.source,
            profile=profile_line(chosen.profile, PROFILE),
            rows=tuple(rows),
            claims=tuple(_claims(found, shares, figures)) if len(shares) == len(WORDS) else (),
            plots=tuple(_plots(rows)),
            notes=(*found.notes(), *NOTES),
            complete=not workers.interrupted,
        )


def _table(found: Trials, published: Sequence[Figure], *, fitted: bool) -> Iterator[Row]:
    for figure in published:
        value, rate = found.value(figure), figure.metric == "throughput"
        assert figure.published is not None
        scale = 1.0 if rate else 100.0
        yield Row(
            paper="ahn",
            figure="table 1",
            configuration=WORDS[figure.arm],
            offered={"router": 14.8},
            offered_unit="Mpps",
            quantity="forwarding rate" if rate else "CPU utilization",
            unit="pps" if rate else "%",
            published=round(figure.published * scale, 6),
            simulated=None if value is None else value * scale,
            fitted=fitted and rate,
            note=found.note(figure),
        )


def _bars(shares: Shares) -> Iterator[Row]:
    for arm, words in WORDS.items():
        for account, part in PARTS.items():
            if arm in shares:
                yield Row(
                    paper="ahn",
                    figure="figure 1",
                    configuration=words,
                    offered={"router": 14.8},
                    offered_unit="Mpps",
                    quantity=f"CPU time, {part}",
                    unit="%",
                    published=None,
                    simulated=100 * shares[arm].get(account, 0.0),
                    note="assumed by the profile",
                )


def _plots(rows: Sequence[Row]) -> Iterator[Plot]:
    rates = [row for row in rows if row.quantity == "forwarding rate"]
    if rates:
        points = [
            PlotPoint(series="forwarding rate", x=row.configuration, y=y, published=published)
            for row in rates
            for y, published in ((row.simulated, False), (row.published, True))
            if y is not None
        ]
        yield Plot(
            figure="table 1",
            title="Table 1: forwarding rate",
            kind="bars",
            x_title="configuration",
            y_title="frames per second",
            points=tuple(points),
            caption="Ticks are the paper's figures.",
        )
    parts = [row for row in rows if row.figure == "figure 1" and row.simulated is not None]
    if parts:
        yield Plot(
            figure="figure 1",
            title="Figure 1: use of CPU time",
            kind="stacked",
            x_title="configuration",
            y_title="CPU time (%)",
            points=tuple(
                PlotPoint(
                    series=row.quantity.removeprefix("CPU time, "),
                    x=row.configuration,
                    y=row.simulated or 0.0,
                )
                for row in parts
            ),
            caption="The division is the profile's assumption: the paper gives no numbers for it.",
        )


def _claims(found: Trials, shares: Shares, figures: Sequence[str]) -> Iterator[Claim]:
    if "table1" in figures:
        yield from _about_rates(found)
    if "1" in figures:
        yield from _about_shares(shares)


def _about_rates(found: Trials) -> Iterator[Claim]:
    name = next(iter(found.experiments))
    domu, dom0, native = (found.rate(name, arm, 0) or 0.0 for arm in WORDS)
    yield Claim(
        figure="table 1",
        text="A domU with a virtual function forwards about 3.5 times what native Linux does.",
        reproduced=3.15 <= domu / max(native, 1.0) <= 3.85,
        evidence=f"{domu:,.0f} and {native:,.0f} frames/s: {domu / max(native, 1.0):.2f} times.",
    )
    yield Claim(
        figure="table 1",
        text="dom0 forwards less than native Linux.",
        reproduced=dom0 < native,
        evidence=f"{dom0:,.0f} and {native:,.0f} frames/s.",
    )
    busy = [100 * (found.value(Figure(name, arm, 0, TOTAL, "cpu", None)) or 0.0) for arm in WORDS]
    yield Claim(
        figure="table 1",
        text="All of them use the whole CPU.",
        reproduced=min(busy) >= 99,
        evidence=f"the least is {min(busy):.1f} %.",
    )


def _about_shares(shares: Shares) -> Iterator[Claim]:
    def rest(arm: str) -> float:
        return 100 * sum(shares[arm].get(a, 0.0) for a in PARTS if a != "driver")

    dom0 = {part: shares["xen-dom0"].get(account, 0.0) for account, part in PARTS.items()}
    yield Claim(
        figure="figure 1",
        text="In dom0, Xen takes the most CPU time.",
        reproduced=max(dom0, key=lambda part: dom0[part]) == "XEN",
        evidence=f"{100 * dom0['XEN']:.0f} % (assumed by the profile, kept by the simulation).",
    )
    yield Claim(
        figure="figure 1",
        text="In domU, XEN, NET, MEM and KERNEL take less than NET, MEM and KERNEL natively.",
        reproduced=rest("xen-domu") < rest("native"),
        evidence=f"{rest('xen-domu'):.0f} and {rest('native'):.0f} % (assumed by the profile).",
    )


PAPER = Ahn()

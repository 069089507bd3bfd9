"""``isolane search``: finds the throughput of each arm at several loss ratios."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli import signals
from isolane.cli.progress import progress
from isolane.cli.run_options import On
from isolane.cli.shares import read_share

if TYPE_CHECKING:
    from isolane.results.folder import RunFolder
    from isolane.run.search import SearchOptions, SearchSummary, Subject
    from isolane.spec import Experiment
    from isolane.trials.backend import BackEnd

EPILOG = """Examples:

\b
  isolane search experiments/noisy-neighbour.yaml
  isolane search EXPERIMENT.yaml --loss-ratio 0 --loss-ratio 0.1% --max-delay 1ms
  isolane search EXPERIMENT.yaml --exceed-ratio 0 --duration 60s --duration-sum 60s    (RFC 2544)
  isolane search EXPERIMENT.yaml --on sim --together --json | jq '.searched[].rates'

\b
What is found, for each arm:
  NDR     highest rate without any loss, in half of the trials at least; with --exceed-ratio 0
          in all of them (RFC 2544 calls that throughput)
  PDR     highest rate with at most the given share of loss
  MFR     maximum forwarding rate: the most that comes through at any load (RFC 2285, 3.6.2)
  FRMOL   what comes through at the maximum offered load (RFC 2285, 3.6.1)

\b
Exit status: 0 done; 1 an arm could not be searched to its end; 130 after Ctrl-C: what was found
until then is kept.
"""

Watch = Callable[[int, str], None]

_Experiment = Annotated[
    Path,
    typer.Argument(
        metavar="EXPERIMENT", help="The experiment file; its arms are searched, its loads unused."
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Folder for the results; default: runs/NAME-search-TIME.",
    ),
]
_Json = Annotated[
    bool, typer.Option("--json", help="Print the results as JSON instead of the table.")
]
_Details = Annotated[
    bool, typer.Option("--details", help="Print each rate with its bounds, and why it is one.")
]
_Where = Annotated[
    On,
    typer.Option("--on", help="live: real frames on this host; sim: a simulated host."),
]
_Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help="Simulated host: rathore2013 (default; 1 Gbit/s, Linux 3.2), ahn, oliveira2024, veth "
        "(this kind of test bed), or a file.",
    ),
]
_Routers = Annotated[
    list[str] | None,
    typer.Option(
        "--router",
        metavar="NAME",
        help="Search this router alone; repeatable. Default: the one that defines 1x, and those "
        "that are not like it.",
    ),
]
_Together = Annotated[
    bool, typer.Option("--together", help="Search all routers together, with equal shares.")
]
_Ratios = Annotated[
    list[str] | None,
    typer.Option(
        "--loss-ratio",
        metavar="SHARE",
        help="Highest share of lost frames: 0 is the NDR, others (0.005, 0.5%) are PDRs; "
        "repeatable. Default: 0 and 0.5%.",
    ),
]
_Delays = Annotated[
    list[str] | None,
    typer.Option(
        "--max-delay",
        metavar="TIME",
        help="Search once more for loads whose p99 delay stays below this; repeatable.",
    ),
]
_MinRate = Annotated[
    str, typer.Option("--min-rate", metavar="RATE", help="Lowest load that is offered.")
]
_MaxRate = Annotated[
    str | None,
    typer.Option(
        "--max-rate", metavar="RATE", help="Highest load; default: all that can be offered."
    ),
]
_Initial = Annotated[
    str,
    typer.Option("--initial-duration", metavar="TIME", help="Window of the first, rough trials."),
]
_Final = Annotated[
    str, typer.Option("--duration", metavar="TIME", help="Window of the trials that decide.")
]
_Sum = Annotated[
    str,
    typer.Option(
        "--duration-sum",
        metavar="TIME",
        help="Total window of the trials that decide on a load.",
    ),
]
_Width = Annotated[
    str,
    typer.Option("--width", metavar="SHARE", help="Distance of the bounds at the end, such as 1%."),
]
_Exceed = Annotated[
    str,
    typer.Option(
        "--exceed-ratio",
        metavar="SHARE",
        help="Share of the trials (by time) that may lose more; 0: none may, as RFC 2544 has it.",
    ),
]
_Limit = Annotated[
    str | None,
    typer.Option(
        "--time-limit", metavar="TIME", help="Longest time for each arm and router; default: none."
    ),
]


def command(
    experiment: _Experiment,
    output: _Output = None,
    json: _Json = False,
    details: _Details = False,
    on: _Where = On.LIVE,
    profile: _Profile = None,
    router: _Routers = None,
    together: _Together = False,
    loss_ratio: _Ratios = None,
    max_delay: _Delays = None,
    min_rate: _MinRate = "1kpps",
    max_rate: _MaxRate = None,
    initial_duration: _Initial = "50ms",
    duration: _Final = "200ms",
    duration_sum: _Sum = "600ms",
    width: _Width = "0.5%",
    exceed_ratio: _Exceed = "0.5",
    time_limit: _Limit = None,
) -> None:
    """Find what each arm forwards at several loss ratios.

    Use it before you plan loads, or compare data paths: "capacity" is not one figure. The command
    searches each router alone (or all together) in each arm. It first raises the load from below
    for the maximum forwarding rate, then searches all loss ratios at once with the MLRsearch
    library. It prints a row for each arm, and keeps every trial in the run folder. A rate that only
    the generator limits is told as a lower bound. Needs root, except with --on sim.
    """
    from isolane.run.search import subjects_of
    from isolane.spec import load_experiment

    spec = load_experiment(experiment)
    given = _Given(loss_ratio, max_delay, min_rate, max_rate, initial_duration, duration)
    options = given.options(spec, duration_sum, width, exceed_ratio, time_limit)
    if together and router:
        message = "give either --router or --together"
        raise typer.BadParameter(message)
    subjects = subjects_of(spec, router or (), together=together)
    target = output or Path("runs") / f"{spec.name}-search-{time.strftime('%Y%m%d-%H%M%S')}"
    plan = _Plan(spec, experiment, target, options, subjects)
    if on is On.SIM:
        summary = _simulate(plan, profile)
    elif profile is not None:
        message = "--profile names the profile of a simulated host; add --on sim"
        raise typer.BadParameter(message)
    else:
        summary = _measure(plan)
    _present(summary, target, json=json, details=details)
    if not summary.complete:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Given:
    """Values of the options, as text."""

    ratios: list[str] | None
    delays: list[str] | None
    min_rate: str
    max_rate: str | None
    initial: str
    final: str

    def options(
        self, spec: Experiment, total: str, width: str, exceed: str, limit: str | None
    ) -> SearchOptions:
        """Read them all.

        Raises
        ------
        SpecError
            Naming the option, the value, and what would be accepted.
        """
        from isolane.run.search import SearchOptions
        from isolane.spec import parse_duration_within

        bounds = "10ms", "1h"
        defaults = SearchOptions()
        ratios = self.ratios
        return SearchOptions(
            loss_ratios=tuple(read_share("--loss-ratio", text) for text in ratios)
            if ratios
            else defaults.loss_ratios,
            max_delays_ns=tuple(
                parse_duration_within("--max-delay", text, "1us", "1min")
                for text in self.delays or ()
            ),
            min_pps=_rate("--min-rate", self.min_rate, spec),
            max_pps=None if self.max_rate is None else _rate("--max-rate", self.max_rate, spec),
            initial_ns=parse_duration_within("--initial-duration", self.initial, *bounds),
            final_ns=parse_duration_within("--duration", self.final, *bounds),
            sum_ns=parse_duration_within("--duration-sum", total, "10ms", "24h"),
            relative_width=read_share("--width", width),
            exceed_ratio=read_share("--exceed-ratio", exceed),
            limit_s=None
            if limit is None
            else parse_duration_within("--time-limit", limit, "1s", "24h") / 1e9,
        )


def _rate(option: str, text: str, spec: Experiment) -> float:
    from isolane.errors import SpecError
    from isolane.spec import parse_rate

    try:
        rate = parse_rate(text)
    except SpecError as error:
        raise SpecError(f"{option} {text}: {error}") from None
    if rate.unit == "x" or rate.value <= 0:
        raise SpecError(f"{option} {text}: accepted: a rate above 0 in pps or bps")
    frame_bytes = spec.traffic_of(spec.capacity_reference().router).mean_frame_bytes
    return rate.to_pps(None, frame_bytes)


@dataclass(frozen=True)
class _Plan:
    spec: Experiment
    source: Path
    target: Path
    options: SearchOptions
    subjects: tuple[Subject, ...]

    def search(self, back_end: BackEnd, date: Callable[[], float]) -> SearchSummary:
        """Make the folder and search into it."""
        from isolane.cli.runlog import logged
        from isolane.results.folder import RunFolder
        from isolane.run.search import Search

        folder = RunFolder.create(self.target, self.source.read_bytes(), back_end.host())
        with _kept(folder), logged(folder), progress("percent") as tell:

            def watch(done: int, label: str) -> None:
                signals.heed()
                tell(done, 100, label)

            return Search(
                self.spec,
                back_end,
                folder,
                self.options,
                self.subjects,
                watch=watch,
                date=date,
            ).execute()


@contextmanager
def _kept(folder: RunFolder) -> Iterator[None]:
    """Say what is kept when something ends a search early."""
    from isolane.results.folder import SEARCH

    try:
        yield
    except BaseException:
        path = shlex.quote(str(folder.path / SEARCH))
        print(f"isolane: what was found until then is kept in {path}", file=sys.stderr)
        raise


def _measure(plan: _Plan) -> SearchSummary:
    """Search live, with the exclusive right to change the host."""
    from isolane.cli.rights import need_root
    from isolane.testbed import clean, exclusive
    from isolane.trials.live.host_check import refuse_simulated
    from isolane.trials.live.live_backend import LiveBackEnd

    refuse_simulated(plan.spec)
    need_root(
        "a live search needs root (namespaces, BPF, thread settings)", ", or simulate it: --on sim"
    )
    unseen = {"cpu_profile": 0, "capture": False}  # nobody would see what they tell
    trial = plan.spec.trial.model_copy(update=unseen)
    spec = plan.spec.model_copy(update={"trial": trial})
    with exclusive() as journal, closing(LiveBackEnd(spec, journal)) as back_end:
        for left in clean():
            typer.echo(f"isolane: removed what a killed run left behind: {left}", err=True)
        back_end.check(plan.spec.resolved_arms())
        return plan.search(back_end, time.time)


def _simulate(plan: _Plan, profile: str | None) -> SearchSummary:
    from isolane.trials.sim.sim_backend import SimBackEnd

    with closing(SimBackEnd(plan.spec, profile)) as back_end:
        back_end.check(plan.spec.resolved_arms())
        return plan.search(back_end, lambda: 0.0)


def _present(summary: SearchSummary, target: Path, *, json: bool, details: bool) -> None:
    from isolane.results.folder import SEARCH

    if json:
        typer.echo(summary.model_dump_json(indent=2))
    elif details:
        from isolane.cli.search_table import print_search

        print_search(summary)
    else:
        from isolane.cli.search_answer import print_answer

        print_answer(summary)
    typer.echo(f"results: {target / SEARCH}", err=json)

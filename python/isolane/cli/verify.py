"""``isolane verify``: measures with real frames whether a policy's promises hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli import signals
from isolane.cli.progress import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from isolane.spec import Policy
    from isolane.stats.promises import Answer
    from isolane.verify import Report
    from isolane.verify.pace import Progress
    from isolane.verify.report_data import Options
    from isolane.verify.session import Verification

EPILOG = """Examples:

\b
  isolane verify edge.yaml
  isolane verify edge.yaml --time-limit 10min --json > edge-verified.json
  isolane verify edge.yaml --thorough
  isolane verify edge.yaml --from eth3 --to eth4 \\
      --destination gold=198.51.100.9 --destination bronze=203.0.113.9

\b
Exit status: 0 every promise that could be measured holds; 4 one does not;
1 none is broken, but one is undecided; 3 none could be measured on this host.
"""


_Policy = Annotated[Path, typer.Argument(metavar="POLICY.yaml", help="The policy file.")]
_TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="Begin no pair of trials after this; default: 2min, or longer if there are so many "
        "promises that they cannot be decided by then.",
    ),
]
_Duration = Annotated[
    str, typer.Option("--duration", metavar="TIME", help="Measuring window of each trial.")
]
_Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        min=0.1,
        max=100.0,
        metavar="FACTOR",
        help="Multiply the tolerances by this.",
    ),
]
_Sending = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="IFACE[@NETNS]",
        help="Load the running routers: interface to send from.",
    ),
]
_Receiving = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="IFACE[@NETNS]",
        help="Interface at which the routers' frames come back.",
    ),
]
_Destination = Annotated[
    list[str] | None,
    typer.Option(
        "--destination",
        metavar="ROUTER=ADDRESS[@IFACE]",
        help="An address that this router forwards to --to; repeat for each router.",
    ),
]
_Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="ADDRESS",
        help="Source address of the frames; default: that of --from.",
    ),
]
_Nic = Annotated[
    str | None,
    typer.Option(
        "--nic",
        metavar="NIC",
        help="The policy's NIC that --to is cabled to; default: the only one.",
    ),
]
_Json = Annotated[
    bool, typer.Option("--json", help="Print the findings as JSON instead of the table.")
]

_Thorough = Annotated[
    bool,
    typer.Option(
        "--thorough",
        help="Overload routers by every traffic pattern: bursts, fragments, frames for the router "
        "itself, ...; in a test bed only.",
    ),
]
_Details = Annotated[
    bool, typer.Option("--details", help="Print every promise, and how sure the table is.")
]


def command(
    policy: _Policy,
    time_limit: _TimeLimit = None,
    duration: _Duration = "300ms",
    tolerance: _Tolerance = 1.0,
    thorough: _Thorough = False,
    sending: _Sending = None,
    receiving: _Receiving = None,
    destination: _Destination = None,
    source: _Source = None,
    nic: _Nic = None,
    details: _Details = False,
    json: _Json = False,
) -> None:
    """Measure whether the promises of a policy hold.

    Use it before you rely on a policy, and after a change of kernel or hardware. The command builds
    a test bed that mirrors the policy, overloads each router in turn with real frames, and tells
    for each promise whether it held, by how much, and how sure this is. It measures until each
    promise is decided or the time is over. It names the promises that it could not decide or
    measure, and leaves the host as it was. Needs root.

    With --from and --to it overloads the running routers themselves, with the policy in force:
    they then lose frames of other users, too. Cable both interfaces to NICs that the routers
    share.
    """
    from isolane.cli.enforcing import need_rights
    from isolane.spec import load_policy

    wanted = load_policy(policy)
    options = replace(_options(time_limit, duration, tolerance), thorough=thorough)
    named = _named(sending, receiving, destination or [], source=source, nic=nic)
    if named and thorough:
        message = "--thorough is for a test bed: other users' routers are not sent bad frames"
        raise typer.BadParameter(message)
    need_rights()
    try:
        report = _really(wanted, options, named) if named else _in_test_bed(wanted, options)
    except KeyboardInterrupt:
        typer.echo("isolane: an unfinished verification keeps no results", err=True)
        raise
    _print(report, json=json, details=details)
    judge(report.count)


def _options(time_limit: str | None, duration: str, tolerance: float) -> Options:
    import secrets

    from isolane.spec import parse_duration_within
    from isolane.verify.report_data import Options, Tolerance

    window_ns = parse_duration_within("--duration", duration, "50ms", "1h")
    limit_s = None
    if time_limit is not None:
        limit_s = parse_duration_within("--time-limit", time_limit, "1s", "24h") / 1e9
    return Options(window_ns, Tolerance(tolerance), limit_s, secrets.randbelow(2**31))


def judge(count: Callable[[Answer], int]) -> None:
    """Raise the error whose exit status fits the findings; count: how many have a verdict."""
    from isolane.errors import MeasurementError, NotSupported, TargetMissed

    broken, undecided = count("broken"), count("undecided")
    of = broken + undecided + count("held")
    if broken:
        raise TargetMissed(f"{broken} of {of} measured promises did not hold")
    if undecided:
        raise MeasurementError(
            f"{undecided} of {of} measured promises are undecided; a longer --time-limit or a "
            "quieter host decides more"
        )
    if not of:
        raise NotSupported(
            "not supported on this host: no promise could be measured; the table says why"
        )


@dataclass(frozen=True)
class _Named:
    """The options for real interfaces."""

    sending: str
    receiving: str
    destinations: list[str]
    source: str | None
    nic: str | None


def _in_test_bed(policy: Policy, options: Options) -> Report:
    from isolane.testbed import clean, exclusive
    from isolane.verify.environment import TestBed
    from isolane.verify.session import Verification

    with exclusive() as journal:
        for left in clean():
            typer.echo(f"isolane: removed what a killed run left behind: {left}", err=True)
        environment = TestBed(policy, journal, options.window_ns, options.tolerance)
        return _watched(Verification(policy, environment, options))


def _named(
    sending: str | None,
    receiving: str | None,
    destinations: list[str],
    *,
    source: str | None,
    nic: str | None,
) -> _Named | None:
    """Collect the options for real interfaces; None if there are none."""
    if (sending is None) != (receiving is None):
        message = "give both --from and --to (real interfaces), or neither (a test bed)"
        raise typer.BadParameter(message)
    if sending is None or receiving is None:
        if destinations or source or nic:
            message = "--destination, --source and --nic need --from and --to (real interfaces)"
            raise typer.BadParameter(message)
        return None
    return _Named(sending, receiving, destinations, source, nic)


def _really(policy: Policy, options: Options, named: _Named) -> Report:
    from isolane.cli.enforcing import enforcer
    from isolane.verify.real import Port, Wiring, connect
    from isolane.verify.session import Verification

    pairs = [text.partition("=") for text in named.destinations]
    wrong = next((name for name, equals, value in pairs if not (name and equals and value)), None)
    if wrong is not None:
        message = f"{wrong!r} is not of the form ROUTER=ADDRESS or ROUTER=ADDRESS@INTERFACE"
        raise typer.BadParameter(message, param_hint="--destination")
    wiring = Wiring(
        Port.read(named.sending),
        Port.read(named.receiving),
        {name: value for name, _, value in pairs},
        named.nic,
        named.source,
    )
    environment, absent = connect(policy, enforcer(), wiring, options)
    return _watched(Verification(policy, environment, options, absent=absent))


def _watched(verification: Verification) -> Report:
    """Carry the verification out and show its progress."""
    with whole("of the verification") as tell:

        def watch(step: Progress) -> None:
            signals.heed()
            tell(step.fraction, step.left_s, step.label)

        verification.watch = watch
        return verification.execute()


def _print(report: Report, *, json: bool, details: bool) -> None:
    if json:
        typer.echo(report.model_dump_json(indent=2))
        return
    from isolane.cli.findings import print_report

    print_report(report, details=details)

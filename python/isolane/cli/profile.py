"""``isolane profile``: where the processor goes, for what already runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.enforcing import complete_router

if TYPE_CHECKING:
    from isolane.cpu_profile.profile_figures import ProfileFigures
    from isolane.cpu_profile.sampled_stacks import CpuProfile
    from isolane.cpu_profile.sampler import Sampled
    from isolane.enforce.router_facts import Sample
    from isolane.enforce.work_owners import WorkOwners

_BUSY = 0.9
"""Part of the time above which a core hardly idles."""
EPILOG = """Examples:

\b
  sudo isolane profile                      the routers' cores for 10 s
  sudo isolane profile edge1 --details      each category of one router
  sudo isolane profile --cores 0-3 -d 30s   other cores; also without a policy
  sudo isolane profile -o why-so-slow       flame graph, folded stacks, speedscope, JSON
  sudo isolane profile --json | jq '.owners[] | {owner, cpu_share}'

\b
CPU: part of the time of all cores that were sampled. ns/frame: CPU time for each frame that
the router forwarded meanwhile, dropped ones' cost included. NICs: the threads that poll
interfaces which routers share. host: all others. What a category is: docs/cpu-profile.md.
"""


def command(
    router: Annotated[
        str | None,
        typer.Argument(
            metavar="[ROUTER]", help="Show only this router.", autocompletion=complete_router
        ),
    ] = None,
    duration: Annotated[
        str, typer.Option("--duration", "-d", metavar="TIME", help="How long.")
    ] = "10s",
    rate: Annotated[
        int,
        typer.Option("--rate", min=1, max=10_000, help="Samples of each core a second."),
    ] = 99,
    cores: Annotated[
        str,
        typer.Option("--cores", help="Cores, such as 1,4-7; default: the policy's, or all."),
    ] = "",
    details: Annotated[
        bool, typer.Option("--details", help="Show each category, with 95 % intervals.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write files there, a new folder."),
    ] = None,
) -> None:
    """Show what CPU time is spent on, by router.

    CPU time by router and category, from call chains that are sampled on the routers' cores.

    Use it when you know how much a router costs (isolane top), and want to know on what. Routers
    are told apart while a policy is in force. Needs root.
    """
    from isolane.cli.enforcing import need_rights
    from isolane.cpu_profile.category_table import figures
    from isolane.cpu_profile.core_list import cores_of
    from isolane.spec import parse_duration_within

    duration_s = parse_duration_within("--duration", duration, "0.1s", "1h") / 1e9
    chosen = cores_of("--cores", cores)
    need_rights()
    with _new_folder(output):
        profile = _with_owners(_taken(router, chosen, rate, duration_s))
        found = figures(profile)
        if router is not None:
            found = found.model_copy(update={"owners": tuple(filter(None, [found.of(router)]))})
        try:
            _tell(found, router, as_json=as_json, details=details)
        finally:
            if output is not None:
                _write(output, profile, found, router)
                typer.echo(f"files: {output}", err=as_json)


def _tell(found: ProfileFigures, router: str | None, *, as_json: bool, details: bool) -> None:
    from isolane.cli.enforcing import print_json

    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    _print(found, details=details)
    if router is not None and not found.owners:
        typer.echo(f"no sample met {router}")


@contextmanager
def _new_folder(output: Path | None) -> Iterator[None]:
    """Make the folder before anything is sampled; it goes again where nothing was written."""
    from isolane.errors import OutputError, SpecError

    if output is None:
        yield
        return
    if output.exists():
        raise SpecError(f"--output: {output} is there; give the name of a new folder")
    try:
        output.mkdir(parents=True)
    except OSError as error:
        raise OutputError(f"--output: {output} cannot be made: {error.strerror}") from None
    try:
        yield
    finally:
        with suppress(OSError):  # it has files
            output.rmdir()


@dataclass(frozen=True)
class _Taken:
    """Samples, and what was known before and after of who works for whom, and of their frames."""

    sampled: Sampled
    looks: list[WorkOwners]
    counters: list[Sample]


def _taken(router: str | None, cores: tuple[int, ...], rate_hz: int, duration_s: float) -> _Taken:
    from isolane.cli.enforcing import enforcer
    from isolane.cpu_profile.core_list import online
    from isolane.enforce import work_owners
    from isolane.errors import SpecError

    policy = enforcer()
    before, counters = policy.look(work_owners.find), policy.sample()
    routers = before.routers if before is not None else ()
    if router is not None and router not in routers:
        accepted = ", ".join(routers) or "none, as no policy is in force"
        raise SpecError(f"there is no router {router}; accepted: {accepted}")
    if before is None:
        typer.echo("isolane: no policy is in force, so no router is told from the host", err=True)
    chosen = cores or tuple(sorted(before.cores if before else ())) or online()
    sampled = _watched(chosen, rate_hz, duration_s)
    looks, samples = [before, policy.look(work_owners.find)], [counters, policy.sample()]
    return _Taken(
        sampled,
        [look for look in looks if look is not None],
        [sample for sample in samples if sample is not None],
    )


def _watched(cores: tuple[int, ...], rate_hz: int, duration_s: float) -> Sampled:
    from isolane.cli import signals
    from isolane.cpu_profile.sampler import Sampled, sample

    names = ", ".join(map(str, cores))
    typer.echo(
        f"isolane: sampling core{'s' * (len(cores) > 1)} {names} for {duration_s:g} s", err=True
    )
    for step in sample(cores, rate_hz, duration_s, signals.pause):
        if isinstance(step, Sampled):
            return step
    raise AssertionError("sample() ends with what it found")


def _with_owners(taken: _Taken) -> CpuProfile:
    from isolane.cpu_profile.sampled_stacks import NICS
    from isolane.cpu_profile.sampler import Owners

    threads: dict[int, str] = {}
    nics: dict[tuple[int, int], str] = {}
    for look in taken.looks:
        threads |= {**dict.fromkeys(look.nic_threads, NICS), **look.threads}
        nics |= {**look.interfaces, **dict.fromkeys(look.nics, NICS)}
    return taken.sampled.profile(Owners(threads, nics), _frames(taken.counters))


def _frames(counters: list[Sample]) -> dict[str, int]:
    """Return the frames that each router has forwarded meanwhile, where that is known."""
    if len(counters) < 2:
        return {}
    before = {one.name: one.forwarded for one in counters[0].routers}
    after = {one.name: one.forwarded for one in counters[1].routers}
    return {name: after[name] - before[name] for name in after if name in before}


def _write(folder: Path, profile: CpuProfile, found: ProfileFigures, router: str | None) -> None:
    from isolane.files import write_output
    from isolane.report.profile_files import profile_files

    title = f"Cores {', '.join(map(str, profile.cores))} for {profile.duration_ns / 1e9:.1f} s"
    files = profile_files(profile, title, router)
    drawing = files.pop("svg")
    for end, text in files.items():
        write_output(folder / f"profile.{end}", text.encode())
    write_output(folder / "flame-graph.svg", drawing.encode())
    write_output(folder / "profile.json", f"{found.model_dump_json(indent=2)}\n".encode())


def _print(found: ProfileFigures, *, details: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from isolane.cpu_profile import category_table

    rows = category_table.table_rows(found) if details else category_table.short_rows(found)
    headings = category_table.HEADINGS if details else category_table.SHORT_HEADINGS
    words = {"router", "category", "of its CPU"} if not details else {"router", "category"}
    table = Table(header_style="bold", pad_edge=False, box=None)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160  # a file has no width: print whole cells
    console.print(table)
    busy = 1 - found.idle_samples / found.all_samples
    lost = f", {found.lost_samples} lost" if found.lost_samples else ""
    typer.echo(
        f"{found.all_samples} samples of {found.clock}{lost}; cores {100 * busy:.0f} % busy; "
        f"taking them took {100 * found.sampling_share:.2f} %"
    )
    if found.clock == "cpu-clock" and busy < _BUSY:
        typer.echo(
            "that clock misses some of what is done on cores that are not busy: there CPU and "
            "ns/frame are too low"
        )

"""The options of ``isolane run``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class On(StrEnum):
    """Where the trials are carried out."""

    LIVE = "live"
    SIM = "sim"


Experiment = Annotated[
    Path | None,
    typer.Argument(
        metavar="EXPERIMENT", help="The experiment file; `isolane schema` has its keys."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder for the results; default: runs/NAME-TIME."
    ),
]
HtmlReport = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write an HTML report to this file, too."),
]
"""Of commands that print what they find, and keep no folder."""
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="DIR", help="Finish the interrupted run in this folder."),
]
Arms = Annotated[
    str | None,
    typer.Option("--arms", metavar="NAME,...", help="These of the experiment's arms only."),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats", min=1, max=1000, help="Trials of each point; default: as the file says."
    ),
]
Limit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="TIME",
        help="As many repeats as fit into this time (all of the run's), in place of --repeats.",
    ),
]
Invocations = Annotated[
    int | None,
    typer.Option(
        "--invocations",
        min=1,
        max=100,
        help="Do all repeats so many times; with --resume as many as before, or more. Default: 1.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the experiment and this host, measure nothing.")
]
Details = Annotated[
    bool,
    typer.Option(
        "--details", help="Print every router at every point, and what the findings rest on."
    ),
]
CpuProfile = Annotated[
    int | None,
    typer.Option(
        "--cpu-profile",
        metavar="HZ",
        min=0,
        max=10_000,
        help="Samples of each core a second, such as 99, to tell what CPU time is spent on.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the summary as JSON instead of the table.")
]
Where = Annotated[
    On | None,
    typer.Option(
        "--on", help="live: real frames on this host; sim: a simulated host. Default: live."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help="Simulated host: rathore2013 (default; 1 Gbit/s, Linux 3.2), ahn, oliveira2024, veth "
        "(this kind of test bed), or a file.",
    ),
]
CapacityFrom = Annotated[
    str | None,
    typer.Option(
        "--capacity-from",
        metavar="RUN|RATE",
        help="Load that 1x stands for: that of another run or search, or a rate such as 720kpps.",
    ),
]

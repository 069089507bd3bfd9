"""``python -m acceptance``: whether the product keeps its promises here, today."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from isolane.cli.progress import whole
from isolane.cli.verify import judge
from isolane.errors import IsolaneError, NotSupported, SpecError
from isolane.spec import parse_duration_within

from acceptance.judging import Course
from acceptance.subject import Command, Subject
from acceptance.subjects import ALL
from acceptance.table import show
from benches.common import host
from tests.dispositions import unignore

ABOUT = """\
Measures each promise until it is decided or the time is over. Exit status: 0 all that could be
measured held; 4 one is broken; 1 none is broken, but one is undecided; 3 this host cannot measure.
"""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m acceptance", description=ABOUT)
    parser.add_argument(
        "--time-limit",
        default="15min",
        metavar="TIME",
        help="begin no attempt after this; default: %(default)s",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="TEXT",
        help="subjects whose name contains this; repeat for more",
    )
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")
    parser.add_argument("--list", action="store_true", help="name the subjects, and measure none")
    return parser.parse_args()


def _chosen(only: Sequence[str] | None) -> list[Subject | Command]:
    names = ", ".join(each.name for each in ALL)
    for text in only or ():
        if not any(text in each.name for each in ALL):
            raise SpecError(f"--only {text}: no subject is called so; there are {names}")
    return [each for each in ALL if only is None or any(text in each.name for text in only)]


def _need() -> None:
    if os.geteuid() != 0:
        raise NotSupported(
            "not supported on this host: acceptance needs root, to make network namespaces and "
            "load BPF programs"
        )
    if len(os.sched_getaffinity(0)) < 2:
        raise NotSupported("not supported on this host: acceptance needs two cores")


def _run(asked: argparse.Namespace) -> None:
    chosen = _chosen(asked.only)
    if asked.list:
        for subject in chosen:
            print(subject.name)
        return
    limit_s = parse_duration_within("--time-limit", asked.time_limit, "1s", "24h") / 1e9
    _need()
    machine = host()
    with (
        tempfile.TemporaryDirectory(prefix="isolane-acceptance-") as folder,
        whole("of the acceptance") as tell,
    ):
        course = Course(chosen, Path(folder), limit_s)
        course.watch = lambda step: tell(step.fraction, step.left_s, step.label)
        report = course.run()
    if asked.json:
        print(json.dumps(report.as_json(machine), indent=2))
    else:
        words = "{cpu}, {cores} cores, Linux {kernel}, {date}, load average {load_average:.2f}"
        print(words.format_map(machine))
        show(report)
    judge(report.count)


def main() -> int:
    """Run what was asked for; returns the exit status."""
    unignore()
    try:
        _run(_arguments())
    except IsolaneError as error:
        print(f"acceptance: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

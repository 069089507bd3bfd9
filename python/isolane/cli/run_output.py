"""What ``isolane run`` leaves: the answer on stdout, the report and a policy in the run folder."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from isolane.results.results import Summary


@dataclass(frozen=True)
class Shown:
    """What to print: the summary as JSON, or all details; else the answer."""

    json: bool
    details: bool


def present(summary: Summary, target: Path, shown: Shown) -> None:
    """Print the results; write report and policy even when stdout fails."""
    from isolane.cli.objective_lines import print_objectives
    from isolane.errors import OutputError
    from isolane.report import render

    told = False
    try:
        _print(summary, shown)
        if not shown.json:
            print_objectives(summary)
        told = True
    finally:
        try:
            report = render(target, "html", None)
            files = {**_suggest(summary, target), **_profiles(summary, target)}
            files |= {**_captures(target), "report": report}
        except OutputError as error:
            folder = shlex.quote(str(target))
            hint = f"the results are kept; write the report later with: isolane report {folder}"
            raise OutputError(f"{error}; {hint}") from error
        for what, file in files.items():
            typer.echo(f"{what}: {file}", err=shown.json or not told)
    if summary.trials_failed:
        folder = shlex.quote(str(target))
        typer.echo(
            f"isolane: {summary.trials_failed} of {summary.trials} trials failed{_why(target)}; "
            f"repeat them with: isolane run --resume {folder}",
            err=True,
        )


def _why(target: Path) -> str:
    """Say why the last trial failed that did."""
    from isolane.results.folder import RunFolder

    reasons = [
        trial.reason for trial in RunFolder.open(target).trials() if trial.status == "failed"
    ]
    return f" ({'the last one' if len(reasons) > 1 else 'it'}: {reasons[-1]})" if reasons else ""


def _profiles(summary: Summary, target: Path) -> dict[str, Path]:
    """Write the files of CPU profiles, where there are any."""
    if not summary.cpu_profiles:
        return {}
    from isolane.report.profile_files import write_profiles
    from isolane.results.folder import RunFolder

    run = RunFolder.open(target)
    folder = write_profiles(target, summary, run.trials(), run.profiles())
    return {} if folder is None else {"CPU profiles": folder}


def _captures(target: Path) -> dict[str, Path]:
    from isolane.results.folder import CAPTURES

    folder = target / CAPTURES
    return {"frames, for Wireshark": folder} if folder.is_dir() else {}


def _suggest(summary: Summary, target: Path) -> dict[str, Path]:
    """Write the policy, and the back-end, of the arm that the answer names, if it has such."""
    from isolane.analysis import suggested_netback, suggested_policy
    from isolane.analysis.answer import answer_of
    from isolane.files import write_output
    from isolane.results.folder import EXPERIMENT
    from isolane.spec import load_experiment

    arm, texts = answer_of(summary).use, dict[str, str | None]()
    if arm is not None:
        cores = sorted({c.core for c in summary.cores if c.part == "dut" and c.arm == arm})
        experiment = load_experiment(target / EXPERIMENT)
        texts = {
            suggested_policy.FILE: suggested_policy.suggested_policy(experiment, arm, cores),
            suggested_netback.FILE: suggested_netback.suggested_netback(experiment, arm),
        }
    words = {
        suggested_policy.FILE: "policy, to be filled in",
        suggested_netback.FILE: "network back-end, to be filled in",
    }
    written = {}
    for name, what in words.items():
        text = texts.get(name)
        if text is not None:
            write_output(target / name, text.encode())
            written[what] = target / name
            continue
        with suppress(OSError):
            (target / name).unlink()  # of a run that was resumed, and now names another arm
    return written


def _print(summary: Summary, shown: Shown) -> None:
    if shown.json:
        typer.echo(summary.model_dump_json(indent=2))
        return
    if not shown.details:
        from isolane.cli.answer_table import print_answer

        print_answer(summary)
        return
    from isolane.cli.table import print_summary

    print_summary(summary)

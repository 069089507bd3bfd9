"""The application: its commands, and how errors and signals turn into exit statuses.

A command is a module ``isolane.cli.<name>`` (underscores for hyphens) with a function ``command``
and an ``EPILOG`` of examples. Modules import only typer and the standard library at their top, so
that ``--help`` is quick; everything heavy is imported inside ``command``.
"""

from __future__ import annotations

import errno
import functools
import importlib
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NoReturn

import typer

from isolane import __version__
from isolane.cli import signals, streams
from isolane.cli.printable import printable
from isolane.errors import IsolaneError

COMMANDS: Final = (
    "run", "search", "compare", "reproduce", "calibrate", "generate", "receive", "request",
    "report", "apply", "status", "set", "top", "profile", "clear", "verify", "watch", "export",
    "netback", "doctor", "guest-kernel", "schema", "clean", "version",
)  # fmt: skip
"""In the order of ``isolane --help``."""

_HELP: Final = """Keep virtual routers on one Linux host out of each other's way, and prove it by
measurement.

`isolane apply` gives each running router its share of CPU time and link rate. `isolane run` builds
a test bed out of network namespaces, sends real frames through real routers, overloads one of them
and shows what that does to the others.
"""

_EPILOG: Final = """Start here:

\b
  isolane doctor                                 tells what this host can do
  isolane run experiments/noisy-neighbour.yaml   measures an experiment (as root)
  isolane report runs/RUN --format pdf           writes the run's report as PDF
  isolane apply POLICY.yaml                      gives running routers their shares (as root)

\b
Exit status: 0 done; 1 failed; 2 mistake in the command line, experiment or policy file;
3 not supported on this host; 4 a target was missed (verify, run, compare).
"""


_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"isolane {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Hold the options that come before a command."""


def needed(words: Sequence[str]) -> Sequence[str]:
    """Return the commands that a command line may be about: one where it begins with it.

    Typer reads the signatures of all that it is given, which is a fifth of what a start takes.
    """
    completing = "_ISOLANE_COMPLETE" in os.environ
    return words[:1] if words and words[0] in COMMANDS and not completing else COMMANDS


def build(commands: Sequence[str] = COMMANDS) -> typer.Typer:
    """Return the application with these commands."""
    app = typer.Typer(
        name="isolane",
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=True,
        rich_markup_mode=None,  # plain help starts in half the time, and keeps examples as written
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name in commands:
        module = importlib.import_module(f"isolane.cli.{name.replace('-', '_')}")
        app.command(name, epilog=module.EPILOG)(_ended_by_signals(module.command))
    return app


def main() -> NoReturn:
    """Run the command line and leave with its exit status."""
    streams.prepare()
    status = guarded(lambda: build(needed(sys.argv[1:]))(prog_name="isolane"))
    # Data in the buffer of stdout counts, too: without it the command is not done.
    status = status or guarded(streams.finish)
    signals.over()
    streams.abandon()
    sys.exit(status)


class _Ended(BaseException):
    """A signal ended a command. Typer would turn KeyboardInterrupt into a silent exit."""


def _ended_by_signals(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def watched(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            raise _Ended from error

    return watched


def guarded(action: Callable[[], object]) -> int:
    """Run an action and return the exit status that fits how it ended.

    Returns
    -------
    int
        The status of ``SystemExit``; that of an ``IsolaneError``, whose message is printed; 130
        after Ctrl-C; 143 and 129 after SIGTERM and SIGHUP; 1 for everything else, with the path
        of a file that holds the traceback.
    """
    signals.turn_into_interrupts()
    try:
        action()
    except SystemExit as stop:
        return _status_of(stop)
    except IsolaneError as error:
        _say(str(error))
        return error.exit_code
    except (KeyboardInterrupt, _Ended):
        return _ended()
    except BrokenPipeError:
        # The reader of our output (head, less) has had enough.
        return 1
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        return _failed(error)
    return 0


def _ended() -> int:
    print(f"isolane: {signals.word()}", file=sys.stderr)  # no error: somebody asked for it
    return signals.status()


def _failed(error: Exception) -> int:
    if isinstance(error.__cause__, KeyboardInterrupt):  # Python wraps what __set_name__ raises
        return _ended()
    _say(_unexpected(error))
    return 1


def _status_of(stop: SystemExit) -> int:
    if isinstance(stop.code, int):
        return stop.code
    if stop.code is None:
        return 0
    _say(str(stop.code))
    return 1


def _say(message: str) -> None:
    print(f"isolane: error: {printable(message)}", file=sys.stderr)


def _unexpected(error: Exception) -> str:
    reason = " ".join(str(error).split()) or "no message"
    line = f"{type(error).__name__}: {reason}"
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return _out_of(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "isolane._native":
        return "the native module is missing: run make setup in a clone, or install the wheel"
    try:
        descriptor, path = tempfile.mkstemp(prefix="isolane-error-", suffix=".log")
        with os.fdopen(descriptor, "w") as log:
            log.write(f"isolane {__version__}: {' '.join(sys.argv)}\n\n")
            log.writelines(traceback.format_exception(error))
    except OSError:  # such as a full disk, which may be what went wrong in the first place
        return line
    return f"{line} (details: {path})"


def _out_of(error: OSError) -> str:
    """Say what this process or the host has run out of: no mistake in Isolane, so no traceback."""
    named = f"{error.filename}: " if error.filename else ""
    reason = error.strerror or str(error)
    if error.errno == errno.EMFILE and "ulimit" not in reason:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        more = max(1024, 2 * limit)
        reason = f"too many open files: the limit is {limit}; raise it (ulimit -n {more})"
    return f"{named}{reason[:1].lower()}{reason[1:]}"

"""The application: its commands, and what becomes of errors and signals.

A command is a module ``isolane.cli.<name>`` with a function ``command`` and an ``EPILOG`` of
examples. Modules import only typer and the standard library at their top, so that ``--help`` is
quick; everything heavy is imported inside ``command``.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Annotated, Final, NoReturn

import typer

from isolane import __version__
from isolane.errors import IsolaneError

COMMANDS: Final = (
    "run", "reproduce", "calibrate", "generate", "receive", "report", "apply", "status", "set",
    "top", "clear", "verify", "watch", "export", "doctor", "schema", "clean", "version",
)  # fmt: skip
"""In the order of ``isolane --help``."""

_HELP: Final = """Keep virtual routers on one Linux host out of each other's way, and measure it.

Isolane gives each running router its share of CPU and link (apply). It also builds test beds out
of network namespaces, sends real frames through real routers, overloads one of them, and shows
what that does to the others (run).
"""

_EPILOG: Final = """Start here:

\b
  isolane doctor                                 what this host can do
  isolane run experiments/noisy-neighbour.yaml   measure, as root
  isolane report runs/RUN --format pdf           the report again, otherwise
  isolane apply POLICY.yaml                      shares for routers that run here, as root

\b
Exit status: 0 done; 1 failed; 2 usage, experiment or policy file;
3 not supported on this host; 4 an isolation target was missed.
"""


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
    """Hold the options that stand before a command."""


def build() -> typer.Typer:
    """Return the application with all commands."""
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
    for name in COMMANDS:
        module = importlib.import_module(f"isolane.cli.{name}")
        app.command(name, epilog=module.EPILOG)(module.command)
    return app


def main() -> NoReturn:
    """Run the command line and leave with its exit status."""
    sys.exit(guarded(lambda: build()(prog_name="isolane")))


def guarded(action: Callable[[], object]) -> int:
    """Run an action and turn whatever ends it into an exit status.

    Returns
    -------
    int
        The status of ``SystemExit``; that of an ``IsolaneError``, whose message is printed; 130
        after Ctrl-C; 143 and 129 after SIGTERM and SIGHUP; 1 for everything else, with the path
        of a file that holds the traceback.
    """
    _turn_signals_into_exits()
    try:
        action()
    except SystemExit as stop:
        return _status_of(stop)
    except IsolaneError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has had enough. Python would complain once more
        # when it flushes stdout on its way out.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user
        _say(_unexpected(error))
        return 1
    return 0


def _status_of(stop: SystemExit) -> int:
    if isinstance(stop.code, int):
        return stop.code
    if stop.code is None:
        return 0
    _say(str(stop.code))
    return 1


def _say(message: str) -> None:
    print(f"isolane: error: {_printable(message)}", file=sys.stderr)


def _printable(message: str) -> str:
    """Show control characters, which names and values may hold, instead of obeying them."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in message
    )


def _unexpected(error: Exception) -> str:
    reason = " ".join(str(error).split()) or "no message"
    line = f"{type(error).__name__}: {reason}"
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


def _turn_signals_into_exits() -> None:
    """Have SIGTERM and SIGHUP raise, so that every context manager cleans up on the way out."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        # nohup ignores SIGHUP on purpose, and that is to stay so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)

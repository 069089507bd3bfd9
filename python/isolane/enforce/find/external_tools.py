"""Runs the tools that manage containers and virtual machines, and reads what they print.

Names come from policies, so no shell sees them: each is one argument, after ``--`` where the tool
accepts that. Policies accept only names that begin with a letter, a digit or ``_``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Final

from isolane.enforce.find.absent import Absent

LIMIT_S: Final = 10.0
"""How long to wait for a daemon: one that hangs must not hold up the search for other routers."""


def ask(arguments: list[str], who: str) -> str:
    """Run a tool and return what it prints.

    Parameters
    ----------
    who
        Subject of the sentence for the user, such as ``Docker container web``.

    Raises
    ------
    Absent
        When the tool is not installed, does not answer, or refuses; with its own last line.
    """
    tool = arguments[0]
    try:
        done = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            env={**os.environ, "LC_ALL": "C"},  # answers are read by a program
            check=False,
        )
    except FileNotFoundError:
        raise Absent(f"{who} cannot be looked for: {tool} is not installed") from None
    except PermissionError:
        raise Absent(f"{who} cannot be looked for: {tool} may not be run") from None
    except subprocess.TimeoutExpired:
        raise Absent(f"{who}: {tool} did not answer within {LIMIT_S:g} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        reason = re.sub(r"^error: ", "", said[-1], flags=re.IGNORECASE) if said else ""
        reason = reason or f"exit status {done.returncode}"
        raise Absent(f"{who}: {tool} says: {reason}")
    return done.stdout.decode(errors="replace")


def ask_json(arguments: list[str], who: str) -> Any:
    """Run a tool that prints JSON and return the parsed value.

    Raises
    ------
    Absent
        As :func:`ask`, and when the tool prints something else.
    """
    text = ask(arguments, who)
    try:
        return json.loads(text)
    except ValueError:
        raise Absent(f"{who}: {arguments[0]} answered something that is not JSON") from None

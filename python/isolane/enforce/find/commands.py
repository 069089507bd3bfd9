"""Asking the tools that manage containers and machines.

Names come from policies, so they never reach a shell: a list of arguments, the name behind ``--``
wherever the tool knows that. Policies take only names that begin with a letter, a digit or ``_``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import Any, Final

from isolane.enforce.find.absent import Absent

LIMIT_S: Final = 10.0
"""A daemon that has not answered by then hangs; the others' routers are not to wait for it."""


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
    """Run a tool that prints JSON and return what it means.

    Raises
    ------
    Absent
        As :func:`ask`, and when the answer is no JSON.
    """
    text = ask(arguments, who)
    try:
        return json.loads(text)
    except ValueError:
        raise Absent(f"{who}: {arguments[0]} answered something that is no JSON") from None

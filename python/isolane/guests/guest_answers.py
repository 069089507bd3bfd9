"""What a guest's first process says once it is a router, and how it answers."""

from __future__ import annotations

import re
from typing import Final

READY: Final = "isolane: guest is ready"
"""What the guest's first process writes when its script is done."""
WORK: Final = "isolane: told"
"""What it writes with each work that it has given its order."""
BEGIN, END = "isolane: begin", "isolane: end"
"""What it writes around the files that it is asked for, with the question's number."""
ANSWERING: Final = f"""\
echo '{READY}'
while read -r number files; do
    echo "{BEGIN} $number"
    case $files in
    [-@]*) set -- $files
        while [ $# -ge 2 ]; do
            eval "work=\\$work_$2 later=\\$later_$2"
            kill $later 2>/dev/null
            later=
            case $1 in
            @*) at=${{1#@}}
                kill -STOP $work && echo "{WORK} $2"
                (sleep ${{at%:*}} && kill -CONT $work) 2>/dev/null &
                later=$!
                (sleep ${{at#*:}} && {{ kill $later; kill -STOP $work; }}) 2>/dev/null &
                later="$later $!" ;;
            *) kill $1 $work && echo "{WORK} $2" ;;
            esac
            eval "later_$2=\\$later"
            shift 2
        done ;;
    *) head -v -n 1000000000 $files 2>/dev/null ;;
    esac
    echo "{END} $number"
done"""
"""Shell commands that the guest's first process ends with: ready, and answering from then on. One
process that is started for all files: that is what takes the time. In place of files there may be
orders, each with the work whose process gets it (:func:`work_variable`)."""
GO_ON, STOP = "-CONT", "-STOP"
"""Orders to work."""
_FILE: Final = re.compile(r"(?:^|\n)==> /proc/(\S+) <==\n")
"""How head(1) begins a file."""


def in_time(after_s: float, for_s: float) -> str:
    """Return the order to rest for some time, then to work for some, and to stop."""
    return f"@{after_s:.3f}:{after_s + for_s:.3f}"


def work_variable(work: str) -> str:
    """Return the shell's variable with the number of the process that does some work."""
    return f"work_{work}"


def files_in(answer: str) -> dict[str, str]:
    """Return the files that an answer holds, by their names below ``/proc``."""
    _, *parts = _FILE.split(answer)
    return dict(zip(parts[::2], parts[1::2], strict=True))

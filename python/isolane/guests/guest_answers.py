"""What a guest's first process says once it is a router, and how it answers."""

from __future__ import annotations

import re
from typing import Final

READY: Final = "isolane: guest is ready"
"""What the guest's first process writes when its script is done."""
BEGIN, END = "isolane: begin", "isolane: end"
"""What it writes around the files that it is asked for, with the question's number."""
ANSWERING: Final = f"""\
echo '{READY}'
while read -r number files; do
    echo "{BEGIN} $number"
    case $files in
    -*) kill $files $work && echo "$work" ;;
    *) head -v -n 1000000000 $files 2>/dev/null ;;
    esac
    echo "{END} $number"
done"""
"""Shell commands that the guest's first process ends with: ready, and answering from then on. One
process that is started for all files: that is what takes the time. With a signal in place of files
it goes to the process ``$work``, which its script has started."""
_FILE: Final = re.compile(r"(?:^|\n)==> /proc/(\S+) <==\n")
"""How head(1) begins a file."""


def files_in(answer: str) -> dict[str, str]:
    """Return the files that an answer holds, by their names below ``/proc``."""
    _, *parts = _FILE.split(answer)
    return dict(zip(parts[::2], parts[1::2], strict=True))

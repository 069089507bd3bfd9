"""What a guest's console has said, and how to look for something in it while it grows."""

from __future__ import annotations

import re
from typing import Final

_LAST_LINES: Final = 5
_STACK: Final = re.compile(r"\n(?:\[[ .0-9]+\] )?(?:Stack:|CPU: \d+ PID:|Call Trace:)")


class Console:
    """What a console has said since it was cleared; its driver may end lines in two characters."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._searched = 0

    def add(self, said: bytes) -> None:
        """Add what it says next."""
        self._said += said

    def clear(self) -> None:
        """Forget what it has said."""
        self._said.clear()
        self._searched = 0

    def says(self, words: str) -> bool:
        """Tell whether it has said something that it had not when it was last asked for it."""
        begin = max(0, self._searched - 2 * len(words.encode()))  # they may come in parts
        if words in _decoded(self._said[begin:]):
            return True
        self._searched = len(self._said)
        return False

    @property
    def text(self) -> str:
        """All of it, in lines."""
        return _decoded(self._said)

    @property
    def last_lines(self) -> str:
        """The last lines, in one line; of a panic without the stack."""
        lines = _STACK.split(self.text, maxsplit=1)[0].splitlines()
        return " | ".join(line.strip() for line in lines[-_LAST_LINES:] if line.strip())


def _decoded(said: bytearray) -> str:
    return said.decode(errors="replace").replace("\r\n", "\n")

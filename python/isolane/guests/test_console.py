"""What is looked for in a console is found, however it comes."""

from __future__ import annotations

import pytest

from isolane.guests.console import Console

WORDS = "isolane: end 1\n"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_words_are_found_once_all_of_them_are_there(size: int, line_end: bytes) -> None:
    said = b"\xffnoise isolane: end" + line_end + b"isolane: end 1" + line_end + b"more"
    whole = said.index(b"end 1" + line_end) + len(b"end 1" + line_end)
    console = Console()
    for begin in range(0, len(said), size):
        console.add(said[begin : begin + size])
        assert console.says(WORDS) == (begin + size >= whole)
    assert console.says(WORDS), "and again"
    console.clear()
    assert not console.says(WORDS)
    console.add(WORDS.encode())
    assert console.says(WORDS)


def test_the_last_lines_are_those_before_a_stack() -> None:
    console = Console()
    console.add(b"".join(b"line %d\r\n" % number for number in range(9)) + b"\r\n")
    console.add(
        b"Kernel panic: no init\r\n[  1.5] CPU: 0 PID: 1 Comm: init\r\nCall Trace:\r\n1\r\n"
    )
    assert console.last_lines == "line 6 | line 7 | line 8 | Kernel panic: no init"
    assert console.text.startswith("line 0\nline 1\n")

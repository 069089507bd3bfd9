"""One word for one thing: words that the project has given up do not come back.

Names (identifiers in code) and prose (comments, strings, documents) are checked separately, because
most of these words are right in one of them: a wire may have *room* for a frame, but no variable
is called ``room``.
"""

from __future__ import annotations

import functools
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_GAP = r"[\s\-\"#/*!f]+"
"""Between two words of prose: also a line's end, with what begins the next line of a comment."""


@dataclass(frozen=True)
class OldWord:
    """A word that is not used for what it once meant here."""

    instead: str
    names: str = ""
    """Expression that a name in snake case must not contain between underscores."""
    prose: str = ""
    """Expression that prose must not contain between word boundaries."""
    right: str = r"(?!)"
    """Expression for names, or for prose around it, in which the word has another sense."""
    only_in: str = r"(?!)"
    """Expression for paths of files in which the word is right."""


def both(words: str, instead: str, right: str = r"(?!)") -> OldWord:
    return OldWord(instead, words, words, right)


OLD_WORDS = (
    OldWord(
        "setting", "pieces?", "pieces?", r'[`"]pieces?[`"]', only_in=r"crates/sim|docs/simulator"
    ),
    both("wish(es)?", "desired setting"),
    OldWord("namespace thread, run in a thread", names="hands|apart"),
    OldWord("kernel-managed, owned by others", names="floating|foreign"),
    OldWord("attached program", names="standing"),
    both(
        "books?|booked|bills?|billed|billing|meters?|metering", "frame accounting, CPU accounting"
    ),
    OldWord("flow or queue", "adapters?", "adapters?", only_in=r"adamczyk"),
    # Keys of JSON and names of metrics are file formats.
    both(
        "entitled|entitlements?",
        "guaranteed, fair share",
        r'[`"]entitlement[`"]|_entitled_ratio|^(cpu|link)_entitled$|^_?entitlement$|[`"](cpu|link)_entitled[`"]',
    ),
    OldWord("min, max", names="least|most|greatest", right="least_squares|at_(least|most)"),
    OldWord(
        "redirect key, ingress devmap, egress devmap",
        "inlets?|outlets?",
        "inlets?|outlets?",
        only_in=r"settings/packets|test_former_version",  # as earlier versions called them
    ),
    OldWord("path, redirect key", names="ways?", right="under_way"),
    OldWord("queue limit", names="rooms?|calm"),
    both("rouses?|roused", "wake"),
    # In virtio a kick is what a guest wakes its device with.
    OldWord("reschedule pending", "kicks?|kicked", "kicks?|kicked", only_in=r"crates/netback"),
    OldWord("reschedule", names="settled?|settles", right="SETTLE_S"),
    OldWord("cache misses, wake-up charged", names="colds|noticed"),
    both("debts?", "deferred cost"),
    OldWord(
        "drop point, pool slot, test environment, position, location",
        names="places?",
    ),
    both("doubts?", "invalid reason"),
    both("brothers?", "siblings"),
    OldWord("tracepoint", prose=rf"trace{_GAP}points?"),
    OldWord("qdisc", prose=rf"queue?ing{_GAP}disciplines?"),
    # In quotes: the kind of a setting in a policy's state file.
    OldWord("cgroup", prose=rf"control{_GAP}groups?", right='"control group"'),
    OldWord("rate_millipps", names="mpps"),
)

LOOKED_AT = (
    "python/isolane/**/*.py", "python/isolane/**/*.pyi", "python/isolane/**/*.j2",
    "python/isolane/**/*.yaml", "crates/**/*.rs", "bpf/**/*.[ch]", "benches/**/*.py",
    "acceptance/**/*.py", "tests/**/*.py", "docs/**/*.md", "ARCHITECTURE.md",
    "CONTRIBUTING.md", "README.md", "benches/README.md", "examples/*", "experiments/**/*.yaml",
)  # fmt: skip
SENTENCE = 3
"""Names with more underscores than that are read as prose."""
EXEMPT = ("tests/test_words.py", "bpf/include/vmlinux.h")

_PROSE = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PROSE_TOKENS = ("STRING", "COMMENT", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ANY_PROSE = re.compile(
    rf"(?<!\w)(?=\w)(?:{'|'.join(word.prose for word in OLD_WORDS if word.prose)})(?!\w)",
    re.IGNORECASE,
)
"""Whether a text has any of them: one search instead of one for each word."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def prose_of(path: Path, text: str) -> list[tuple[int, int]]:
    """Return where in a file prose begins and ends, in characters."""
    if path.suffix in (".rs", ".c", ".h"):
        return [match.span() for match in _PROSE.finditer(text)]
    if path.suffix not in (".py", ".pyi"):
        return [(0, len(text))]
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    return [
        (lines[token.start[0] - 1] + token.start[1], lines[token.end[0] - 1] + token.end[1])
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in (tokenize.STRING, tokenize.COMMENT)
        or "FSTRING" in tokenize.tok_name[token.type]
    ]


def masked(text: str, spans: list[tuple[int, int]]) -> tuple[str, str]:
    """Return code and prose of a text, each with blanks where the other one stands."""
    blank = re.sub(r"[^\n]", " ", text)
    code, prose, last = [], [], 0
    for start, end in spans:
        code += [text[last:start], blank[start:end]]
        prose += [blank[last:start], text[start:end]]
        last = end
    return "".join([*code, text[last:]]), "".join([*prose, blank[last:]])


def old_words(path: Path) -> Iterator[str]:
    """Yield each use of an old word in a file, with its line and what to write instead."""
    text = path.read_text()
    table = [word for word in OLD_WORDS if not re.search(word.only_in, str(path))]
    code, prose = masked(text, prose_of(path, text))
    if any(map(_in_name, set(_NAME.findall(code)))):
        for match in _NAME.finditer(code):
            for word in _in_name(match[0]):
                if word in table:
                    yield _told(path, text, match, word)
    if not _ANY_PROSE.search(prose):
        return
    for word in table:
        if word.prose:
            for match in re.finditer(rf"(?<!\w)(?:{word.prose})(?!\w)", prose, re.IGNORECASE):
                if not _is_right(word, prose, match):
                    yield _told(path, text, match, word)


@functools.cache  # most names occur many times
def _in_name(written: str) -> tuple[OldWord, ...]:
    name = _HUMP.sub("_", written).lower()
    found = []
    for word in OLD_WORDS:
        # A name of many words, as tests have, is a sentence.
        pattern = word.prose if name.count("_") > SENTENCE else word.names
        if not pattern or re.search(word.right, written):
            continue
        if re.search(rf"(?:^|_)(?:{pattern})(?:_|$)", name):
            found.append(word)
    return tuple(found)


def _is_right(word: OldWord, prose: str, match: re.Match[str]) -> bool:
    first = max(0, match.start() - 30)
    around = re.finditer(word.right, prose[first : match.end() + 30])
    spans = ((first + found.start(), first + found.end()) for found in around)
    return any(start <= match.start() and match.end() <= end for start, end in spans)


def _told(path: Path, text: str, match: re.Match[str], word: OldWord) -> str:
    line = text.count("\n", 0, match.start()) + 1
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    return f"{where}:{line}: {match[0]!r}; write: {word.instead}"


def files() -> list[Path]:
    """Return every file that is held to the table."""
    found = {path for pattern in LOOKED_AT for path in ROOT.glob(pattern) if path.is_file()}
    return sorted(path for path in found if str(path.relative_to(ROOT)) not in EXEMPT)


def test_old_words_do_not_come_back() -> None:
    found = [line for path in files() for line in old_words(path)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", "def close_books(): ...", [1]),
        ("a.py", "class CpuBill: ...", [1]),
        ("a.py", "x = 1\n# a trace\n# point of the kernel", [2]),
        ("a.py", 'x = (\n    f"the queueing "\n    f"discipline {x}"\n)', [2]),
        ("a.py", "at_least = room_for = least_squares", [1]),
        ("a.py", "# there is room for the least of them, told apart\nat_most = 1", []),
        ("a.rs", "/// In a control\n/// group.\nfn inlet() {}", [1, 3]),
        ("a.c", "/* a doubt */ int calm; /* CALM_NS */", [1, 1]),
        ("a.md", "# A policy\n\nis made of pieces, and has a `piece`.", [3]),
    ],
)
def test_an_old_word_is_found(tmp_path: Path, name: str, text: str, lines: list[int]) -> None:
    (tmp_path / name).write_text(text)
    found = sorted(int(line.split(":")[1]) for line in old_words(tmp_path / name))
    assert found == lines

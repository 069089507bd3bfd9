"""The documents: links lead somewhere; commands, options, files and tests that they name exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from isolane.cli.app import COMMANDS
from isolane.spec import load_experiment, load_policy
from isolane.spec.netback_models import load_netback

from tests.live import in_process

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benches").glob("*.md")]
)
FOLDERS = (
    "bpf", "crates", "python", "tests", "acceptance", "benches", "experiments", "examples",
    "schema", "tools", "docs",
)  # fmt: skip

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
TEST = re.compile(r"([\w/.]+\.py)::(\w+)")
FILE = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./-]*[\w/]")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TASK = re.compile(r"\bmake ([a-z][a-z-]*)")
COMMAND = re.compile(r"(?<!on )\bisolane ([a-z]+(?:-[a-z]+)*)\b")  # "on isolane" is the path
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text)


def code(text: str) -> Iterator[str]:
    """What stands in code: fenced and indented blocks, and spans."""
    for _, block in FENCE.findall(text):
        yield from block.splitlines()
    rest = prose(text)
    yield from re.findall(r"^ {4}(\S.*)$", rest, re.MULTILINE)
    yield from CODE.findall(rest)


def anchor(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    text = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
    return text.strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in HEADING.findall(prose(page.read_text()))}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in LINK.findall(prose(page.read_text())):
        path, _, fragment = target.partition("#")
        if "://" in path:
            continue
        file = page.parent / path if path else page
        if not file.exists() or (fragment and fragment not in anchors(file)):
            broken.append(target)
    return broken


def unknown_commands(text: str) -> set[str]:
    """Of both kinds: ``isolane WORD`` and ``make WORD``, where they stand in code."""
    tasks = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = set()
    for line in code(text):
        found |= {f"isolane {word}" for word in COMMAND.findall(line) if word not in COMMANDS}
        found |= {f"make {word}" for word in TASK.findall(line) if word not in tasks}
    return found


def missing_files(text: str) -> list[str]:
    names = {name for span in CODE.findall(prose(text)) for name in FILE.findall(span)}
    return sorted(name for name in names if not (ROOT / name).exists())


def missing_tests(text: str) -> list[str]:
    return [
        f"{file}::{test}"
        for file, test in TEST.findall(text)
        if not (ROOT / file).is_file() or f"\ndef {test}(" not in (ROOT / file).read_text()
    ]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    assert unknown_commands(text) == set()
    assert missing_files(text) == []
    assert missing_tests(text) == []


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One two\n[a](page.md#one-two) [b](#three) [c](gone.md) [d](https://example.org/gone)\n"
        "```\nisolane fly\n```\n    make haste\n`make test` `isolane run` `tests/test_gone.py`\n"
        "`tests/test_docs.py::test_gone`\n"
    )
    assert broken_links(page) == ["#three", "gone.md"]
    text = page.read_text()
    assert unknown_commands(text) == {"isolane fly", "make haste"}
    assert missing_files(text) == ["tests/test_gone.py"]
    assert missing_tests(text) == ["tests/test_docs.py::test_gone"]


def test_the_readme_starts_with_its_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text().splitlines()[:24]
    assert any(line.startswith("    make demo") for line in first_screen)
    assert any(line.startswith("    make test") for line in first_screen)


def test_every_page_is_in_an_index() -> None:
    """From the README every page is found by following links."""
    seen: set[Path] = set()
    open_pages = [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop().resolve()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = LINK.findall(prose(page.read_text()))
        open_pages += [page.parent / t.partition("#")[0] for t in targets if "://" not in t]
    lost = {page_id(page) for page in PAGES} - {page_id(page) for page in seen}
    assert not lost


LOADERS: dict[str, Callable[[Path], object]] = {
    "load": load_experiment, "uplinks": load_netback, "routers": load_policy,
}  # fmt: skip
"""What reads a file with this key."""


def test_examples_of_files_are_valid(tmp_path: Path) -> None:
    blocks = [
        block
        for page in PAGES
        for language, block in FENCE.findall(page.read_text())
        if language == "yaml" and block.startswith("isolane:")
    ]
    assert len(blocks) >= 2
    for number, block in enumerate(blocks):
        file = tmp_path / f"{number}.yaml"
        file.write_text(block)
        key = next((key for key in LOADERS if f"\n{key}:" in block), "routers")
        LOADERS[key](file)


@cache
def help_of(command: str) -> str:
    done = in_process(command, "--help")
    assert done.returncode == 0, done.stderr
    return done.stdout


def options(text: str) -> set[str]:
    return {option for option in OPTION.findall(text) if option not in ("-h", "--help")}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_its_options_described(command: str) -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    section = re.search(rf"^## isolane {command}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"docs/commands.md has no section on isolane {command}"
    described = {option for span in CODE.findall(section[0]) for option in options(span)}
    listed = help_of(command).partition("\nOptions:\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^  (-.*?)(?:  |$)", listed, re.MULTILINE)
    there = {option for row in rows for option in options(row)}
    assert described == there

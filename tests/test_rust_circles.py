"""Files of a crate: none uses, in a circle, one that uses it; and none of its tests is left out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

Module = tuple[str, ...]


def module_of(path: Path, source: Path) -> Module:
    """Return the module that a file is: ``("engine", "ids")`` of ``engine/ids.rs``."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"mod", "lib"} else parts


def code_of(text: str) -> str:
    """Return a file without its tests and comments."""
    return re.sub(r"//[^\n]*", "", text.partition("\n#[cfg(test)]\nmod ")[0])


def expanded(tree: str) -> Iterator[str]:
    """Yield the single paths of a use tree: ``a::b`` and ``a::c`` of ``a::{b, c}``."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield tree.strip()
        return
    depth, start = 0, 0
    body = rest[: rest.rindex("}")]
    for at, char in enumerate(f"{body},"):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            if body[start:at].strip():
                yield from (head.strip() + path for path in expanded(body[start:at]))
            start = at + 1


def used(path: str, at: Module, modules: Mapping[Module, Path]) -> Module | None:
    """Return the module of this crate that a path leads into; None for another crate's."""
    words = re.findall(r"\w+", path.partition(" as ")[0])
    if words[0] == "crate":
        base: Module = ()
        words = words[1:]
    elif words[0] in {"self", "super"}:
        base = at
        while words and words[0] in {"self", "super"}:
            base = base[:-1] if words.pop(0) == "super" else base
    elif (*at, words[0]) in modules:
        base = at
    else:
        return None
    while words and (*base, words[0]) in modules:
        base = (*base, words.pop(0))
    return base if base != at else None


def re_exports(lib: Path, modules: Mapping[Module, Path]) -> dict[str, str]:
    """Return where the names come from that ``lib.rs`` passes on: ``Error`` is ``crate::error``."""
    found = {}
    for tree in re.findall(r"\bpub(?:\(crate\))? use ([^;]+);", code_of(lib.read_text())):
        for path in expanded(tree):
            target = used(path, (), modules)
            name = re.findall(r"\w+", path)[-1]
            found[name] = "::".join(["crate", *target]) if target else "another_crate"
    return found


def _flat(path: Path) -> str:
    """Return a file's code with each use tree written as single paths."""
    code = code_of(path.read_text())
    return re.sub(
        r"\buse ([^;]+);", lambda tree: " ".join(f"use {p};" for p in expanded(tree[1])), code
    )


def uses(source: Path) -> dict[Module, set[Module]]:
    """Return which modules each module of a crate uses, by ``use`` or by a path in its code."""
    modules = {module_of(path, source): path for path in sorted(source.rglob("*.rs"))}
    named = re_exports(source / "lib.rs", modules)
    found: dict[Module, set[Module]] = {}
    for module, path in modules.items():
        code = re.sub(r"\bcrate::(\w+)", lambda name: named.get(name[1], name[0]), _flat(path))
        trees = re.findall(r"\buse ([^;]+);", code)
        rest = re.sub(r"\buse [^;]+;", "", code)
        paths = [one for tree in trees for one in expanded(tree)]
        paths += re.findall(r"\b(?:crate|super|self)(?:::\w+)+", rest)
        targets = (used(one, module, modules) for one in paths)
        found[module] = {target for target in targets if target is not None}
    return found


def circle(graph: Mapping[Module, set[Module]]) -> list[str]:
    """Return the files on a circle, if there is one."""
    done: set[Module] = set()

    def walk(module: Module, path: list[Module]) -> list[Module]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for other in sorted(graph.get(module, ())):
            if found := walk(other, [*path, module]):
                return found
        done.add(module)
        return []

    for module in sorted(graph):
        if found := walk(module, []):
            return ["::".join(one) or "lib" for one in found]
    return []


@pytest.mark.parametrize("crate", ["dataplane", "histogram", "native", "sched", "sim"])
def test_no_circle_between_files(crate: str) -> None:
    graph = uses(ROOT / "crates" / crate / "src")
    if len(graph) == 1:
        return
    assert sum(map(len, graph.values())) >= len(graph), "uses are found"
    assert circle(graph) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "lib.rs").write_text("mod a;\nuse a::run;\n")
    (tmp_path / "a" / "mod.rs").write_text("mod b;\nmod c;\npub use self::b::{run, x::Y};\n")
    (tmp_path / "a" / "b.rs").write_text("use std::fmt;\n// use super::a::Z;\nuse super::{c::X};\n")
    (tmp_path / "a" / "c.rs").write_text("fn f() {}\n#[cfg(test)]\nmod tests { use super::b; }\n")
    assert circle(uses(tmp_path)) == []
    (tmp_path / "a" / "c.rs").write_text("fn f() { crate::a::b::run() }\n")
    assert circle(uses(tmp_path)) == ["a::b", "a::c", "a::b"]


def test_every_file_of_a_crates_tests_is_run() -> None:
    """Cargo looks for none by itself where they are one program: what is not named is not run."""
    one_program = {file.parent for file in ROOT.glob("crates/*/tests/all.rs")}
    assert one_program == {
        manifest.parent / "tests"
        for manifest in ROOT.glob("crates/*/Cargo.toml")
        if "autotests = false" in manifest.read_text()
    }
    for folder in one_program:
        named = set(re.findall(r"^mod (\w+);$", (folder / "all.rs").read_text(), re.MULTILINE))
        files = {file.stem for file in folder.glob("*.rs")} - {"all"}
        assert named == files | {file.parent.name for file in folder.glob("*/mod.rs")}


def test_every_crate_is_tested_with_checks() -> None:
    """Tests share the profile of what users run, which has none: each crate is named there."""
    settings = tomllib.loads((ROOT / "crates" / "tests.toml").read_text())
    named = settings["profile"]["release"]["package"]
    checked = {name for name, has in named.items() if has.get("debug-assertions")}
    assert checked == {name for name, has in named.items() if has.get("overflow-checks")}
    manifests = [tomllib.loads(path.read_text()) for path in ROOT.glob("crates/*/Cargo.toml")]
    tested = {it["package"]["name"] for it in manifests if it.get("lib", {}).get("test", True)}
    assert checked == tested - {"isolane-benches"}

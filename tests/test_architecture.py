"""The invariants of ARCHITECTURE.md that a file can be held against: sizes, arrows, licences."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "isolane"

ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "netdev": {"errors", "rtnl"},
    "procfs": set(),
    "rtnl": set(),
    "stored_model": set(),
    "scheduling": set(),
    "children": set(),
    "guests": {"children", "errors", "procfs"},
    "locks": set(),
    "open_files": set(),
    "pacemaker": {"_native", "open_files"},
    "files": {"errors"},
    "spec": {"errors"},
    "doctor": {"errors", "guests", "netdev", "procfs", "rtnl", "scheduling"},
    "testbed": {
        "children",
        "errors",
        "guests",
        "locks",
        "netback",
        "netdev",
        "procfs",
        "rtnl",
        "spec",
        "_native",
    },
    "stats": set(),
    "cpu_profile": {"errors", "procfs", "stats", "stored_model", "_native"},
    "web": {"errors", "spec", "_native"},
    "external": {"errors", "guests", "rtnl", "spec", "testbed"},
    "netback": {"errors", "locks", "rtnl", "spec", "_native"},
    "enforce": {
        "errors",
        "locks",
        "netback",
        "netdev",
        "procfs",
        "rtnl",
        "scheduling",
        "spec",
        "testbed",
        "_native",
    },
    "results": {"cpu_profile", "errors", "files", "procfs", "spec", "stored_model"},
    "trials": {
        "cpu_profile",
        "enforce",
        "errors",
        "external",
        "guests",
        "procfs",
        "results",
        "rtnl",
        "spec",
        "testbed",
        "web",
        "_native",
    },
    "analysis": {"cpu_profile", "errors", "results", "spec", "stats"},
    "run": {"analysis", "errors", "results", "spec", "trials"},
    "compare": {"analysis", "errors", "results", "spec", "stats", "stored_model"},
    "reproduce": {"analysis", "errors", "results", "spec", "stats", "stored_model", "trials"},
    "calibrate": {"analysis", "errors", "reproduce", "results", "spec", "trials"},
    "report": {
        "analysis",
        "compare",
        "cpu_profile",
        "errors",
        "files",
        "reproduce",
        "results",
        "spec",
        "stats",
    },
    "verify": {
        "analysis",
        "enforce",
        "errors",
        "procfs",
        "results",
        "spec",
        "stats",
        "stored_model",
        "testbed",
        "trials",
        "_native",
    },
    "export": {"errors", "files", "spec", "enforce", "netback"},
    "cli": {
        "analysis",
        "calibrate",
        "compare",
        "cpu_profile",
        "doctor",
        "enforce",
        "errors",
        "export",
        "files",
        "guests",
        "netback",
        "open_files",
        "report",
        "reproduce",
        "results",
        "run",
        "spec",
        "stats",
        "testbed",
        "trials",
        "verify",
        "web",
    },
    "__main__": {"cli"},
    "__init__": set(),
}
"""What each part of the package may import besides itself and the version."""

CRATES: dict[str, set[str]] = {
    "isolane-benches": set(),
    "isolane-dataplane": {"isolane-histogram"},
    "isolane-histogram": set(),
    "isolane-http-client": {"isolane-histogram", "isolane-sched"},
    "isolane-native": {
        "isolane-dataplane",
        "isolane-http-client",
        "isolane-netback",
        "isolane-sched",
        "isolane-sim",
    },
    "isolane-netback": {"isolane-sched"},
    "isolane-sched": set(),
    "isolane-sim": {"isolane-histogram", "isolane-sched"},
}
"""What each crate may depend on, of this workspace."""

PYTHON_FILE_LINES = 400
PYTHON_FUNCTION_LINES = 70
RUST_FILE_LINES = 800
C_FUNCTION_LINES = 60


def python_files() -> list[Path]:
    return sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])


def is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py"


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_parts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and part (``spec`` of ``isolane.spec.units``) of each import, at any depth."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            names = (
                [f"isolane.{alias.name}" for alias in node.names]
                if module == "isolane"
                else [module]
            )
        else:
            continue
        for name in names:
            words = name.split(".")
            if words[0] == "isolane" and len(words) > 1 and words[1] != "__version__":
                yield node.lineno, words[1]


def wrong_arrows(path: Path, part: str) -> list[str]:
    allowed = ARROWS[part] | {part}
    return [
        f"{path.name}:{line}: {part} imports {other}"
        for line, other in imported_parts(path)
        if other not in allowed
    ]


def test_imports_follow_the_arrows() -> None:
    wrong = [
        line
        for path in sorted(PACKAGE.rglob("*.py"))
        if not is_test(path)
        for line in wrong_arrows(path, path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
    ]
    assert not wrong, "\n".join(wrong)


def test_each_arrow_is_somebodys_import() -> None:
    found: dict[str, set[str]] = {part: set() for part in ARROWS}
    for path in PACKAGE.rglob("*.py"):
        if not is_test(path):
            part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
            found[part] |= {other for _, other in imported_parts(path)}
    unused = {part: arrows - found[part] for part, arrows in ARROWS.items()}
    assert {part: arrows for part, arrows in unused.items() if arrows} == {}


def test_a_wrong_arrow_is_found(tmp_path: Path) -> None:
    # Also one that hides inside a function, and one that names the package only.
    file = tmp_path / "wrong.py"
    file.write_text(
        "def f():\n    import isolane.cli.app\nfrom isolane import report, __version__\n"
    )
    assert wrong_arrows(file, "spec") == [
        "wrong.py:3: spec imports report",
        "wrong.py:2: spec imports cli",
    ]


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """Return which of some modules a file imports, at any depth and for types only, too."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            # What is no module is a name in the one that it is imported from.
            found |= inner & modules
            found |= set() if inner <= modules else {node.module}
    return found & modules


def import_circles(root: Path) -> list[str]:
    """Return circles of imports between the modules of a package, each as ``a > b > a``."""
    files = {
        ".".join((root.name, *path.relative_to(root).with_suffix("").parts)): path
        for path in sorted(root.rglob("*.py"))
        if not is_test(path)
    }
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    imports = {name: imported_modules(path, set(modules)) for name, path in modules.items()}
    circles, left = [], set(modules)
    while leaves := {name for name in left if not imports[name] & left - {name}}:
        left -= leaves
    while left:
        # Each of these imports another one of them: whoever follows comes to one twice.
        trail = [min(left)]
        while trail.count(trail[-1]) == 1:
            trail.append(min(imports[trail[-1]] & left - {trail[-1]}))
        circle = trail[trail.index(trail[-1]) :]
        circles.append(" > ".join(circle))
        left -= set(circle)
        while leaves := {name for name in left if not imports[name] & left - {name}}:
            left -= leaves
    return circles


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert import_circles(PACKAGE) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    # Also one by way of a package, for types only, or inside a function.
    root = tmp_path / "p"
    for name, text in {
        "__init__": "",
        "a": "from p.b import x\nimport p.d",
        "b": "def f():\n    from p import c",
        "c": "if TYPE_CHECKING:\n    import p.a",
        "d": "",
        "s/__init__": "from p.s.u import v",
        "s/u": "from p.s import w",
        "s/t": "from p.s import u",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{name}.py").write_text(text)
    assert import_circles(root) == ["p.a > p.b > p.c > p.a", "p.s > p.s.u > p.s"]


def repeated_names(root: Path) -> dict[str, list[str]]:
    """Return the names of modules that occur more than once in a package, and where."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        if not is_test(path) and path.name not in ("__init__.py", "__main__.py"):
            found.setdefault(path.stem, []).append(str(path.relative_to(root).parent))
    return {name: folders for name, folders in found.items() if len(folders) > 1}


def test_each_module_has_a_name_that_says_what_it_alone_holds() -> None:
    assert repeated_names(PACKAGE) == {}


def test_a_repeated_name_is_found(tmp_path: Path) -> None:
    for name in ("a/host.py", "b/host.py", "a/__init__.py", "b/__init__.py", "a/test_host.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert repeated_names(tmp_path) == {"host": ["a", "b"]}


def test_crates_follow_the_arrows() -> None:
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        content = tomllib.loads(manifest.read_text())
        name = content["package"]["name"]
        wanted = {*content.get("dependencies", {}), *content.get("build-dependencies", {})}
        assert {crate for crate in wanted if crate.startswith("isolane-")} <= CRATES[name], name
        assert ("pyo3" in wanted) == (name == "isolane-native"), f"{name}: only native knows Python"


def test_python_files_read_in_one_go() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in python_files()}
    long = {path.name: lines for path, lines in lengths.items() if lines > PYTHON_FILE_LINES}
    assert not long


def test_python_functions_fit_a_screen() -> None:
    long = [
        f"{path.name}:{node.lineno}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in python_files()
        if not is_test(path)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= PYTHON_FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def test_rust_files_read_in_one_go() -> None:
    for path in sorted((ROOT / "crates").rglob("*.rs")):
        if "target" not in path.parts:
            code = path.read_text().partition("\n#[cfg(test)]\nmod ")[0]
            assert len(code.splitlines()) <= RUST_FILE_LINES, path


def long_c_functions(text: str) -> list[str]:
    """Return the first lines of functions that are too long (kernel style: braces in column 0)."""
    long = []
    start = None
    head = ""
    for number, line in enumerate(text.splitlines()):
        if start is None and re.match(r"\w.*\w\(", line):
            head = line
        if line == "{":
            start = number
        elif line == "}" and start is not None:
            if number - start - 1 > C_FUNCTION_LINES:
                long.append(head)
            start = None
    return long


def test_c_functions_fit_a_screen() -> None:
    files = sorted((ROOT / "bpf").rglob("*.[ch]"))
    assert files
    long = [f"{path.name}: {head}" for path in files for head in long_c_functions(path.read_text())]
    assert not long, "\n".join(long)


@pytest.mark.parametrize(("lines", "found"), [(60, []), (61, ["static int f(int a)"])])
def test_a_long_c_function_is_found(lines: int, found: list[str]) -> None:
    body = "\ta++;\n" * lines
    assert long_c_functions(f"static int f(int a)\n{{\n{body}}}\n") == found


def test_bpf_programs_carry_their_licence() -> None:
    for path in sorted((ROOT / "bpf").rglob("*.[ch]")):
        if path.name != "vmlinux.h":
            first = path.read_text().splitlines()[0]
            assert "SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause" in first, path


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    package = re.search(r'__version__.*"(.*)"', (PACKAGE / "__init__.py").read_text())
    assert package is not None
    assert {project, cargo, package.group(1)} == {project}
    assert f"## [{project}]" in (ROOT / "CHANGELOG.md").read_text()

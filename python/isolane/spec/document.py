"""A YAML text as plain values, with the line that each of them stands on.

The text is composed, not constructed: no tag runs any code, every key's line is known, and a key
that is given twice, an alias that contains itself or a "billion laughs" is seen before it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from isolane.spec.problems import Loc, Problem, show

MAX_NODES: Final = 20_000
MAX_DEPTH: Final = 20
"""Values and levels of the largest document: far beyond any experiment, a second for the parser."""

_TOO_MANY = f"more than {MAX_NODES} values"


class NotYaml(Exception):  # noqa: N818 - the loader turns it into a SpecError
    """The text is not one YAML document; ``line`` (from 1) is None if it cannot be told."""

    def __init__(self, what: str, line: int | None):
        super().__init__(what)
        self.line = line


@dataclass
class Document:
    """The plain values of a document, their lines, and the problems found while reading."""

    value: object = None
    lines: dict[Loc, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def location(self, loc: Loc) -> tuple[int, Loc]:
        """Return the line of ``loc``, and the part of ``loc`` that the document has."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return self.lines.get(loc, 1), loc


def read_document(text: str) -> Document:
    """Return the values of a YAML text and their lines.

    Raises
    ------
    NotYaml
        If the text is not YAML, or too large, or more than one document.
    """
    root = _composed(text)
    document = Document()
    if root is not None:
        document.value = _Reader(document).read(root, ())
    return document


@lru_cache(maxsize=16)  # profiles are read again and again, at 50 ms a file
def _composed(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    try:
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(part).strip() for part in (error.problem, error.context) if part)
        raise NotYaml(what or "not YAML", mark.line + 1 if mark else None) from None
    except RecursionError:
        raise NotYaml("nested too deeply", None) from None
    except (YAMLError, ValueError, TypeError, AttributeError, IndexError, AssertionError) as error:
        # The parser itself fails on some malformed texts; report them as malformed.
        raise NotYaml(str(error).splitlines()[0] if str(error) else "malformed", None) from None
    return root


class _Composer(Composer):
    """Stops at documents larger than any experiment, which would take minutes to parse."""

    _depth = 0
    _nodes = 0

    def compose_node(self, parent: Node | None, index: Any) -> Any:
        self._depth += 1
        self._nodes += 1
        if self._depth > MAX_DEPTH or self._nodes > MAX_NODES:
            what = "nested too deeply" if self._depth > MAX_DEPTH else _TOO_MANY
            raise NotYaml(what, self.parser.peek_event().start_mark.line + 1)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Reader:
    """Turns composed nodes into values."""

    def __init__(self, document: Document):
        self._document = document
        self._nodes = 0
        self._open: set[int] = set()

    def read(self, node: Node, loc: Loc) -> object:
        self._nodes += 1
        line = node.start_mark.line + 1
        self._document.lines.setdefault(loc, line)
        if self._nodes > MAX_NODES:
            raise NotYaml(_TOO_MANY, line)
        if len(self._open) >= MAX_DEPTH or id(node) in self._open:
            msg = "nested too deeply" if id(node) not in self._open else "contains itself"
            raise NotYaml(msg, line)
        if isinstance(node, ScalarNode):
            return self._scalar(node, loc)
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, loc)
            assert isinstance(node, SequenceNode), "there are three kinds of nodes"
            return [self.read(item, (*loc, i)) for i, item in enumerate(node.value)]
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: MappingNode, loc: Loc) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                self._wrong(loc, line, "a list or a mapping as a key", "a word")
                continue
            name = str(key.value)
            if name in result:
                first = self._document.lines[(*loc, name)]
                self._wrong(
                    (*loc, name),
                    line,
                    f"key {show(name)} is given twice, in lines {first} and {line}",
                    "each key once",
                )
                continue
            self._document.lines[(*loc, name)] = line
            result[name] = self.read(value, (*loc, name))
        return result

    def _scalar(self, node: ScalarNode, loc: Loc) -> object:
        tag, text = str(node.tag), str(node.value)
        if tag not in _PLAIN:
            line = node.start_mark.line + 1
            self._wrong(loc, line, f"tag {show(tag)}", "plain values without a tag")
            return text
        try:
            return _PLAIN[tag](text)
        except ValueError:  # sexagesimal and other rarities, which no key accepts anyway
            return text

    def _wrong(self, loc: Loc, line: int, what: str, accepted: str) -> None:
        self._document.lines.setdefault(loc, line)
        self._document.problems.append(Problem(loc, what, accepted))


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    try:
        return int(digits, 0)
    except ValueError:  # 010 is ten in YAML 1.2
        return int(digits, 10)


def _float(text: str) -> float:
    return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))


_PLAIN: Final[dict[str, Callable[[str], object]]] = {
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": lambda text: text.lower() in {"true", "yes", "on"},
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": _float,
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:timestamp": str,
}
"""Tags of plain values, and the function that reads their text; other tags are refused."""

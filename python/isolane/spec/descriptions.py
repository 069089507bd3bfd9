"""Gives the keys of the models their descriptions: the text below each key in the source.

Only JSON Schemas and messages about missing keys need them. pydantic would read the source of
every model at import (``use_attribute_docstrings``), which takes a quarter of a second.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache

from isolane.spec.base import SpecModel


@cache
def describe_keys() -> None:
    """Set ``FieldInfo.description`` of every field of all models that are imported so far."""
    for model in _descendants(SpecModel):
        texts = {
            name: text
            for ancestor in reversed(model.__mro__)
            if issubclass(ancestor, SpecModel)
            for name, text in _texts(ancestor)
        }
        for name, info in model.model_fields.items():
            info.description = info.description or texts.get(name)
        model.model_rebuild(force=True)


def _descendants(model: type[SpecModel]) -> Iterator[type[SpecModel]]:
    for child in model.__subclasses__():
        yield child
        yield from _descendants(child)


def _texts(model: type[SpecModel]) -> Iterator[tuple[str, str]]:
    """Yield each annotated name in the body of a class that a text follows."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(body, ast.ClassDef)
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)

"""What the keys of the models mean: the text below each key in the source.

Only JSON Schemas and messages about missing keys need it. pydantic would read the source of every
model at import (``use_attribute_docstrings``), which takes a quarter of a second.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from isolane.spec.base import SpecModel

Model = TypeVar("Model", bound=BaseModel)


def description(model: type[SpecModel], name: str) -> str:
    """Return the text below a field of a model, or of one that it inherits from; or none."""
    return next((texts[name] for texts in _inherited(model) if name in texts), "")


@cache
def describe_keys() -> None:
    """Set ``FieldInfo.description`` of every field of all models that are imported so far."""
    for model in descendants(SpecModel):
        for name, info in model.model_fields.items():
            info.description = info.description or description(model, name) or None
        model.model_rebuild(force=True)


def descendants(model: type[Model]) -> Iterator[type[Model]]:
    """Yield all models that are derived from one, as far as they are imported."""
    for child in model.__subclasses__():
        yield child
        yield from descendants(child)


def _inherited(model: type[SpecModel]) -> Iterator[dict[str, str]]:
    """Yield the texts of a model and of those that it inherits from, the nearest first."""
    for ancestor in model.__mro__:
        if issubclass(ancestor, SpecModel):
            yield _texts(inspect.getfile(ancestor)).get(ancestor.__name__, {})


@cache
def _texts(source: str) -> dict[str, dict[str, str]]:
    """Return each annotated name that a text follows, by the classes of a file of source."""
    return {
        body.name: dict(_below_names(body))
        for body in ast.parse(Path(source).read_bytes()).body
        if isinstance(body, ast.ClassDef)
    }


def _below_names(body: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)

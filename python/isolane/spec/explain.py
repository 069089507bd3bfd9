"""Explains the errors that pydantic finds: the wrong value, and what would be accepted."""

from __future__ import annotations

from typing import get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from isolane.spec.descriptions import describe_keys
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Contradictions, Loc, Problem, Refused, listed, nearest, show

_SHAPES = {
    "bool_type": "true, false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text (in quotes if it looks like a number)",
}


Model = type[BaseModel]


def problems_of(error: ValidationError, root: Model = ExperimentData) -> list[Problem]:
    """Return the problems of a validation error of ``root``, each with its location."""
    return [
        problem
        for details in error.errors(include_url=False)
        for problem in _explain(details, root)
    ]


def _explain(details: ErrorDetails, root: Model) -> list[Problem]:
    loc: Loc = tuple(details["loc"])
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, Contradictions):
        return list(cause.problems)  # found at the root: their locations are complete
    if isinstance(cause, Refused):
        return [Problem(loc, cause.problem.what, cause.problem.accepted)]
    if details["type"] == "default_factory_not_called":
        return []  # the title is taken from a name that is itself in error
    return [_about_shape(loc, details, root)]


def _about_shape(loc: Loc, details: ErrorDetails, root: Model) -> Problem:
    """Return the problem with a key, or with the kind of a value."""
    value = details["input"]
    match details["type"]:
        case "extra_forbidden":
            word, known = str(loc[-1]), keys_at(loc[:-1], root)
            what, accepted = f"unknown key {show(word)}", listed(known) + nearest(word, known)
        case "missing":
            key = str(loc[-1])
            describe_keys()
            about = (_fields(loc[:-1], root)[key].description or "").rstrip(".")
            what, accepted = f"key {show(key)} is missing", f"{key}: {about}"
            loc = loc[:-1]
        case "literal_error":
            accepted = str(details["ctx"]["expected"]).replace("'", "").replace(" or ", ", ")
            accepted += nearest(value, accepted.split(", ")) if isinstance(value, str) else ""
            what = f"{show(value)} is not known"
        case kind if kind in _SHAPES:
            what, accepted = f"{show(value)} is not what belongs here", _SHAPES[kind]
        case _:
            return Problem(loc, f"{show(value)}: {details['msg']}")
    return Problem(loc, what, accepted)


def keys_at(loc: Loc, root: Model = ExperimentData) -> tuple[str, ...]:
    """Return the keys that are known at a location in the document, in the order of the models."""
    return tuple(_fields(loc, root))


def _fields(loc: Loc, root: Model) -> dict[str, FieldInfo]:
    """Return the keys at a location with their descriptions from the models."""
    fields = _of(root)
    free = False
    for key in loc:
        if not isinstance(key, str):
            continue
        if free:  # a name that the file chose, such as that of a stage
            free = False
            continue
        annotation = fields[key].annotation if key in fields else None
        model = _model_in(annotation)
        fields = _of(model) if model else {}
        free = any(get_origin(part) is dict for part in (annotation, *get_args(annotation)))
    return fields


def _of(model: Model) -> dict[str, FieldInfo]:
    return {info.alias or name: info for name, info in model.model_fields.items()}


def _model_in(annotation: object) -> Model | None:
    """Return the model in an annotation such as ``tuple[Router, ...]`` or ``Dut | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for m in map(_model_in, get_args(annotation)) if m is not None), None)

"""Explains the errors that pydantic finds: the wrong value, and what would be accepted."""

from __future__ import annotations

from typing import get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from isolane.spec.base import SpecModel
from isolane.spec.descriptions import description
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


Model = type[SpecModel]


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
            key, loc = str(loc[-1]), loc[:-1]
            what, accepted = f"key {show(key)} is missing", f"{key}: {_meaning(key, loc, root)}"
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
    return tuple(_names(_model_at(loc, root)))


def _meaning(key: str, loc: Loc, root: Model) -> str:
    """Return what a key that belongs to a location means."""
    model = _model_at(loc, root)
    assert model is not None
    return description(model, _names(model)[key]).rstrip(".")


def _model_at(loc: Loc, root: Model) -> Model | None:
    """Return the model of what is at a location; None where it is no mapping with known keys."""
    model: Model | None = root
    free = False
    for key in loc:
        if not isinstance(key, str):
            continue
        if free:  # a name that the file chose, such as that of a stage
            free = False
            continue
        name = _names(model).get(key)
        annotation = model.model_fields[name].annotation if model and name else None
        model = _model_in(annotation)
        free = any(get_origin(part) is dict for part in (annotation, *get_args(annotation)))
    return model


def _names(model: Model | None) -> dict[str, str]:
    """Return the key of each field of a model, and the field's name."""
    if model is None:
        return {}
    return {info.alias or name: name for name, info in model.model_fields.items()}


def _model_in(annotation: object) -> Model | None:
    """Return the model in an annotation such as ``tuple[Router, ...]`` or ``Dut | None``."""
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    return next((m for m in map(_model_in, get_args(annotation)) if m is not None), None)

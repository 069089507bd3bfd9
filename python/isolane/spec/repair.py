"""Finds contradictions in spite of wrong values, so that one message names both.

Values that are wrong by themselves keep pydantic from comparing them with others. Here the wrong
ones are put out of the way - where that cannot lead to complaints of its own - and the structure
of what is left is checked.
"""

from __future__ import annotations

import copy
from typing import Any

from pydantic import ValidationError

from isolane.spec.checks import structure
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Contradictions, Problem

_DISPENSABLE = {"title", "description", "dut", "trial", "published", "not_runnable"}
"""Keys of the first level that the structure does not depend on."""


def structure_problems(document: dict[str, Any], error: ValidationError) -> list[Problem]:
    """Return the contradictions in a document that has wrong values, as far as they can be seen.

    Parameters
    ----------
    document : dict
        The document as it was given; it is not changed.
    error : ValidationError
        What is wrong with its values.
    """
    details = error.errors(include_url=False, include_input=False)
    causes = [entry.get("ctx", {}).get("error") for entry in details]
    if any(isinstance(cause, Contradictions) for cause in causes):
        return []  # the values were right and have been compared
    patched = copy.deepcopy(document)
    if not all(
        _traffic_aside(patched, loc) or _put_aside(patched, loc, entry["type"])
        for entry in details
        for loc in [list(entry["loc"])]
    ):
        return []
    try:
        return list(structure(ExperimentData.model_validate(patched)))
    except ValidationError:
        return []


def _without_policies(document: Any) -> None:
    arms = document.get("arms")
    for entry in (*document["routers"], *(arms if isinstance(arms, list) else ())):
        if isinstance(entry, dict):  # it may be the next mistake
            entry.pop("policy", None)


def _put_aside(document: Any, loc: list[str | int], kind: str) -> bool:
    """Take a wrong value out of the document, or put a harmless one in; False if neither is."""
    match loc:
        case [str(first), *_] if first in _DISPENSABLE:
            document.pop(first, None)
        case ["routers", int(), "role" | "address" | "policy", *_]:
            _delete(document, loc[:3])
        case _ if kind == "extra_forbidden":
            _delete(document, loc)
        case ["load", name, int(i)] if isinstance(document["load"][name], list):
            document["load"][name][i] = "1pps"
        case ["load", name, *_]:
            document["load"][name] = "1pps"
        case ["routers" | "arms", int(i), "kind" | "path"]:
            # A container with a path causes no further complaints, whatever was meant.
            document[loc[0]][i].update(kind="container", path="direct")
            _without_policies(document)
        case [
            "arms",
            int(),
            "receive" | "moderation" | "cores" | "nic" | "policy" | "bridge_netfilter",
            *_,
        ]:
            _delete(document, loc[:3])
        case ["routers", int(), "nic"]:
            _delete(document, loc)
        case _:
            return False
    return True


def _traffic_aside(document: Any, loc: list[str | int]) -> bool:
    """Take a wrong key of traffic out, but for the mode, which the loads depend on."""
    length = {"traffic": 2, "routers": 4}.get(str(loc[0]), 0)
    if not 0 < length <= len(loc) or loc[length - 2] != "traffic" or loc[length - 1] == "mode":
        return False
    _delete(document, loc[:length])
    return True


def _delete(document: Any, loc: list[str | int]) -> None:
    for part in loc[:-1]:
        document = document[part]
    document.pop(loc[-1], None)

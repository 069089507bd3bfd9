"""Keys of a router that are changed while a policy is in force (``isolane set``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from isolane.errors import SpecError
from isolane.spec.explain import problems_of
from isolane.spec.policy_checks import of_one_router
from isolane.spec.policy_models import POLICY_KEYS, Identity, PolicyKeys
from isolane.spec.policy_router import PolicyValues
from isolane.spec.problems import Problem, listed, nearest, show

E = TypeVar("E", bound=PolicyValues)


def with_changes(router: E, changes: Mapping[str, str]) -> E:
    """Return a copy with some keys changed; ``none`` puts a key back to its default.

    Parameters
    ----------
    changes : Mapping
        Key to value as on the command line: ``{"cpu_weight": "300", "cores": "1,2"}``.
        Values are read as in a policy file, so ``{egress: 1Gbps}`` stands for a mapping.

    Raises
    ------
    SpecError
        If a key is unknown or cannot be changed, a value is not accepted, or the values do not
        fit together: all that is wrong, one problem a line.
    """
    wrong = [_unknown(key, changes[key]) for key in changes if key not in POLICY_KEYS]
    values = {key: read_value(changes[key]) for key in changes if key in POLICY_KEYS}
    given = {key: value for key, value in values.items() if value is not None}
    try:
        read = PolicyKeys.model_validate(given)
    except ValidationError as error:
        wrong += [_told(problem, changes) for problem in problems_of(error, PolicyKeys)]
    if wrong:
        raise SpecError("\n".join(wrong))
    update = {
        key: getattr(read, key) if key in given else type(router).model_fields[key].default
        for key in values
    }
    changed = router.model_copy(update=update)
    told = [_told(problem, changes) for problem in of_one_router((), changed)]
    if told:
        raise SpecError("\n".join(told))
    return changed


def read_value(text: str) -> object:
    """Return the value that a text on the command line stands for; None for the default."""
    if text.strip() in {"", "none"}:
        return None
    if "," in text and text.lstrip()[0] not in "[{":
        text = f"[{text}]"
    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError):
        return text  # what it should be is said by the check of the key


def _unknown(key: str, text: str) -> str:
    if key in Identity.model_fields or key in ("interfaces", "mac"):
        what = f"{key} is how the router is found and cannot be set"
        return f"{key}={text}: {what}; accepted: {listed(POLICY_KEYS)}"
    known = listed(POLICY_KEYS) + nearest(key, POLICY_KEYS)
    return f"{key}={text}: unknown key {show(key)}; accepted: {known}"


def _told(problem: Problem, changes: Mapping[str, str]) -> str:
    key = str(problem.loc[0]) if problem.loc else ""
    shown = f"{key}={changes[key]}" if key in changes else key
    return f"{shown}: {problem}" if shown else str(problem)

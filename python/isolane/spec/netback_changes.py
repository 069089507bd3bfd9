"""Keys of a network back-end that are changed while it runs (``isolane set``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, get_args

from pydantic import ValidationError

from isolane.errors import SpecError
from isolane.spec.explain import problems_of
from isolane.spec.netback_models import NetbackFile, PortEntry, UplinkEntry
from isolane.spec.policy_changes import read_value
from isolane.spec.problems import listed, nearest, show
from isolane.spec.schedulers import PortKey

PORT_KEYS: Final[tuple[str, ...]] = get_args(PortKey)
AT_START: Final = frozenset({"early_drop", "receive"})
"""Keys of an uplink that are chosen when the back-end starts."""
UPLINK_KEYS: Final = tuple(key for key in UplinkEntry.model_fields if key not in AT_START)
E = TypeVar("E", PortEntry, UplinkEntry)


def with_netback_changes(plan: NetbackFile, name: str, changes: Mapping[str, str]) -> NetbackFile:
    """Return a back-end with some keys of a port or an uplink changed.

    Parameters
    ----------
    plan
        The back-end as it runs.
    name
        Name of a port or, where no port has it, of an uplink.
    changes
        Key to value as on the command line, read as in the file; ``none`` puts a key back to its
        default.

    Raises
    ------
    SpecError
        If the name or a key is unknown, a value is not accepted, or the values do not fit together:
        all that is wrong, one problem a line.
    """
    if name in plan.ports:
        port = _changed(plan.ports[name], changes, PORT_KEYS)
        changed = plan.model_copy(update={"ports": {**plan.ports, name: port}})
    elif name in plan.uplinks:
        uplink = _changed(plan.uplinks[name], changes, UPLINK_KEYS)
        changed = plan.model_copy(update={"uplinks": {**plan.uplinks, name: uplink}})
    else:
        known = (*plan.ports, *plan.uplinks)
        raise SpecError(
            f"network back-end {plan.name} has no port and no uplink named {show(name)}; "
            f"accepted: {listed(known)}{nearest(name, known)}"
        )
    if wrong := list(changed.problems()):
        told = (f"{'.'.join(map(str, problem.loc))}: {problem}" for problem in wrong)
        raise SpecError("\n".join(told))
    return changed


def _changed(entry: E, changes: Mapping[str, str], keys: tuple[str, ...]) -> E:
    wrong = [
        f"{key}={changes[key]}: unknown key {show(key)}; accepted: {listed(keys)}"
        f"{nearest(key, keys)}"
        for key in changes
        if key not in keys
    ]
    values = {key: read_value(text) for key, text in changes.items() if key in keys}
    given = {key: value for key, value in values.items() if value is not None}
    model = type(entry)
    kept = {key: getattr(entry, key) for key in entry.model_fields_set if key not in values}
    needed = {key: kept[key] for key, field in model.model_fields.items() if field.is_required()}
    try:
        read = model.model_validate({**needed, **given})
    except ValidationError as error:
        for problem in problems_of(error, model):
            key = str(problem.loc[0])
            wrong.append(f"{key}={changes[key]}: {problem}")
    if wrong:
        raise SpecError("\n".join(wrong))
    return model.model_construct(**kept, **{key: getattr(read, key) for key in given})

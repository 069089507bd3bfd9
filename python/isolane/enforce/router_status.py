"""What is in force, in the words of a policy: what it says of each router, what there is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from isolane._native import RateLimits
from isolane.enforce import htb
from isolane.enforce.cpu_cgroups import weight_of
from isolane.enforce.htb import ClassSettings
from isolane.enforce.kernel_settings import MAX_QUEUE_LIMIT, MIN_CLASS_RATE
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter, MissingRouter
from isolane.enforce.setting import Setting, Value, from_key
from isolane.enforce.settings import (
    Affinity,
    Budget,
    Filter,
    GroupFile,
    LinkClass,
    PortSetting,
    PortShares,
    QueueSetting,
)
from isolane.enforce.settings.link_classes import class_settings
from isolane.enforce.settings.values import cpu_budget, port_settings, queue_settings
from isolane.spec.policy import Policy
from isolane.spec.policy_router import PolicyValues, RouterPolicy
from isolane.spec.port_keys import POLICY_KEYS
from isolane.spec.units import Load, format_rate

_DEFAULTS = {
    key: str(getattr(PolicyValues(), key)) for key in ("forward", "priority", "link_weight")
}
"""What is not worth a word."""
_ALWAYS = "cpu_weight"
_NO_ROOT = ClassSettings(rate=0, ceil=0, burst=0, prio=0, quantum=htb.QUANTUM)


@dataclass(frozen=True)
class RouterStatus:
    """One router of the policy in force."""

    name: str
    present: bool
    reason: str | None
    """Why it is not; a sentence."""
    entitlement: dict[str, str] = field(default_factory=dict)
    """Key of the policy -> value, as it is written there; defaults are left out."""
    in_force: dict[str, str] = field(default_factory=dict)
    """The same as the kernel has it; several values where its threads or NICs differ."""
    steer: str = ""
    """How its frames are told from others': ``own interface``, ``queue 3 of eth1``,
    ``software``, ``back-end edge``, or ``none``; empty while it does not run."""


def statuses(
    policy: Policy,
    found: tuple[FoundRouter | MissingRouter, ...],
    state: State,
    readings: Mapping[str, Value],
) -> tuple[RouterStatus, ...]:
    """Return the status of each router, in the policy's order.

    Parameters
    ----------
    readings
        Of :func:`isolane.enforce.transaction.read_all`.
    """
    has = _in_force(state, readings)
    steered = {r.name: _steered(r, state, readings) for r in found if isinstance(r, FoundRouter)}
    missing = {router.name: router.reason for router in found if isinstance(router, MissingRouter)}
    return tuple(
        RouterStatus(
            name=name,
            present=name not in missing,
            reason=missing.get(name),
            entitlement=_entitlement(router),
            in_force={} if name in missing else has.get(name, {}),
            steer="" if name in missing else steered[name],
        )
        for name, router in policy.routers.items()
    )


def _steered(router: FoundRouter, state: State, readings: Mapping[str, Value]) -> str:
    """Say how a router's frames are told from others'."""
    words = []
    settings = map(from_key, state.applied)
    queued = {(one.router, one.ifname) for one in settings if isinstance(one, QueueSetting)}
    for at in router.interfaces:
        if at.how == "own":
            words.append("own interface")
            continue
        if at.port is not None:
            words.append(f"back-end {at.port.back_end}")
            continue
        filters = [
            f"queue {readings[key]} of {setting.ifname}"
            for key in state.applied
            if isinstance(setting := from_key(key), Filter)
            and (setting.mac, setting.vlan) == (at.mac, at.vlan)
            and readings[key] is not None
        ]
        words += filters or ["software" if (router.name, at.ifname) in queued else "none"]
    return " / ".join(dict.fromkeys(words))


def _entitlement(router: RouterPolicy) -> dict[str, str]:
    written = {_ALWAYS: router.cpu_weight, **router.written()}
    return {key: _text(value) for key, value in written.items()}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _in_force(state: State, readings: Mapping[str, Value]) -> dict[str, dict[str, str]]:
    """Return router -> key of the policy -> what the kernel has."""
    roots: dict[str, ClassSettings] = {}
    words: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key, done in state.applied.items():
        setting, value = from_key(key), readings[key]
        if value is None:
            continue
        if isinstance(setting, LinkClass) and setting.minor == htb.ROOT_CLASS:
            roots[setting.ifname] = class_settings(value)
        for word, text in _words(setting, value, readings, roots):
            if text not in words[done.router][word]:
                words[done.router][word].append(text)
    return {router: _joined(found) for router, found in words.items()}


def _joined(words: dict[str, list[str]]) -> dict[str, str]:
    limits = [
        f"{direction}: {' + '.join(words[f'rate_max {direction}'])}"
        for direction in ("ingress", "egress")
        if f"rate_max {direction}" in words
    ]
    if limits:
        words["rate_max"] = ["{" + ", ".join(limits) + "}"]
    return {
        key: " / ".join(texts)
        for key, texts in words.items()
        if texts != [_DEFAULTS.get(key)] and not key.startswith("rate_max ")
    }


def _words(
    setting: Setting,
    value: Value,
    readings: Mapping[str, Value],
    roots: Mapping[str, ClassSettings],
) -> list[tuple[str, str]]:
    """Return keys and values of the policy that a setting stands for."""
    if isinstance(setting, GroupFile):
        return _of_group(setting, value, readings)
    if isinstance(setting, Affinity):
        return [("cores", ",".join(map(str, value)))]
    if isinstance(setting, LinkClass):
        return _of_class(class_settings(value), roots.get(setting.ifname, _NO_ROOT))
    if isinstance(setting, QueueSetting):
        queue = queue_settings(value)
        forward = "xdp" if queue.xdp else "kernel"
        words = [("forward", forward), *_limits("ingress", queue.ingress)]
        chosen = queue.limit == queue.burst_limit != MAX_QUEUE_LIMIT
        return [("queue", str(queue.limit)), *words] if chosen else words
    if isinstance(setting, Budget):
        rate_ns = cpu_budget(value).rate_ns
        return [("cpu_max", f"{rate_ns / 1e7:g}%")] if rate_ns else []
    return _of_port(setting, value)


def _of_port(setting: Setting, value: Value) -> list[tuple[str, str]]:
    if isinstance(setting, PortShares):
        words = {**POLICY_KEYS, "rate_max": "rate_max egress"}
        return [(words[key], str(now)) for key, now in value.items() if now is not None]
    is_port = isinstance(setting, PortSetting)
    return _limits("egress", port_settings(value).egress) if is_port else []


def _of_group(
    setting: GroupFile, value: str, readings: Mapping[str, Value]
) -> list[tuple[str, str]]:
    if setting.file == "cpu.weight":
        return [("cpu_weight", value)]
    if setting.file == "cpu.shares":
        return [("cpu_weight", str(weight_of(int(value))))]
    quota, period = "max", "1"
    if setting.file == "cpu.max":
        quota, period = value.split()
    elif setting.file == "cpu.cfs_quota_us" and int(value) > 0:
        quota = value
        period = readings.get(GroupFile(setting.router, "cpu.cfs_period_us").key) or "1"
    return [] if quota == "max" else [("cpu_max", f"{round(100 * int(quota) / int(period), 2):g}%")]


def _of_class(found: ClassSettings, root: ClassSettings) -> list[tuple[str, str]]:
    words = [("priority", str(found.prio)), ("link_weight", f"{found.quantum / root.quantum:g}")]
    if found.rate > MIN_CLASS_RATE:
        words.append(("rate_min", format_rate(Load(found.rate * 8.0, "bps"))))
    if found.ceil < root.rate:
        words.append(("rate_max egress", format_rate(Load(found.ceil * 8.0, "bps"))))
    return words


def _limits(direction: str, limits: RateLimits) -> list[tuple[str, str]]:
    bits, frames = limits.bits.rate, limits.frames.rate
    rates = [Load(float(bits), "bps")] * bool(bits) + [Load(float(frames), "pps")] * bool(frames)
    return [(f"rate_max {direction}", format_rate(rate)) for rate in rates]

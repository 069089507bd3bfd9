"""Files that rows name; one that only one row needs stands in that row."""

from __future__ import annotations

from typing import Final

from tests.misuse.row import Content

GOOD: Final = """\
isolane: 1
name: good
traffic: {frame_size: 64, flows: 2}
routers:
  - {name: one, role: victim}
  - {name: two, role: aggressor}
load: {one: 5kpps, two: [2kpps, 5kpps]}
arms:
  - {name: direct, path: direct}
trial: {duration: 50ms, warmup: 10ms, repeats: 1, seed: 1}
"""
"""An experiment in which there is nothing wrong; takes no time on a simulated host."""

POLICY: Final = """\
isolane: 1
name: edge
nics: {w0: {rate: 1Gbps}}
routers:
  gold: {netns: e2e-misuse-absent, cpu_weight: 200, rate_min: 100Mbps}
  bronze: {netns: e2e-misuse-absent-too, cpu_weight: 100}
"""
"""A policy whose routers wait: it can be applied where there is a wire."""

NETBACK: Final = """\
isolane: 1
name: misuse
uplinks: {w0: {scheduler: drr}}
ports:
  one: {mac: "02:00:00:00:00:01", weight: 2}
  two: {mac: "02:00:00:00:00:02"}
"""
"""A network back-end that can be started where there is a wire."""

FILES: Final[dict[str, Content]] = {"good.yaml": GOOD, "policy.yaml": POLICY}


def good(old: str, new: str) -> str:
    """Return the good experiment with one thing changed."""
    assert GOOD.count(old) == 1, f"{old!r} is there {GOOD.count(old)} times"
    return GOOD.replace(old, new)


def policy(old: str, new: str) -> str:
    """Return the good policy with one thing changed."""
    assert POLICY.count(old) == 1, f"{old!r} is there {POLICY.count(old)} times"
    return POLICY.replace(old, new)


def netback(old: str, new: str) -> str:
    """Return the good network back-end with one thing changed."""
    assert NETBACK.count(old) == 1, f"{old!r} is there {NETBACK.count(old)} times"
    return NETBACK.replace(old, new)

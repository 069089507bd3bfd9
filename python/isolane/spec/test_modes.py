"""Modes: whether a router passes its frames on or answers them; how they are read and refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, parse_experiment

TEXT = """\
isolane: 1
name: round-trips
traffic: {{mode: {mode}}}
routers:
  - {{name: asked, path: direct, role: victim, traffic: {{pattern: {pattern}}}}}
  - {{name: noise, path: direct, role: aggressor, traffic: {{{noise}}}}}
load: {{asked: 10kpps, noise: 1x}}
"""


def experiment(mode: str, noise: str = "mode: forward", pattern: str = "constant") -> Experiment:
    return parse_experiment(TEXT.format(mode=mode, noise=noise, pattern=pattern))


@pytest.mark.parametrize("mode", ["echo", "icmp-echo"])
def test_a_router_answers_unless_it_has_a_mode_of_its_own(mode: str) -> None:
    it = experiment(mode)
    asked, noise = it.points()[0].routers
    assert (asked.mode, noise.mode) == (mode, "forward")
    assert asked.answers
    assert not noise.answers
    assert it.traffic_of("asked").mode == mode
    assert parse_experiment(it.to_yaml()) == it


def test_frames_are_passed_on_by_default() -> None:
    it = experiment("forward", "flows: 5")
    assert {router.mode for router in it.points()[0].routers} == {"forward"}


@pytest.mark.parametrize("pattern", ["poisson", "bursts 1ms/4ms"])
def test_answers_can_be_asked_for_in_other_ways_than_evenly(pattern: str) -> None:
    assert str(experiment("echo", pattern=pattern).points()[0].routers[0].pattern) == pattern


@pytest.mark.parametrize(
    ("mode", "noise", "pattern", "words"),
    [
        ("ehco", "", "constant", r"mode 'ehco' is not known; .*\(did you mean echo\?\)"),
        ("echo", "", "fragments", "fragments of 'asked' with mode echo: nobody answers"),
        ("echo", "", "new-flows", "new-flows of 'asked' with mode echo: nobody answers"),
        ("echo", "flows: 50001", "constant", "50001 flows of 'noise' with mode echo"),
        ("icmp-echo", "", "poisson+no-route", r"poisson\+no-route of 'asked' with mode icmp-echo"),
        ("forward", "mode: echo, pattern: ttl-expired", "constant", "of 'noise' with mode echo"),
    ],
)
def test_what_cannot_be_answered_is_named(mode: str, noise: str, pattern: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        experiment(mode, noise, pattern)


NOT_ITS_OWN = """\
isolane: 1
name: there
traffic: {{mode: {mode}}}
routers: [{router}]
load: {{edge: 1kpps}}
"""
EXTERNAL = """{name: edge, kind: external, external: {
  ingress: {interface: eth1, mac: "52:54:00:00:00:01", address: 192.0.2.1/24},
  egress: {interface: eth2, mac: "52:54:00:00:00:02", address: 198.51.100.1/24}}}"""
IMAGE = "{name: edge, kind: vm, path: bridge, hypervisor: tcg, image: a.qcow2}"


@pytest.mark.parametrize(
    ("router", "words"),
    [(EXTERNAL, "echo of 'edge', an external router"), (IMAGE, "'edge', which starts from an ima")],
)
def test_no_server_is_started_in_what_is_not_isolanes(router: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_experiment(NOT_ITS_OWN.format(mode="echo", router=router))
    pings = parse_experiment(NOT_ITS_OWN.format(mode="icmp-echo", router=router))
    assert pings.points()[0].routers[0].mode == "icmp-echo"

"""Services of routers: what is read, where they hold, what is refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import parse_experiment
from isolane.spec.services_models import Services

TEXT = """
isolane: 1
name: services
traffic: {%s}
routers:
  - {name: fw, %s}
  - {name: plain, path: direct}
load: {fw: 1kpps, plain: 1kpps}
arms:
  - {name: own}
  - {name: other%s}
"""
OWN = "path: direct, services: {nftables: 20, conntrack: true}"


def services(own: str = OWN, arm: str = "", traffic: str = "ip: 4") -> list[Services | None]:
    """Return the services of fw in each arm."""
    experiment = parse_experiment(TEXT % (traffic, own, arm))
    assert parse_experiment(experiment.to_yaml()) == experiment
    assert all(arm.router("plain").services is None for arm in experiment.resolved_arms())
    return [arm.router("fw").services for arm in experiment.resolved_arms()]


def test_a_routers_services_hold_in_each_arm_that_has_no_others_for_it() -> None:
    first, second = services(arm=", services: {fw: {nat: true}}")
    assert first == Services(nftables=20, conntrack=True)
    assert second == Services(nat=True)
    assert (str(first), str(second)) == ("nftables 20, conntrack", "nat")
    assert second.tracks


@pytest.mark.parametrize("none", ["{}", "{nftables: 0}", "{nat: false, conntrack: false}"])
def test_an_arm_can_take_them_away(none: str) -> None:
    assert services(arm=f", services: {{fw: {none}}}")[1] is None


@pytest.mark.parametrize(
    ("own", "arm", "traffic", "told"),
    [
        ("path: direct", ", services: {wf: {nat: true}}", "ip: 4", "unknown router 'wf'.*fw"),
        (OWN, ", kind: vm", "ip: 4", "services of router 'fw' in arm 'other', whose kind is vm"),
        ("kind: native, services: {nat: true}", "", "ip: 4", "whose kind is native"),
        (
            "path: isolane, services: {nat: true}, policy: {forward: xdp}",
            "",
            "ip: 4",
            "with forward: xdp, which no rule sees; accepted: forward: kernel",
        ),
        (OWN, "", "mode: echo", "with mode echo: it passes no frames on"),
        ("path: direct, services: {nat: true}", "", "flows: 50001", "50001 flows, which need a"),
        ("path: direct, services: {nftables: 10001}", "", "ip: 4", "10001 is out of range"),
        ("path: direct, services: {nftables: true}", "", "ip: 4", "not a whole number"),
        ("path: direct, services: {nat: 1}", "", "ip: 4", "nat"),
        ("path: direct, services: {iptables: 1}", "", "ip: 4", "iptables"),
    ],
)
def test_what_no_router_of_isolanes_can_do_is_refused(
    own: str, arm: str, traffic: str, told: str
) -> None:
    with pytest.raises(SpecError, match=told):
        services(own, arm, traffic)

"""What a guest is told to do, so that it is a router and nothing else."""

from __future__ import annotations

import subprocess
from typing import Literal

import pytest

from isolane.guests.router_script import RouterSide, router_script

NICS = ("vec0", "eth1")
SIDES = {
    4: (
        RouterSide("198.18.0.1/24", "198.18.0.2", "02:15:01:00:00:00"),
        RouterSide("198.19.0.1/24", "198.19.0.2", "02:15:04:00:00:00"),
    ),
    6: (
        RouterSide("2001:2::1/64", "2001:2::2", "02:15:01:00:00:00"),
        RouterSide("2001:2:0:8000::1/64", "2001:2:0:8000::2", "02:15:04:00:00:00"),
    ),
}


@pytest.mark.parametrize("ip", [4, 6])
def test_each_side_has_its_address_and_its_only_neighbour(ip: Literal[4, 6]) -> None:
    lines = router_script(ip, NICS, SIDES[ip]).splitlines()
    for nic, side in zip(NICS, SIDES[ip], strict=True):
        up = lines.index(f"ip link set {nic} arp off up")
        address = lines.index(f"ip address add {side.address} dev {nic}")
        neighbour = f"ip neighbour add {side.neighbour_ip} lladdr {side.neighbour_mac} dev {nic}"
        assert up < address < lines.index(f"{neighbour} nud permanent")


@pytest.mark.parametrize("ip", [4, 6])
def test_settings_come_before_the_interfaces_that_inherit_them(ip: Literal[4, 6]) -> None:
    lines = router_script(ip, NICS, SIDES[ip]).splitlines()
    first_up = lines.index(f"ip link set {NICS[0]} arp off up")
    settings = [i for i, line in enumerate(lines) if ">/proc/sys/net" in line]
    assert settings
    assert max(settings) < first_up
    forwarding = {4: "ipv4/ip_forward", 6: "ipv6/conf/all/forwarding"}[ip]
    assert f"echo 1 >/proc/sys/net/{forwarding}" in lines


@pytest.mark.parametrize("ip", [4, 6])
def test_a_shell_understands_it(ip: Literal[4, 6]) -> None:
    done = subprocess.run(
        ["sh", "-n"],
        input=router_script(ip, NICS, SIDES[ip]),
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")

"""Web servers of a test bed: what starts them, and where frames of theirs go."""

from __future__ import annotations

import subprocess
from typing import Literal

import pytest

from isolane.errors import NotSupported
from isolane.testbed.bed_devices import GEN, RCV
from isolane.testbed.bed_plan import BedPlan, Path, RouterPlan, WebPlan
from isolane.testbed.layout import make_layout
from isolane.testbed.web_servers import at, origin_script, refuse_lacking

WEB = WebPlan((1024,), keep_alive=False)


def test_the_origin_serves_each_size_once_and_has_no_rights() -> None:
    script = origin_script(["192.0.2.1:80", "[2001:db8::1]:80"], [1024, 0, 1024], "/usr/bin/nginx")
    assert script.count("head -c 1024 ") == script.count("head -c 0 ") == 1
    assert "listen [2001:db8::1]:80 backlog" in script
    last = script.splitlines()[-1]
    assert last.startswith("exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs /usr")
    done = subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_addresses_with_ports() -> None:
    assert at("198.18.0.1/24") == at("198.18.0.1") == "198.18.0.1:80"
    assert at("2001:2::1/64", 8080) == "[2001:2::1]:8080"


def test_a_host_without_them_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    refuse_lacking([])
    with pytest.raises(
        NotSupported, match=r"router lb: .*no haproxy and no nginx.*apt-get install"
    ):
        refuse_lacking(["lb", "lb"])


@pytest.mark.parametrize("path", ["direct", "bridge", "macvlan"])
@pytest.mark.parametrize("receive", ["softirq", "threaded"])
def test_every_wire_of_a_load_balancer_is_received_from_at_both_ends(
    path: Path, receive: Literal["softirq", "threaded"]
) -> None:
    routers = tuple(
        RouterPlan(name, "container", path, None, mode="http", web=WEB) for name in "ab"
    )
    layout = make_layout(BedPlan(routers, receive, 50_000, (1,), (0,), 4))
    assert layout.web
    assert all(e.nic for v in layout.veths for e in (v.tx, v.rx) if _is_far(e.netns))
    received = {nic.ifname for nic in layout.dut_nics}
    wires = [v for v in layout.veths if v.tx.netns == GEN or v.rx.netns == RCV]
    ends = {v.rx.ifname if v.tx.netns == GEN else v.tx.ifname for v in wires}
    assert received == ends
    far = {(nic.far_netns, nic.far_ifname) for nic in layout.dut_nics}
    assert far == {(e.netns, e.ifname) for v in wires for e in (v.tx, v.rx) if _is_far(e.netns)}
    if path == "bridge":  # answers find their way back
        into, out = layout.bridges
        assert {port for _, port in into.fdb} == {"isl-p0", "isl-p1", "isl-nb0"}
        assert {port for _, port in out.fdb} == {"isl-q0", "isl-q1", "isl-nb1"}


def _is_far(netns: str) -> bool:
    return netns in (GEN, RCV)

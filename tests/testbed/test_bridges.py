"""Bridges of a test bed: netfilter sees their frames where it would on the host, or as asked."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from isolane.testbed import NETNS_DIR, Testbed, bridge_netfilter
from isolane.testbed.bed_devices import DUT

pytestmark = pytest.mark.root
FRAMES = 20
COUNTING = """
table ip seen {
 chain forward {
  type filter hook forward priority filter; policy accept;
  counter
 }
}
"""


@contextmanager
def on_this_host(value: int) -> Iterator[None]:
    """Have this namespace's bridges hand IPv4 frames to netfilter, or not."""
    file = bridge_netfilter.FOLDER / "bridge-nf-call-iptables"
    before = file.read_text()
    file.write_text(str(value))
    try:
        yield
    finally:
        file.write_text(before)


def seen_by_netfilter(bed: Testbed, traffic: Any) -> int:
    """Have frames forwarded by a router behind a bridge; how many of them a rule there counted."""
    netns = str(NETNS_DIR / DUT)

    def nft(*words: str, text: str | None = None) -> str:
        done = traffic.inside(
            netns,
            lambda: subprocess.run(
                ["nft", *words], input=text, capture_output=True, text=True, check=False
            ),
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    nft("-f", "-", text=COUNTING)
    (wire,) = bed.wires
    with traffic.listen(wire.rcv_netns) as receiver:
        traffic.send(wire, [traffic.frame(wire)] * FRAMES)
        for _ in range(FRAMES):
            receiver.recv(2048)
    return int(nft("list", "table", "ip", "seen").split("packets")[1].split()[0])


@pytest.mark.parametrize(
    ("host", "asked", "passes"),
    [(1, None, True), (0, None, False), (0, True, True), (1, False, False)],
)
def test_netfilter_sees_frames_as_on_the_host_or_as_asked(
    host: int, asked: bool | None, passes: bool, journal: Any, plan: Any, traffic: Any
) -> None:
    if not bridge_netfilter.FOLDER.is_dir():
        pytest.skip("this kernel has no br_netfilter")
    if shutil.which("nft") is None:
        pytest.skip("there is no nft(8)")
    with on_this_host(host):
        before = bridge_netfilter.here()
        with Testbed(plan("bridge", bridge_netfilter=asked), journal) as bed:
            assert bridge_netfilter.here() == before, "of this host, not of the test bed"
            # Each frame passes two bridges: on its way into the router, and out of it.
            assert seen_by_netfilter(bed, traffic) == 2 * FRAMES * passes
            folder = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
            inside = traffic.inside(str(NETNS_DIR / DUT), folder.read_text)
            assert int(inside) == int(passes)

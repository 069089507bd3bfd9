from __future__ import annotations

import pytest

from isolane.enforce.find import qemu_monitor, virtual_machines
from isolane.enforce.find.absent import Absent

# libvirt 9.0.0, recorded; unrelated elements are left out.
RUNS = """\
<domain type='qemu' id='1'>
  <name>vm1</name>
  <uuid>d39bb87f-ea7f-4b1b-b99f-f36e39659dfd</uuid>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <interface type='bridge'>
      <mac address='52:54:00:AA:bb:01'/>
      <source bridge='br0'/>
      <target dev='vnet0'/>
      <model type='e1000'/>
      <alias name='net0'/>
    </interface>
    <interface type='ethernet'>
      <mac address='52:54:00:aa:bb:02'/>
      <target dev='mytap'/>
      <model type='virtio'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:aa:bb:03'/>
    </interface>
  </devices>
</domain>
"""


def test_a_domain_has_the_addresses_behind_its_taps() -> None:
    uuid, macs = virtual_machines.read_domain(RUNS, "vm1")
    assert uuid == "d39bb87f-ea7f-4b1b-b99f-f36e39659dfd"
    assert macs == {"vnet0": "52:54:00:aa:bb:01", "mytap": "52:54:00:aa:bb:02"}


@pytest.mark.parametrize(
    ("text", "domain", "reason"),
    [
        (RUNS.replace(" id='1'", ""), "vm1", "libvirt domain vm1 does not run"),
        # virsh takes a number for an id first: `1` is vm1's.
        (RUNS, "1", "there is no libvirt domain 1"),
        ("nonsense", "vm1", "libvirt domain vm1: virsh answered something that is not XML"),
    ],
)
def test_a_domain_that_is_not_there_is_told(text: str, domain: str, reason: str) -> None:
    with pytest.raises(Absent) as absent:
        virtual_machines.read_domain(text, domain)
    assert str(absent.value) == reason


# QEMU 7.2.22; the last three lines as they are with a descriptor, and without a tap.
NETWORK = """\
e1000.0: index=0,type=nic,model=e1000,macaddr=52:54:00:12:34:56\r
 \\ n0: index=0,type=tap,ifname=tapA,script=no,downscript=no\r
virtio-net-pci.0: index=0,type=nic,model=virtio-net-pci,macaddr=52:54:00:12:34:57\r
 \\ hostnet0: index=0,type=tap,fd=29\r
net2: index=0,type=nic,model=e1000,macaddr=52:54:00:12:34:58\r
 \\ u0: index=0,type=user,net=10.0.2.0,restrict=off\r
"""


def test_the_monitors_answer_is_read() -> None:
    assert qemu_monitor.parse_network(NETWORK) == [
        ("52:54:00:12:34:56", "ifname=tapA,script=no,downscript=no"),
        ("52:54:00:12:34:57", "fd=29"),
    ]

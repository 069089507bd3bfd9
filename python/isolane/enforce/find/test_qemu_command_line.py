from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.enforce.find.qemu_command_line import (
    CommandLine,
    Wiring,
    read_command_line,
    read_options,
)

# libvirt 9.0.0 with QEMU 7.2.22, recorded; unrelated options are left out.
LIBVIRT = (
    "/usr/bin/qemu-system-x86_64",
    *("-name", "guest=vm1,debug-threads=on", "-S"),
    *("-object", '{"qom-type":"secret","id":"masterKey0","format":"raw"}'),
    *("-uuid", "d39bb87f-ea7f-4b1b-b99f-f36e39659dfd", "-display", "none", "-nodefaults"),
    *("-chardev", "socket,id=charmonitor,fd=26,server=on,wait=off"),
    *("-mon", "chardev=charmonitor,id=monitor,mode=control"),
    *("-netdev", '{"type":"tap","fd":"29","id":"hostnet0"}'),
    "-device",
    '{"driver":"e1000","netdev":"hostnet0","id":"net0","mac":"52:54:00:aa:bb:01","bus":"pci.0"}',
    *("-netdev", '{"type":"tap","fds":"30:31","id":"hostnet1","vhost":true}'),
    "-device",
    '{"driver":"virtio-net-pci","netdev":"hostnet1","id":"net1","mac":"52:54:00:aa:bb:02"}',
    *("-sandbox", "on,obsolete=deny"),
)


def line(*words: str) -> CommandLine:
    return read_command_line(("qemu-system-x86_64", *words))


def test_libvirt_passes_descriptors() -> None:
    assert read_command_line(LIBVIRT) == CommandLine(
        (
            Wiring("52:54:00:aa:bb:01", None, (29,)),
            Wiring("52:54:00:aa:bb:02", None, (30, 31)),
        ),
        (),  # its monitor is a descriptor, and libvirt's own
    )


MAC = "52:54:00:12:34:56"


@pytest.mark.parametrize(
    ("words", "wiring"),
    [
        (f"-nic tap,ifname=t0,mac={MAC},model=e1000".split(), Wiring(MAC, "t0")),
        (["-nic", "tap,model=e1000,script=no"], Wiring(None)),
        (f"-netdev tap,id=a,fd=3 -device virtio-net,netdev=a,mac={MAC.upper()}".split(),
         Wiring(MAC, None, (3,))),
        (f"--device e1000,mac={MAC},netdev=a --netdev bridge,br=br0,id=a".split(), Wiring(MAC)),
        (f"-net nic,macaddr={MAC} -net tap,ifname=t1".split(), Wiring(MAC, "t1")),
        (f"-net nic,netdev=a,macaddr={MAC} -netdev tap,id=a,ifname=t2".split(), Wiring(MAC, "t2")),
        (("-netdev", "tap,id=a,,b,ifname=t3", "-device", "e1000,netdev=a,,b"),
         Wiring(None, "t3")),
    ],
)  # fmt: skip
def test_every_way_to_write_a_tap_is_read(words: tuple[str, ...], wiring: Wiring) -> None:
    assert line(*words).wirings == (wiring,)


@pytest.mark.parametrize(
    "words",
    [
        "-nic user,mac=52:54:00:12:34:56",
        "-netdev user,id=a -device e1000,netdev=a",
        "-netdev vhost-user,id=a,chardev=c -device virtio-net,netdev=a",
        "-netdev tap,id=a,ifname=t0",  # nothing of the guest's is wired to it
        "-device vfio-pci,host=01:10.3",
        "-net nic -net nic -net tap -net tap",  # one hub for four: nobody can say
        "-netdev",
        "",
    ],
)
def test_what_has_no_tap_of_its_own_is_left_out(words: str) -> None:
    assert line(*words.split()).wirings == ()


def test_monitors_are_found_in_each_form() -> None:
    found = line(
        *("-qmp", "unix:/run/a.sock,server=on,wait=off", "-qmp", "tcp:localhost:4444,server"),
        *("-chardev", "socket,id=m,path=/run/b,,c,server=on", "-mon", "chardev=m,mode=control"),
        *("-chardev", "socket,id=h,path=/run/human", "-mon", "chardev=h,mode=readline"),
        *("-qmp-pretty", "unix:d.sock,server"),
    )
    assert found.monitors == ("/run/a.sock", "d.sock", "/run/b,c")


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text("ab,=:/ ", max_size=8), min_size=1
    )
)
def test_options_are_read_as_written(options: dict[str, str]) -> None:
    text = ",".join(f"{key}={value.replace(',', ',,')}" for key, value in options.items())
    assert read_options(text, "type") == options


@given(st.lists(st.text(max_size=30), max_size=8))
def test_no_command_line_breaks_the_reader(words: list[str]) -> None:
    read_command_line(tuple(words))
    read_command_line(("qemu", *(word for one in words for word in ("-netdev", one, "-nic", one))))

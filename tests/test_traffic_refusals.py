"""What cannot be sent or received is refused: one clear message, exit 2, nothing sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import STARVES, background, in_process
from tests.wires import Line, bring_up, inside, ip, plain_line

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TO = ("--to", "198.19.77.2")
RATE = ("--rate", "2kpps", "--duration", "100ms")


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with plain_line(4) as made:
        yield made


WRONG: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "rate without a unit": ((*TO, "-r", "2"), ("'2' has no unit", "pps, kpps, Mpps")),
    "rate in capacities": ((*TO, "-r", "2x"), ("2x", "not measured here")),
    "unknown unit": ((*TO, "-r", "2mpps"), ("'mpps'", "did you mean Mpps?")),
    "no duration": ((*TO, "-r", "2kpps", "-d", "0s"), ("duration: 0",)),
    "frame too short": ((*TO, *RATE, "-s", "63"), ("63 is not in 64 to 1518 bytes",)),
    "frame too long": ((*TO, *RATE, "-s", "1519"), ("1519 is not in 64 to 1518 bytes",)),
    "frame size in words": ((*TO, *RATE, "-s", "big"), ("'big'",)),
    "too short for IPv6": (
        ("--to", "2001:2::9", "--from", "2001:2::1", *RATE),
        ("64 is not in 84 to 1518 bytes", "IPv6"),
    ),
    "too many flows": ((*TO, *RATE, "-f", "100001"), ("100001 is not in 1 to 100000",)),
    "flows beyond any number of addresses": (
        (*TO, *RATE, "-f", "99999999999"), ("99999999999 is not in 1 to 100000",),
    ),
    "flows of a stream beyond any number of addresses": (
        (*TO, "--stream", "rate=1pps flows=99999999999"),
        ("99999999999 is not in 1 to 100000",),
    ),
    "no flows": ((*TO, *RATE, "-f", "0"), ("0 is not in 1 to 100000",)),
    "half a schedule": ((*TO, "--schedule", "5s"), ("'5s'", "DURATION:RATE")),
    "unknown key of a stream": ((*TO, "--stream", "rat=5pps"), ("'rat=5pps'", "rate=")),
    "a stream without a rate": ((*TO, "--stream", "size=100"), ("'size=100'", "no rate")),
    "no such core": ((*TO, *RATE, "--core", "999"), ("--core 999", "accepted: 0")),
    "addresses of two families": ((*TO, *RATE, "--from", "2001:2::1"), ("same IP version",)),
    "no address as source": ((*TO, *RATE, "--from", "1.2.3"), ("--from 1.2.3",)),
    "no address as destination": (("--to", "nowhere", *RATE), ("--to nowhere",)),
    "a zone": (
        ("--to", "::ffff:1.2.3.4%zzz", *RATE), ("--to ::ffff:1.2.3.4%zzz", "has no zone"),
    ),
    "an address mapped into IPv6": (
        ("--to", "::ffff:198.19.77.2", *RATE), ("mapped into IPv6", "accepted: 198.19.77.2"),
    ),
    "a zone in a source": (
        ("--to", "2001:2::9", "--from", "fe80::1%2", *RATE, "-s", "84"), ("--from", "no zone"),
    ),
    "no address of a stream": ((*TO, "--stream", "to=nowhere rate=1kpps"), ("nowhere",)),
    "longer than a year": ((*TO, "-r", "1pps", "-d", "99999999999h"), ("8760h",)),
    "flows in other digits": ((*TO, "--stream", "rate=1pps flows=²"), ("whole number",)),
    "no MAC address": ((*TO, *RATE, "--mac", "zz"), ("--mac zz", "02:00:00:00:00:01")),
    "no address of that family": (
        ("--to", "2001:2::9", *RATE, "-s", "84"), ("has no IPv6 address", "--from"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_values_are_refused_before_the_first_frame(name: str, line: Line) -> None:
    options, words = WRONG[name]
    mac = () if "--mac" in options else ("--mac", line.mac)
    refuse(line, "generate", line.gen, "--netns", line.gen_netns, *mac, *options, words=words)


def refuse(line: Line, *arguments: str, words: tuple[str, ...]) -> None:
    before = line.sent()
    done = in_process(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    warned, _, message = done.stderr.rpartition("isolane: error: ")
    assert not warned or STARVES.fullmatch(warned), warned
    assert message.count("\n") == 1, "one message in one line"
    assert all(word in message for word in words), done.stderr
    assert line.sent() == before


def test_a_rate_has_to_be_named_once(line: Line) -> None:
    for rates in ((), ("--rate", "1kpps", "--flow-rate", "1pps")):
        done = in_process("generate", line.gen, "--netns", line.gen_netns, *TO, *rates)
        assert done.returncode == 2
        assert "give one of --rate, --flow-rate and --schedule" in done.stderr


def test_unknown_interfaces_and_namespaces_are_named(line: Line) -> None:
    send = (*TO, *RATE, "--mac", line.mac)
    words = ("nope: there is no such interface", line.gen)
    refuse(line, "generate", "nope", "--netns", line.gen_netns, *send, words=words)
    words = ("--netns nope", "/run/netns/nope")
    refuse(line, "generate", line.gen, "--netns", "nope", *send, words=words)
    words = ("/proc/self/status", "not a network namespace")
    refuse(line, "receive", line.rcv, "--netns", "/proc/self/status", words=words)
    words = ("nope: there is no such interface", line.rcv)
    refuse(line, "receive", "nope", "--netns", line.rcv_netns, words=words)


def test_an_unknown_next_hop_is_asked_for(line: Line) -> None:
    words = ("MAC address of 198.19.77.2 is not known", "--mac")
    refuse(line, "generate", line.gen, "--netns", line.gen_netns, *TO, *RATE, words=words)


def test_a_destination_has_to_be_named_for_each_stream(line: Line) -> None:
    streams = ("--stream", "to=198.19.77.2 rate=1kpps", "--stream", "rate=1kpps")
    before = line.sent()
    done = in_process("generate", line.gen, "--netns", line.gen_netns, *streams)
    assert done.returncode == 2
    assert "give a destination: --to ADDRESS, or to=ADDRESS in each --stream" in done.stderr
    assert line.sent() == before


def test_an_interface_that_refuses_frames_is_called_by_its_name(line: Line) -> None:
    inside(line.rcv_netns, "ethtool", "-K", line.rcv, "gro", "off")
    try:
        words = (f"interface: {line.gen} is not possible", "gro on")
        send = (*TO, *RATE, "--mac", line.mac)
        refuse(line, "generate", line.gen, "--netns", line.gen_netns, *send, words=words)
    finally:
        inside(line.rcv_netns, "ethtool", "-K", line.rcv, "gro", "on")


def test_an_interface_that_is_taken_is_called_by_its_name(line: Line, tmp_path: Path) -> None:
    with background(tmp_path, "receive", line.rcv, "--netns", line.rcv_netns) as first:
        first.until(lambda: "receiving on" in first.stderr)
        done = in_process("receive", line.rcv, "--netns", line.rcv_netns, "--duration", "1s")
    assert done.returncode == 1
    assert f"cannot attach a program to interface {line.rcv}: another XDP program" in done.stderr


@pytest.mark.parametrize("duration", ["0s", "", "0.5ms", "99999999999h"])
def test_a_receiver_is_given_a_time_that_it_can_keep(line: Line, duration: str) -> None:
    words = ("--duration",)
    refuse(line, "receive", line.rcv, "--netns", line.rcv_netns, "-d", duration, words=words)


def test_an_interface_that_is_down_is_named(line: Line) -> None:
    ip("-n", line.gen_netns, "link", "set", line.gen, "down")
    try:
        words = (f"{line.gen} is down", "ip link set")
        send = (*TO, *RATE, "--mac", line.mac)
        refuse(line, "generate", line.gen, "--netns", line.gen_netns, *send, words=words)
    finally:
        bring_up((line.gen_netns, line.gen), (line.rcv_netns, line.rcv))

from __future__ import annotations

from ipaddress import ip_address

import pytest

from isolane.external.neighbours import internet_checksum
from isolane.external.probe_frames import Probe

OURS_IN, OURS_OUT = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
ROUTER_IN, ROUTER_OUT = "52:54:00:00:00:01", "52:54:00:00:00:02"
TOKEN = b"isolane 0123456789abcdef"
ADDRESSES = {4: ("192.0.2.2", "198.51.100.2"), 6: ("2001:db8::2", "2001:db8:1::2")}


def probe(version: int) -> Probe:
    source, to = map(ip_address, ADDRESSES[version])
    return Probe(source_mac=OURS_IN, router_mac=ROUTER_IN, source=source, to=to, token=TOKEN)


def forwarded(frame: bytes, version: int) -> bytearray:
    """What a router makes of it."""
    new = bytearray.fromhex((OURS_OUT + ROUTER_OUT).replace(":", "")) + frame[12:]
    new[22 if version == 4 else 21] -= 1
    return new if version == 6 else summed(new)


def summed(frame: bytearray) -> bytearray:
    frame[24:26] = bytes(2)
    frame[24:26] = internet_checksum(bytes(frame[14:34])).to_bytes(2, "big")
    return frame


def changes(frame: bytearray, version: int) -> tuple[str, ...]:
    return probe(version).changes(bytes(frame), from_mac=ROUTER_OUT, to_mac=OURS_OUT)


@pytest.mark.parametrize("version", [4, 6])
def test_a_router_may_take_hops_and_write_macs(version: int) -> None:
    sent = probe(version).frame()
    frame = forwarded(sent, version)
    assert changes(frame, version) == ()
    assert (probe(version).hops(sent), probe(version).hops(bytes(frame))) == (0, 1)
    assert changes(forwarded(bytes(frame), version), version) == ()


@pytest.mark.parametrize(
    ("version", "at", "words"),
    [
        (4, 15, "TOS byte (DSCP) is 0x01, not 0x00"),
        (4, 29, "source address is 192.0.2.3, not 192.0.2.2"),
        (4, 33, "destination address is 198.51.100.3, not 198.51.100.2"),
        (4, 35, "source port is 1022, not 1023"),
        (4, 37, "destination port is 8, not 9"),
        (4, 19, "identification is 0x0001, not 0x0000"),
        (6, 15, "traffic class and flow label is 0x60010000, not 0x60000000"),
        (6, 37, "source address is 2001:db8::3, not 2001:db8::2"),
        (6, 57, "destination port is 8, not 9"),
        (6, 61, "UDP checksum is"),
        (4, 11, "source MAC address is 52:54:00:00:00:03, not 52:54:00:00:00:02"),
        (6, 5, "destination MAC address is 02:00:00:00:00:0a, not 02:00:00:00:00:0b"),
    ],
)
def test_all_else_is_named(version: int, at: int, words: str) -> None:
    frame = forwarded(probe(version).frame(), version)
    frame[at] ^= 1
    if version == 4:
        summed(frame)
    (found,) = changes(frame, version)
    assert words in found


def test_a_wrong_checksum_of_the_header_is_named() -> None:
    frame = forwarded(probe(4).frame(), 4)
    frame[24] ^= 1
    assert changes(frame, 4) == ("its header's checksum is wrong",)


@pytest.mark.parametrize("version", [4, 6])
def test_its_frame_has_right_checksums(version: int) -> None:
    frame = probe(version).frame()
    at = 34 if version == 4 else 54
    length = len(frame) - at
    addresses = frame[26:34] if version == 4 else frame[22:54]
    pseudo = addresses + bytes([0, 0, length >> 8, length & 255, 0, 0, 0, 17])
    assert internet_checksum(pseudo + frame[at:]) == 0
    assert len(frame) >= 60


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        (4, 3, "destination unreachable (code 1)"),
        (4, 11, "time exceeded (code 1)"),
        (6, 1, "destination unreachable (code 1)"),
        (4, 77, "ICMP type 77 (code 1)"),
    ],
)
def test_an_icmp_error_is_understood(version: int, kind: int, words: str) -> None:
    sent = probe(version)
    frame = bytearray(sent.frame())
    head = frame[: 34 if version == 4 else 54]
    head[23 if version == 4 else 20] = 1 if version == 4 else 58
    error = bytes(head) + bytes([kind, 1, 0, 0, 0, 0, 0, 0]) + sent.frame()[14:]
    assert sent.is_in(error)
    assert sent.complaint(error) == words
    assert sent.complaint(sent.frame()) is None

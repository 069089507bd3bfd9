from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.external.neighbours import (
    answer,
    internet_checksum,
    question,
    solicited_node_mac,
    told,
)
from isolane.spec.host_addresses import Address

ROUTER_MAC, OWN_MAC = "52:54:00:00:00:01", "02:00:00:00:00:09"
PAIRS = (
    (IPv4Address("192.0.2.1"), IPv4Address("192.0.2.2")),
    (IPv6Address("2001:db8::1"), IPv6Address("2001:db8::2")),
)


@pytest.mark.parametrize(("router", "own"), PAIRS)
def test_who_asks_for_our_address_is_told_our_mac(router: Address, own: Address) -> None:
    asked = question(own, own=router, mac=ROUTER_MAC)
    reply = answer(asked, {own}, OWN_MAC)
    assert reply is not None
    assert told(reply) == (own, OWN_MAC)
    assert reply[:6] == bytes.fromhex(ROUTER_MAC.replace(":", ""))


@pytest.mark.parametrize(("router", "own"), PAIRS)
def test_nobody_is_told_about_an_address_that_is_not_ours(router: Address, own: Address) -> None:
    assert answer(question(router, own=own, mac=OWN_MAC), {own}, OWN_MAC) is None


@pytest.mark.parametrize(("router", "own"), PAIRS)
def test_questions_are_no_answers_and_answers_are_no_questions(
    router: Address, own: Address
) -> None:
    asked = question(own, own=router, mac=ROUTER_MAC)
    reply = answer(asked, {own}, OWN_MAC)
    assert reply is not None
    assert told(asked) is None
    assert answer(reply, {own, router}, OWN_MAC) is None


def test_an_arp_question_is_what_rfc_826_says() -> None:
    frame = question(PAIRS[0][0], own=PAIRS[0][1], mac=OWN_MAC)
    link = "ffffffffffff 020000000009 0806"
    arp = "0001 0800 06 04 0001 020000000009 c0000202 000000000000 c0000201"
    assert frame == bytes.fromhex(link + arp).ljust(60, b"\0")


def test_a_question_of_neighbour_discovery_goes_to_the_solicited_node() -> None:
    router, own = IPv6Address("2001:db8::12:3456"), PAIRS[1][1]
    frame = question(router, own=own, mac=OWN_MAC)
    assert solicited_node_mac(router) == "33:33:ff:12:34:56"
    assert frame[:6].hex(":") == "33:33:ff:12:34:56"
    assert IPv6Address(frame[38:54]) == IPv6Address("ff02::1:ff12:3456")
    assert frame[21] == 255


def test_whoever_looks_for_a_duplicate_of_our_address_is_told_by_multicast() -> None:
    own = PAIRS[1][1]
    asked = question(own, own=IPv6Address("::"), mac=ROUTER_MAC)
    reply = answer(asked, {own}, OWN_MAC)
    assert reply is not None
    assert reply[:6].hex(":") == "33:33:00:00:00:01"
    assert IPv6Address(reply[38:54]) == IPv6Address("ff02::1")


@pytest.mark.parametrize("at", [15, 21, 55, 60, 70])
def test_a_damaged_question_is_not_answered(at: int) -> None:
    own = PAIRS[1][1]
    asked = bytearray(question(own, own=PAIRS[1][0], mac=ROUTER_MAC))
    assert answer(bytes(asked), {own}, OWN_MAC) is not None
    asked[at] ^= 1
    damaged = answer(bytes(asked), {own}, OWN_MAC)
    assert (damaged is None) == (at != 15)  # the traffic class is not in the checksum


@given(st.binary(max_size=200), st.sampled_from([b"\x08\x06", b"\x86\xdd", b""]))
def test_no_frame_is_too_strange(content: bytes, kind: bytes) -> None:
    frame = bytes(12) + kind + content
    answer(frame, {own for _, own in PAIRS}, OWN_MAC)
    assert told(frame) is None or len(frame) >= 42


@given(st.binary(max_size=300))
def test_the_checksum_over_its_own_is_zero(data: bytes) -> None:
    even = data + bytes(len(data) & 1)
    assert internet_checksum(even + internet_checksum(even).to_bytes(2, "big")) == 0

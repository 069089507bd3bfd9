from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.errors import SpecError
from isolane.spec import Load, parse_rate
from isolane.spec.patterns import read_pattern
from isolane.trials.live.plans import (
    Segment,
    StreamPlan,
    frame_sizes,
    parse_schedule,
    parse_stream,
)
from isolane.trials.live.target import Header, check_header
from isolane.trials.live.traffic import Sending, Target, describe, host_cookie, native_streams

SECOND = 1_000_000_000
TARGET = Target(1, "02:00:00:00:00:01", "02:00:00:00:00:02", "198.18.0.2", "198.19.0.2")


def constant(rate: str, seconds: float = 10) -> tuple[Segment, ...]:
    load = parse_rate(rate)
    return (Segment(round(seconds * SECOND), load, load),)


DEFAULT = StreamPlan(constant("1kpps"), "64", 1)


def test_a_stream_has_a_pattern_of_its_own() -> None:
    stream = parse_stream("pattern=bursts:1ms/5ms+fragments", DEFAULT)
    assert stream.pattern == read_pattern("bursts 1ms/5ms+fragments")
    assert parse_stream("size=128", stream).pattern == stream.pattern
    assert len(native_streams([stream], [TARGET])) == 1
    for text, words in (
        ("ramp", "0pps-1Mpps"),
        ("from:1s", "5s:0pps"),
        ("to-router", "destination"),
        ("x", "not known"),
    ):
        with pytest.raises(SpecError, match=words):
            parse_stream(f"pattern={text}", DEFAULT)


def test_steps_and_ramps_are_read() -> None:
    steps = parse_schedule("5s:100kpps, 10s:100kpps-1Mpps,500ms:0pps")
    assert steps == (
        Segment(5 * SECOND, Load(1e5, "pps"), Load(1e5, "pps")),
        Segment(10 * SECOND, Load(1e5, "pps"), Load(1e6, "pps")),
        Segment(SECOND // 2, Load(0, "pps"), Load(0, "pps")),
    )


@given(st.lists(st.tuples(st.integers(1, 10**6), *[st.integers(0, 10**6)] * 2), min_size=1))
def test_any_schedule_is_read_as_written(parts: list[tuple[int, int, int]]) -> None:
    text = ",".join(f"{ms}ms:{a}pps-{b}pps" for ms, a, b in parts)
    assert parse_schedule(text) == tuple(
        Segment(ms * 1_000_000, Load(a, "pps"), Load(b, "pps")) for ms, a, b in parts
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "''"),
        ("5s", "'5s'"),
        ("5s:1kpps,", "''"),
        ("5:1kpps", "has no unit"),
        ("5s:1", "has no unit"),
        ("5s:1kpps-2", "has no unit"),
        ("5s:fast", "'fast'"),
    ],
)
def test_what_is_no_schedule_is_named(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_schedule(text)


def test_a_stream_has_the_defaults_but_for_what_it_says() -> None:
    assert parse_stream("size=1518", DEFAULT) == StreamPlan(DEFAULT.schedule, "1518", 1)
    assert parse_stream("rate=5kpps; flows=7", DEFAULT) == StreamPlan(constant("5kpps"), "64", 7)
    each = parse_stream("flow-rate=5pps flows=7 size=imix", DEFAULT)
    assert each == StreamPlan(constant("5pps"), "imix", 7, per_flow=True)
    ramp = parse_stream("schedule=1s:1kpps,2s:1kpps-2kpps", DEFAULT)
    assert ramp.schedule == parse_schedule("1s:1kpps,2s:1kpps-2kpps")


def test_a_stream_can_have_headers_of_its_own() -> None:
    default = StreamPlan(DEFAULT.schedule, to="198.19.0.2", source="198.18.0.2")
    other = parse_stream("to=2001:2::2 from=2001:2::1 mac=02:00:00:00:00:03 size=84", default)
    assert (other.to, other.source, other.mac) == ("2001:2::2", "2001:2::1", "02:00:00:00:00:03")
    same = parse_stream("size=100", default)
    assert (same.to, same.source, same.mac) == ("198.19.0.2", "198.18.0.2", None)


def test_each_stream_goes_to_its_own_target() -> None:
    six = Target(1, "02:00:00:00:00:01", "02:00:00:00:00:09", "2001:2::1", "2001:2::2")
    plans = [StreamPlan(constant("1kpps")), StreamPlan(constant("1kpps"), "84")]
    assert len(native_streams(plans, [TARGET, six])) == 2
    with pytest.raises(SpecError, match="64 is not in 84 to 1518 bytes"):
        native_streams(plans, [six, TARGET])
    with pytest.raises(SpecError, match="257 of them; accepted: up to 256"):
        native_streams([plans[0]] * 257, [TARGET] * 257)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate", "'rate'"),
        ("colour=red", "'colour=red'"),
        ("flows=many", "'many'"),
        ("flows=-1", "'-1'"),
        ("rate=5", "no unit"),
        ("rate=", "''"),
        ("flows=²", "'²'"),
        ("flows=9x", "whole number"),
        ("rate=1kpps rate=2kpps", "rate= twice"),
        ("rate=1kpps schedule=1s:1kpps", "rate= and schedule="),
    ],
)
def test_what_is_no_stream_is_named(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        parse_stream(text, DEFAULT)


def test_a_stream_that_would_send_nothing_is_refused() -> None:
    silent = StreamPlan(constant("0pps"), "64", 1)
    with pytest.raises(SpecError, match="has no rate"):
        parse_stream("size=100", silent)
    assert parse_stream("rate=1pps", silent).schedule == constant("1pps")


@pytest.mark.parametrize(
    ("text", "address", "sizes"),
    [
        ("64", "198.19.0.2", ((64, 1),)),
        ("1518", "198.19.0.2", ((1518, 1),)),
        ("84", "2001:2::2", ((84, 1),)),
        ("imix", "198.19.0.2", ((64, 7), (594, 4), (1518, 1))),
        ("imix", "2001:2::2", ((84, 7), (594, 4), (1518, 1))),
    ],
)
def test_frame_sizes(text: str, address: str, sizes: tuple[tuple[int, int], ...]) -> None:
    assert frame_sizes(text, address) == sizes


@pytest.mark.parametrize(
    ("text", "address"),
    [("63", "198.19.0.2"), ("83", "2001:2::2"), ("1519", "198.19.0.2"), ("", "198.19.0.2"),
     ("-64", "198.19.0.2"), ("IMIX", "198.19.0.2")],
)  # fmt: skip
def test_other_frame_sizes_are_refused(text: str, address: str) -> None:
    with pytest.raises(SpecError, match="frame size"):
        frame_sizes(text, address)


@pytest.mark.parametrize(
    "plan",
    [
        StreamPlan(constant("1x"), "64", 1),
        StreamPlan(constant("1kpps"), "64", 0),
        StreamPlan(constant("1kpps"), "64", 100_001),
    ],
)
def test_streams_out_of_range_are_refused(plan: StreamPlan) -> None:
    with pytest.raises(SpecError):
        native_streams([plan], [TARGET])


def test_the_line_is_not_overbooked_by_all_streams_together() -> None:
    line = Target(**{**vars(TARGET), "line_bps": 1e9})
    half = StreamPlan(constant("744kpps"))  # with 20 bytes of preamble and gap: 500 Mbit/s
    assert len(native_streams([half, half], [line] * 2)) == 2
    with pytest.raises(SpecError, match=r"1\.5 Gbit/s of a 1 Gbit/s line"):
        native_streams([half, half, half], [line] * 3)
    # Rates of flows are added up; a ramp counts with its highest point.
    with pytest.raises(SpecError, match="line"):
        native_streams([StreamPlan(constant("1kpps"), "64", 1500, per_flow=True)], [line])
    ramp = (Segment(SECOND, Load(0, "pps"), Load(2e6, "pps")),)
    with pytest.raises(SpecError, match="line"):
        native_streams([StreamPlan(ramp)], [line])


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (Header("198.19.0.2", source="2001:2::1"), "same IP version"),
        (Header("198.19.0.2", source="1.2.3"), r"--from 1\.2\.3: not an IP address"),
        (Header("nowhere"), "--to nowhere: not an IP address"),
        (Header(""), "--to : not an IP address"),
        (Header("fe80::1%eth0"), r"--to fe80::1%eth0: a header has no zone; accepted: fe80::1$"),
        (Header("::ffff:1.2.3.4%zzz"), "a header has no zone; accepted: ::ffff:1.2.3.4$"),
        (Header("::ffff:1.2.3.4"), r"mapped into IPv6 .*; accepted: 1\.2\.3\.4$"),
        (Header("2001:2::2", source="::ffff:1.2.3.4"), "--from ::ffff:1.2.3.4: .* mapped"),
        (Header("2001:2::2", source="fe80::1%2"), "--from fe80::1%2: a header has no zone"),
        (Header("0.0.0.0"), r"--to 0\.0\.0\.0: stands for no address"),
        (Header("::"), "--to ::: stands for no address"),
        (Header("198.19.0.2", mac="zz"), "--mac zz: not a MAC address"),
        (Header("198.19.0.2", mac=""), "--mac : not a MAC address"),
    ],
)
def test_what_cannot_stand_in_a_header_is_refused(header: Header, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_header(header)


@pytest.mark.parametrize("to", ["198.19.0.2", "2001:2::2", "64:ff9b::1.2.3.4", "ff02::1"])
def test_other_addresses_can(to: str) -> None:
    check_header(Header(to))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (StreamPlan(constant("1kpps", 0)), "duration: 0"),
        (StreamPlan(constant("1kpps", 4e8)), "longer than a year"),
    ],
)
def test_nothing_is_loaded_for_what_cannot_be_sent(plan: StreamPlan, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Sending((plan,), (TARGET,), 0)


def test_the_mark_of_this_host_stays_the_same() -> None:
    assert host_cookie() == host_cookie()
    assert 0 <= host_cookie() < 1 << 16


def test_the_audit_in_words() -> None:
    one: dict[str, Any] = {
        "to": "198.19.0.2", "sent": 999, "scheduled": 1000, "rate_pps": 9990.0,
        "rate_error": -0.001,
    }  # fmt: skip
    report: dict[str, Any] = {
        "frames": 999, "scheduled": 1000, "seconds": 0.1, "rate_pps": 9990.0, "rate_error": -0.001,
        "departure_error_ns": {"p50_ns": 120.5, "p99_ns": 1000.2, "max_ns": 1234},
        "streams": [one],
    }  # fmt: skip
    assert describe(report) == (
        "sent 999 of 1000 frames in 0.100 s: 9.99 kpps (-0.1000 %)\n"
        "departure error: p50 120 ns, p99 1000 ns, max 1234 ns"
    )
    report["departure_error_ns"] = {"p50_ns": None, "p99_ns": None, "max_ns": 0}
    assert "departure error: no frames" in describe(report)
    report["streams"] = [one, {**one, "to": "2001:2::2"}]
    assert describe(report).splitlines()[2:] == [
        "stream 0 to 198.19.0.2: sent 999 of 1000 frames: 9.99 kpps (-0.1000 %)",
        "stream 1 to 2001:2::2: sent 999 of 1000 frames: 9.99 kpps (-0.1000 %)",
    ]

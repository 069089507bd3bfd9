from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.errors import SpecError
from isolane.spec.quantities import Quantity, read_quantity
from isolane.spec.units import (
    Load,
    RateUnit,
    format_bps,
    format_duration_ns,
    format_ns,
    format_pps,
    format_rate,
    parse_duration_ns,
    parse_rate,
    read_load,
    wire_bps,
)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("400kpps", 400e3, "pps"),
        ("400 kpps", 400e3, "pps"),
        ("1.488095Mpps", 1_488_095.0, "pps"),
        ("1e6pps", 1e6, "pps"),
        ("0x", 0.0, "x"),
        ("0.27x", 0.27, "x"),
        ("20Mbps", 20e6, "bps"),
        ("10Gbps", 10e9, "bps"),
        ("0.1kpps", 100.0, "pps"),  # 0.1 * 1000 would not be exact in binary
    ],
)
def test_rates_are_read(text: str, value: float, unit: RateUnit) -> None:
    assert parse_rate(text) == Load(value, unit)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("400", "'400' has no unit"),
        ("400kp", "did you mean kpps?"),
        ("5mbps", "did you mean Mbps?"),
        ("-1x", "is not a rate"),
        ("nanx", "is not a rate"),
        ("1e999x", "is not a rate"),
        ("1e99x", "too large"),
        ("1e-9x", "too small"),
        ("2000Gbpps", "unit 'Gbpps' of '2000Gbpps' is not known; accepted: a number with a unit"),
        ("", "'' is not a rate"),
        ("1.2.3x", "is not a rate"),
    ],
)
def test_other_rates_are_refused(text: str, part: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_rate(text)
    assert part in str(error.value)


def test_the_generators_maximum_is_a_load_and_no_rate() -> None:
    found = read_load("max")
    assert (str(found), found.unit) == ("max", "max")
    assert read_load("0.5x") == parse_rate("0.5x")
    with pytest.raises(SpecError, match="max"):
        parse_rate("max")
    with pytest.raises(ValueError, match="no meaning"):
        found.to_pps(1e6, 64.0)


@given(
    st.floats(1e-6, 1e9) | st.just(0.0) | st.integers(1, 10**9).map(float),
    st.sampled_from(("pps", "bps", "x")),
)
def test_writing_and_reading_rates_are_inverse(value: float, unit: RateUnit) -> None:
    load = Load(min(value, 1000.0) if unit == "x" else value, unit)
    assert parse_rate(format_rate(load)) == load


@given(st.integers(0, 10**15))
def test_writing_and_reading_durations_are_inverse(duration_ns: int) -> None:
    assert parse_duration_ns(format_duration_ns(duration_ns)) == duration_ns


@pytest.mark.parametrize(
    ("text", "ns"),
    [("500ms", 500_000_000), ("1.5s", 1_500_000_000), ("20us", 20_000), ("20µs", 20_000)],
)
def test_durations_are_read(text: str, ns: int) -> None:
    assert parse_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["5", "5 minutes", "0.5ns", "-5s", "s", "5kpps"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="accepted: a number with a unit"):
        parse_duration_ns(text)


@given(st.text())
def test_no_text_leads_to_another_error(text: str) -> None:
    for parse in (parse_rate, parse_duration_ns):
        with contextlib.suppress(SpecError):
            parse(text)


def test_rates_in_packets_per_second() -> None:
    assert Load(400e3, "pps").to_pps(None, 64) == 400e3
    assert Load(512e6, "bps").to_pps(None, 64) == pytest.approx(1e6)  # 64 bytes are 512 bits
    assert Load(0.5, "x").to_pps(700e3, 64) == pytest.approx(350e3)
    with pytest.raises(ValueError, match="capacity"):
        Load(0.5, "x").to_pps(None, 64)


def test_gigabit_ethernet_carries_1488095_smallest_frames() -> None:
    # RFC 2544 and everybody since: 10^9 / ((64 + 20) * 8)
    assert wire_bps(1_488_095, 64) == pytest.approx(1e9, rel=1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (712_345.0, "712 kpps"),
        (1_488_095.0, "1.49 Mpps"),
        (999_900.0, "1 Mpps"),
        (999.0, "999 pps"),
        (0.0, "0 pps"),
        (0.25, "0.25 pps"),
        (None, "n/a"),
        (math.nan, "n/a"),
        (math.inf, "inf pps"),
    ],
)
def test_packet_rates_for_people(value: float | None, text: str) -> None:
    assert format_pps(value) == text


def test_other_figures_for_people() -> None:
    assert format_bps(9.41e9) == "9.41 Gbps"
    assert format_ns(85_340) == "85.3 µs"
    assert format_ns(1.5e9) == "1.5 s"


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("61%", 0.61, "ratio"),
        ("400kpps", 400e3, "pps"),
        ("85us", 85e3, "ns"),
        ("0.5x", 0.5, "x"),
        ("0kpps", 0.0, "pps"),
    ],
)
def test_published_figures_are_read_and_written(text: str, value: float, unit: str) -> None:
    quantity = read_quantity(text)
    assert (quantity.value, quantity.unit) == (value, unit)
    assert read_quantity(str(quantity)) == quantity


@given(st.floats(0, 9e4).map(lambda value: float(f"{value:.9f}")))
def test_writing_and_reading_percentages_are_inverse(value: float) -> None:
    quantity = Quantity(value, "ratio")
    assert read_quantity(str(quantity)) == quantity

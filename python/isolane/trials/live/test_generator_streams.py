from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane import _native
from isolane.results.priming import Priming
from isolane.spec import IMIX, Load, PointRouter, Traffic
from isolane.spec.demands import Demand
from isolane.spec.fields import Mode
from isolane.spec.patterns import read_pattern
from isolane.testbed import Wire
from isolane.trials.backend import Setting
from isolane.trials.live import generator_streams
from isolane.trials.live.generator_streams import LATE_NS, size_cycle

weights = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(weights)
def test_a_cycle_has_each_size_as_often_as_its_weight(parts: list[int]) -> None:
    sizes = [(64 + i, weight) for i, weight in enumerate(parts)]
    assert Counter(size_cycle(sizes)) == dict(sizes)


@given(weights)
def test_no_size_is_ever_far_from_its_share(parts: list[int]) -> None:
    sizes = [(64 + i, weight) for i, weight in enumerate(parts)]
    cycle = size_cycle(sizes)
    for end in range(1, len(cycle) + 1):
        for size, weight in sizes:
            share = weight * end / len(cycle)
            assert abs(cycle[:end].count(size) - share) < len(parts)


def test_imix_is_spread() -> None:
    cycle = size_cycle(IMIX)
    assert len(cycle) == 12
    assert Counter(cycle) == {64: 7, 594: 4, 1518: 1}
    largest_run = max(cycle.index(594), 3)
    assert largest_run <= 3, "the small frames do not come in one block"
    assert sum(cycle) / 12 == 4342 / 12


def test_one_size_is_a_cycle_of_one() -> None:
    assert size_cycle(((64, 1),)) == [64]


WIRE = Wire(
    router="one", gen_netns="/gen", gen_ifindex=1, gen_ifname="g", src_mac="02:00:00:00:00:01",
    dst_mac="02:00:00:00:00:02", src_ip="198.18.0.2", src_count=200, dst_ip="198.19.0.2",
    router_ip="198.18.0.1", rcv_netns="/rcv", rcv_ifindex=2, rcv_ifname="r",
)  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "router_ip", "asked"),
    [
        ("forward", "198.18.0.1", ("198.18.0.2", 200, "198.19.0.2", 9, False)),
        ("echo", "198.18.0.1", ("198.19.0.2", 1, "198.18.0.1", 7, False)),
        ("icmp-echo", "198.18.0.1", ("198.19.0.2", 1, "198.18.0.1", 7, True)),
        # On a wire without a router there is nobody to ask.
        ("icmp-echo", "", ("198.18.0.2", 200, "198.19.0.2", 7, True)),
    ],
)
def test_requests_come_from_the_receiver_and_are_for_the_router(
    mode: Mode, router_ip: str, asked: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, object] = {}
    monkeypatch.setattr(_native, "Stream", lambda **keys: made.update(keys))
    router = PointRouter("one", "one", "victim", Load(1000, "pps"), mode=mode)
    wire = replace(WIRE, router_ip=router_ip)
    generator_streams.stream(Demand(router, 1000.0, None), wire, Traffic(), [])
    keys = ("src_ip", "src_count", "dst_ip", "first_dport", "icmp")
    assert tuple(made[key] for key in keys) == asked


@pytest.mark.native
@pytest.mark.parametrize("primed_ns", [0, 30_000_000])
def test_a_warm_up_may_begin_with_another_load(
    primed_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each router gets its share of that load, as of its own."""
    sent: list[list[_native.Segment]] = []
    monkeypatch.setattr(_native, "Stream", lambda **keys: sent.append(keys["segments"]))
    demands = tuple(
        Demand(PointRouter(name, name, "victim", Load(pps, "pps")), pps, None)
        for name, pps in (("one", 1_000.0), ("two", 3_000.0))
    )
    priming = Priming(offered_pps=16_000.0, duration_ns=primed_ns) if primed_ns else None
    setting = Setting(demands, 50_000_000, 100_000_000, priming=priming)
    trial = generator_streams.trial_of(
        setting, (WIRE, WIRE), (Traffic(), Traffic()), core=0, cookie=1, bin_ns=1_000_000
    )
    assert (trial["window_start_ns"], trial["window_end_ns"]) == (50_000_000, 150_000_000)
    own_ns = 150_000_000 + LATE_NS - primed_ns
    for segments, own, before in zip(sent, (1e6, 3e6), (4e6, 12e6), strict=True):
        found = [
            (each.duration_ns, each.start_rate_millipps, each.end_rate_millipps)
            for each in segments
        ]
        assert found == [(primed_ns, before, before)] * bool(primed_ns) + [(own_ns, own, own)]


@pytest.mark.native
@pytest.mark.parametrize(
    ("pattern", "window_ns", "rates"),
    [
        # Over the window, 0.1 to 0.3 s, the mean is 1,000 frames a second in each of them.
        ("constant", (100, 300), [(300, 1_000, 1_000)]),
        ("ramp", (100, 300), [(300, 0, 1_500)]),
        # A window that is over before the time.
        ("from 200ms", (100, 300), [(300, 1_000, 1_000)]),
    ],
)
def test_the_load_is_the_mean_of_the_window(
    pattern: str, window_ns: tuple[int, int] | None, rates: list[tuple[int, float, float]]
) -> None:
    router = PointRouter("one", "one", "victim", Load(1000, "pps"), pattern=read_pattern(pattern))
    window = tuple(ms * 1_000_000 for ms in window_ns) if window_ns else None
    segments = generator_streams.segments_of(
        Demand(router, 1000.0, None),
        300_000_000,
        window,  # type: ignore[arg-type]
    )
    found = [
        (each.duration_ns / 1e6, each.start_rate_millipps / 1e3, each.end_rate_millipps / 1e3)
        for each in segments
    ]
    assert found == rates


@pytest.mark.native
@pytest.mark.parametrize(("window_ms", "from_ms"), [((100, 300), 50), ((0, 300), 150)])
def test_a_late_load_begins_in_each_trial_at_another_moment(
    window_ms: tuple[int, int], from_ms: int
) -> None:
    pattern = read_pattern(f"from {from_ms}ms")
    router = PointRouter("one", "one", "victim", Load(1000, "pps"), pattern=pattern)
    begin_ns, end_ns = (ms * 1_000_000 for ms in window_ms)
    starts = set()
    for trial in range(20):
        silent, sending = generator_streams.segments_of(
            Demand(router, 1000.0, None), 300_000_000, (begin_ns, end_ns), f"{trial}"
        )
        assert silent.start_rate_millipps == silent.end_rate_millipps == 0
        assert silent.duration_ns + sending.duration_ns == 300_000_000
        assert sending.start_rate_millipps == sending.end_rate_millipps
        frames = sending.start_rate_millipps / 1e3 * sending.duration_ns / 1e9
        assert frames == pytest.approx(1000 * (end_ns - begin_ns) / 1e9, rel=1e-5), "the mean"
        late_ns = silent.duration_ns - begin_ns - from_ms * 1_000_000
        assert 0 <= late_ns <= (end_ns - begin_ns - from_ms * 1_000_000) / 100
        starts.add(late_ns)
    assert len(starts) == 20

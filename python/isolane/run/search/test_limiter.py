"""Searches behind shapers and policers whose bucket and queue hide an overload for a while."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from isolane.results.folder import RunFolder
from isolane.results.results import DropPoint
from isolane.run.search import Searched, SearchOptions
from isolane.run.search.limiter import MAX_NS, suspected
from isolane.run.search.test_generator_limits import core
from isolane.run.search.test_search import LIMIT_PPS, ArithmeticBench, Host, load_of, rates, search
from isolane.run.search.trial_measurer import Tried
from isolane.spec import Arm, PointRouter
from isolane.trials.backend import Bench, Observation, Setting

POLICER, LONG_QUEUE = 0, 2_000


@dataclass
class Limited(Host):
    """A router behind a token bucket, which is full when a trial begins."""

    bucket: float = 0.0
    """Frames."""
    queue: int = POLICER
    """Frames."""
    core_pps: float | None = 3e6
    """What its core can drop or forward, frames/s; None: nobody measures it."""
    crowded: bool = False
    """Whether a process of others takes all time that is left."""

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        yield LimitedBench(self, arm.name, [router.name for router in routers])


class LimitedBench(ArithmeticBench):
    host: Limited

    def trial(self, setting: Setting) -> Observation:
        host, load, state = self.host, load_of(setting), self.host.bucket
        warmup_ns = setting.warmup_ns
        if setting.priming:
            primed_ns = setting.priming.duration_ns
            state, _ = self.after(state, setting.priming.offered_pps, primed_ns)
            warmup_ns -= primed_ns
        state, _ = self.after(state, load, warmup_ns)
        _, lost = self.after(state, load, setting.window_ns)
        passed_pps = load - lost / (setting.window_ns / 1e9)
        host.forwards = lambda _load: passed_pps
        if host.core_pps is not None:
            left = max(0.0, 1 - load / host.core_pps)
            host.cores = (core(left * host.crowded, left * (not host.crowded)),)
        seen = super().trial(setting)
        host.now_s += warmup_ns / 1e9
        if host.core_pps is not None:
            return seen
        return Observation(**{**vars(seen), "cores": ()})

    def after(self, state: float, load_pps: float, ns: int) -> tuple[float, float]:
        """Return tokens less frames that wait, and the frames lost, after some time.

        Tokens come in at the limit up to the bucket, frames at the load up to the queue.
        """
        end = state + (LIMIT_PPS - load_pps) * ns / 1e9
        lost = max(0.0, -self.host.queue - end)
        return min(self.host.bucket, end + lost), lost


def one(found: list[Searched] | tuple[Searched, ...]) -> Searched:
    (searched,) = found
    return searched


@pytest.mark.parametrize("queue", [POLICER, LONG_QUEUE])
@pytest.mark.parametrize("bucket_ms", [0, 1, 10, 100, 1000])
def test_the_limit_is_found_whatever_its_bucket_holds(
    bucket_ms: int, queue: int, tmp_path: Path
) -> None:
    host = Limited(bucket=LIMIT_PPS * bucket_ms / 1e3, queue=queue)
    summary = search(tmp_path, host)
    for name in ("NDR", "PDR", "MFR"):
        rate = rates(summary)[name]
        assert rate.status == "found", name
        assert rate.throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005), name
    limit = one(summary.searched).rate_limit
    assert limit
    assert limit.emptied
    holds_s = (host.bucket + queue) / (limit.priming.offered_pps - LIMIT_PPS)
    assert limit.priming.duration_ns / 1e9 >= 0.9 * holds_s
    assert host.now_s < 40
    kept = RunFolder.open(tmp_path / "search").trials()
    assert kept[0].priming is None
    assert kept[-1].priming == limit.priming


def test_the_limit_is_found_beside_a_process_that_takes_what_is_left(tmp_path: Path) -> None:
    summary = search(tmp_path, Limited(bucket=LIMIT_PPS / 100, crowded=True))
    limit = one(summary.searched).rate_limit
    assert limit
    assert limit.idle == 0.0
    for name in ("NDR", "PDR", "MFR"):
        assert rates(summary)[name].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005), name
    assert {rate.whole_pps for rate in rates(summary).values()} == {None}, "no core is the limit"


@pytest.mark.parametrize("disturbed", [0, 2])
def test_a_limit_on_the_way_out_is_found_though_no_core_has_time(
    disturbed: int, tmp_path: Path
) -> None:
    """What was forwarded first was not lost for want of time; now and then frames are."""

    def at(number: int) -> DropPoint:
        return "nic_queue" if disturbed and number % disturbed == 0 else "egress"

    host = Limited(bucket=LIMIT_PPS / 100, core_pps=LIMIT_PPS * 1.2, loses_at=at)
    summary = search(tmp_path, host)
    limit = one(summary.searched).rate_limit
    assert limit
    assert limit.behind
    for name in ("NDR", "PDR", "MFR"):
        assert rates(summary)[name].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005), name


@pytest.mark.parametrize("falls", [0.97, 1.03])
def test_a_core_that_others_use_is_no_limiter(falls: float, tmp_path: Path) -> None:
    """It forwards a little less, or more, of a larger load."""

    def beside(load: float) -> float:
        return min(load, LIMIT_PPS * math.pow(falls, max(0.0, math.log2(load / LIMIT_PPS))))

    host = Host(beside, cores=(core(0.5, 0.0),))
    assert one(search(tmp_path, host).searched).rate_limit is None


@pytest.mark.parametrize("bucket_ms", [3, 10, 50])
@pytest.mark.parametrize("core_pps", [None, 1e5])
def test_what_does_not_last_is_found_out_whatever_is_known_of_its_reason(
    core_pps: float | None, bucket_ms: int, tmp_path: Path
) -> None:
    """No core has time, or nobody knows; no loads that lose frames are far apart."""
    host = Limited(bucket=LIMIT_PPS * bucket_ms / 1e3, core_pps=core_pps)
    summary = search(tmp_path, host, SearchOptions(max_pps=130e3))
    assert one(summary.searched).rate_limit
    for name in ("NDR", "PDR", "MFR"):
        assert rates(summary)[name].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005), name


def test_a_search_that_ends_before_it_knows_whether_its_rates_last_says_so(tmp_path: Path) -> None:
    busy = (core(0.0, 0.0),)
    whole = search(tmp_path / "whole", Host(cores=busy))
    options = SearchOptions(limit_s=one(whole.searched).seconds - 0.5)
    searched = one(search(tmp_path / "limited", Host(cores=busy), options).searched)
    assert searched.reason == "the time ended before its rates were known to last"
    assert {rate.status for rate in searched.rates} == {"found"}


def test_a_router_that_a_flood_harms_for_long_has_no_limiter(tmp_path: Path) -> None:
    """After one it forwards less for a while, and in one least."""

    def forwards(load: float) -> float:
        if load > 1.5 * LIMIT_PPS:
            return LIMIT_PPS / 2
        return min(load, LIMIT_PPS * (0.9 if host.settings[-1].priming else 1.0))

    host = Host(forwards, cores=(core(0.0, 0.0),))
    summary = search(tmp_path, host)
    assert one(summary.searched).rate_limit is None
    assert rates(summary)["PDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)


def test_a_bucket_that_cannot_be_emptied_is_told(tmp_path: Path) -> None:
    """A limiter that lets as many frames through at once whatever came before them."""

    def passes(load: float) -> float:
        return min(load, LIMIT_PPS + 1_000 / (host.settings[-1].window_ns / 1e9))

    host = Host(passes, cores=(core(0.0, 0.5),))
    limit = one(search(tmp_path, host).searched).rate_limit
    assert limit
    assert not limit.emptied
    assert limit.priming.duration_ns == MAX_NS


def test_an_external_router_is_taken_to_have_a_limit_where_its_rate_is_flat(tmp_path: Path) -> None:
    summary = search(tmp_path, Limited(bucket=LIMIT_PPS / 100, core_pps=None))
    limit = one(summary.searched).rate_limit
    assert limit
    assert limit.idle is None
    assert rates(summary)["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)


@pytest.mark.parametrize("idle", [0.0, 0.1])
def test_a_router_whose_core_is_busy_has_no_limiter(idle: float, tmp_path: Path) -> None:
    summary = search(tmp_path, Host(cores=(core(0.0, idle),)))
    assert one(summary.searched).rate_limit is None
    primed = [t.point for t in RunFolder.open(tmp_path / "search").trials() if t.priming]
    assert len(primed) == 4, "what was found lasts"


@pytest.mark.parametrize(("idle", "where"), [(0.5, "router_queue"), (0.0, "egress")])
def test_rates_that_differ_from_trial_to_trial_are_no_limiters(
    idle: float, where: DropPoint, tmp_path: Path
) -> None:
    """Such as those of a core that has to wait for others, or has a quota of their time."""

    def uneven(load: float) -> float:
        return min(load, LIMIT_PPS * (0.9 + 0.1 * (len(host.settings) % 3)))

    host = Host(uneven, cores=(core(0.0, idle),), loses_at=lambda _number: where)
    assert one(search(tmp_path, host).searched).rate_limit is None


def test_delays_are_those_of_a_queue_that_was_empty(tmp_path: Path) -> None:
    """After priming frames wait in a queue that the load alone would not have filled."""
    host = Limited(
        bucket=LIMIT_PPS / 100,
        queue=LONG_QUEUE,
        delay_ns=lambda load: 1e7 if host.settings[-1].priming or load > 60e3 else 1e4,
    )
    options = SearchOptions(max_delays_ns=(1_000_000, 100_000_000))
    found = rates(search(tmp_path, host, options))
    assert found["NDR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    assert found["NDR 1000000"].throughput_pps == pytest.approx(60e3, rel=0.01)
    late = found["NDR 100000000"]
    assert (late.status, late.reason) == ("found", None)
    assert late.throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)
    assert (found["MFR"].throughput_pps or 0) <= 1.001 * LIMIT_PPS


def tried(load: float, rate: float, free: float | None, behind: float = 0.0) -> Tried:
    lost = 1 - rate / load
    return Tried(load, 50_000_000, rate, lost, None, None, True, free=free, lost_behind=behind)


@pytest.mark.parametrize(
    ("seen", "load"),
    [
        ([], None),
        ([tried(1e5, 1e5, 0.9), tried(4e5, 1e5, 0.1)], None),
        ([tried(4e5, 1e5, 0.5), tried(2e5, 1e5, 0.7)], 2e5),
        ([tried(4e5, 1e5, 0.0, 0.95), tried(2e5, 1e5, 0.7)], 4e5),
        ([tried(4e5, 1e5, 0.0, 0.5)], None),
        ([tried(2e5, 1e5, None)], None),
        ([tried(2e5, 1e5, None), tried(4e5, 0.9e5, None)], None),
        ([tried(2e5, 1e5, None), tried(4e5, 1e5, None)], 2e5),
    ],
)
def test_what_makes_a_limiter_suspected(seen: list[Tried], load: float | None) -> None:
    """Loss while cores have time, or on the way out; where nobody knows them, equal rates."""
    found = suspected(seen)
    assert (found and found.load_pps) == load

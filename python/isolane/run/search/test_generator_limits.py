"""Searches with a generator that has a maximum, and is held up now and then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest

from isolane.results.cpu_results import CorePartName, CoreTrial
from isolane.results.folder import RunFolder
from isolane.results.quality_models import CoreProbe
from isolane.run.search.test_search import (
    ELSEWHERE,
    LIMIT_PPS,
    ArithmeticBench,
    Host,
    load_of,
    rates,
    search,
)
from isolane.spec import Arm, PointRouter
from isolane.trials.backend import Bench


class Limited(Host):
    """A back end whose generator has a maximum that is not known before it has been tried."""

    def flood_pps(self) -> float:
        return 1e9


class Slower(Limited):
    """A machine that tells its speed."""

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        yield Probed(self, arm.name, [router.name for router in routers])


class Probed(ArithmeticBench):
    def probe(self) -> tuple[CoreProbe, ...]:
        speeds = (100.0, 140.0) if len(self.host.settings) % 2 else (120.0, 120.0)
        return tuple(
            CoreProbe(
                core=core, unit_ns=unit, stalled=0.0, longest_stall_ns=0, transfer_ns=10 * unit
            )
            for core, unit in enumerate(speeds)
        )


def test_the_generators_maximum_is_known_before_the_firstload_of(tmp_path: Path) -> None:
    host = Limited(lambda load: load, sends=450e3)
    found = rates(search(tmp_path, host))
    assert [round(load_of(one)) for one in host.settings[:3]] == [2_000_000, 2_000_000, 427_500]
    assert max(load_of(one) for one in host.settings[2:]) == 0.95 * 450e3, "no more is asked for"
    for name in ("NDR", "PDR", "MFR"):
        assert found[name].status == "at-least"
        assert found[name].reason == "the generator was the limit: it sends 428 kpps here"
        assert found[name].throughput_pps == pytest.approx(0.95 * 450e3, rel=0.001)
    assert found["FRMOL"].throughput_pps == pytest.approx(0.95 * 450e3, rel=0.001)


@pytest.mark.parametrize("share", [0.96, 0.99])
def test_trials_in_which_the_generator_was_held_up_count_at_what_it_sent(
    share: float, tmp_path: Path
) -> None:
    """Each second trial, then all: a load that passes only because less was sent is tried again."""
    some = search(tmp_path / "some", Limited(held_up=lambda n: share if n % 2 else 1.0))
    every = search(tmp_path / "every", Limited(held_up=lambda _n: share))
    assert some.complete
    assert every.complete
    assert every.searched[0].trials_without_verdict > some.searched[0].trials_without_verdict
    for name in ("NDR", "PDR", "MFR"):
        found = rates(some)[name].throughput_pps
        assert found == pytest.approx(LIMIT_PPS, rel=0.005), name
        found = rates(every)[name].throughput_pps
        assert found == pytest.approx(LIMIT_PPS, rel=0.005), name


def test_frmol_is_not_told_of_a_lowerload_of(tmp_path: Path) -> None:
    host = Limited(trouble=lambda _number, load: (ELSEWHERE,) if load > 600e3 else ())
    found = rates(search(tmp_path, host))
    assert found["FRMOL"].status == "none"
    assert found["FRMOL"].throughput_pps is None
    assert found["FRMOL"].reason == "no trial near 2 Mpps, the maximum, gave a verdict"
    assert found["MFR"].throughput_pps == pytest.approx(LIMIT_PPS, rel=0.005)


def test_the_speed_of_the_cores_is_kept_beside_the_rates(tmp_path: Path) -> None:
    without = search(tmp_path / "without", Host()).searched[0]
    assert (without.unit_ns, without.transfer_ns) == (None, ())
    found = search(tmp_path / "with", Slower()).searched[0]
    assert found.unit_ns == 120.0, "mean of two cores"
    assert set(found.transfer_ns) == {1_200.0}
    kept = RunFolder.open(tmp_path / "with" / "search").trials()
    assert {len(trial.probe) for trial in kept} == {2}


def core(processes: float, idle: float) -> CoreTrial:
    busy = 1 - processes - idle
    parts: dict[CorePartName, float] = dict.fromkeys(get_args(CorePartName), 0.0)
    parts |= {"own": busy, "processes": processes, "idle": idle}
    return CoreTrial(
        core=1, part="dut", user=processes, system=busy, softirq=0, idle=idle, routers=busy,
        steal=0, parts=parts,
    )  # fmt: skip


def test_what_the_whole_core_would_forward_is_told_where_it_was_the_limit(tmp_path: Path) -> None:
    shared = rates(search(tmp_path / "shared", Host(cores=(core(0.2, 0.0),))))
    for name in ("MFR", "FRMOL"):
        assert shared[name].whole_pps == pytest.approx((shared[name].throughput_pps or 0) / 0.8)
    assert shared["PDR"].whole_pps is None
    idle = rates(search(tmp_path / "idle", Host(cores=(core(0.2, 0.1),))))
    assert {rate.whole_pps for rate in idle.values()} == {None}

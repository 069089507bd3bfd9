"""The null DUT in a run: once for each point, and out of every other figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from isolane.analysis.null_dut import ARM, PURPOSE
from isolane.results.folder import RunFolder
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.run.test_runner import ABSOLUTE, TRIALS, Imaginary, start
from isolane.spec import Arm, PointRouter
from isolane.trials.backend import Bench

POINTS = 3
OFF = ABSOLUTE.replace("repeats: 2", "repeats: 2, null_dut: false")


@dataclass
class WithWires(Imaginary):
    """The same back end; it can leave the device under test out."""

    wires: list[str] = field(default_factory=list)

    @contextmanager
    def null_dut(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        self.wires.append(arm.name)
        with self.bench(arm, routers) as bench:
            yield bench


def test_each_point_is_measured_once_without_a_router(tmp_path: Path) -> None:
    back_end = WithWires()
    summary = start(tmp_path / "run", back_end).execute()
    assert back_end.wires == [ARM]
    assert [(f.point, f.router) for f in summary.null_dut] == [
        (point, router) for point in range(POINTS) for router in ("one", "two")
    ]
    assert ARM not in {cell.arm for cell in summary.cells}
    assert {cell.throughput_pps.n for cell in summary.cells} == {2}
    assert summary.trials == TRIALS + POINTS
    assert [setting.window_ns for setting in back_end.settings[:POINTS]] == [100_000_000] * POINTS
    peaks = {setting.peak_pps for setting in back_end.settings}
    assert peaks == {4_000.0}, "the generator treats all points alike"


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    back_end = WithWires()
    summary = start(tmp_path / "run", back_end, OFF).execute()
    assert (back_end.wires, summary.null_dut, summary.trials) == ([], (), TRIALS)


def test_a_back_end_without_wires_goes_without(tmp_path: Path) -> None:
    assert start(tmp_path / "run", Imaginary()).execute().null_dut == ()


def test_what_limits_the_wire_is_told_and_stops_nothing(tmp_path: Path) -> None:
    why = InvalidReason(InvalidKind.RECEIVER_LIMIT, "the receiver was the limit")
    start(tmp_path / "run", WithWires(invalid=(why,))).execute()
    trials = RunFolder.open(tmp_path / "run").trials()
    found = {(t.status, t.reason) for t in trials if t.purpose == PURPOSE}
    assert found == {("ok", "the receiver was the limit")}


def test_a_resumed_run_measures_no_point_again(tmp_path: Path) -> None:
    start(tmp_path / "run", WithWires()).execute()
    again = WithWires()
    summary = start(tmp_path / "run", again).execute()
    assert (again.wires, len(summary.null_dut)) == ([], 2 * POINTS)

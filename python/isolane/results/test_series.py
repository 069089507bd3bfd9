from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.errors import MeasurementError
from isolane.report import test_data as data
from isolane.results.folder import RunFolder
from isolane.results.parquet import SERIES
from isolane.results.series import (
    RouterSeries,
    TrialSeries,
    gaps_of,
    merged,
    padded,
    window_shift,
)

MS = 1_000_000


def series(received: list[int], delays: list[float | None] | None = None) -> TrialSeries:
    """100 ms of warm-up, then the window."""
    router = RouterSeries(
        router="vr",
        sent=tuple(received),
        received=tuple(received),
        delay_p99_ns=tuple(delays or [5e4] * len(received)),
    )
    window_ns = (len(received) - 10) * 10 * MS
    return TrialSeries(
        trial=0, bin_ns=10 * MS, warmup_ns=100 * MS, window_ns=window_ns, routers=(router,)
    )


def test_the_window_has_only_bins_that_lie_wholly_in_it() -> None:
    found = series([1] * 40)
    assert found.window() == range(10, 40)
    cut = found.model_copy(update={"warmup_ns": 95 * MS, "window_ns": 301 * MS})
    assert cut.window() == range(10, 39)


def test_warm_up_does_not_count_and_a_steady_window_has_no_shift() -> None:
    found = series([0] * 10 + [100] * 30)
    shift = window_shift(found, found.routers[0])
    assert shift is not None
    assert shift.throughput == 0
    assert shift.delay_p99 == 0


def test_a_slow_first_third_shows_as_what_it_takes_from_the_mean() -> None:
    found = series([0] * 10 + [70] * 10 + [100] * 20)
    shift = window_shift(found, found.routers[0])
    assert shift is not None
    assert shift.throughput == pytest.approx(-0.1)


def test_few_frames_shift_the_window_by_one_of_them() -> None:
    # Received just as they are sent, three frames in two bins; the last third has 49 of them.
    found = series([(3 * i) // 2 - (3 * (i - 1)) // 2 for i in range(110)])
    shift = window_shift(found, found.routers[0])
    assert shift is not None
    assert shift.throughput == pytest.approx(1.5 / (49 / 33) - 1)
    assert abs(shift.throughput) < shift.resolution == pytest.approx(2 / 49)


def test_a_queue_that_fills_through_half_the_window_shifts_the_delay() -> None:
    delays: list[float | None] = [None] * 10 + [1e4] * 16 + [1e5] * 14
    found = series([100] * 40, delays)
    shift = window_shift(found, found.routers[0])
    assert shift is not None
    assert shift.delay_p99 == pytest.approx(-0.9)


def test_a_short_window_and_one_that_nothing_left_are_not_compared() -> None:
    short = series([100] * 24)
    assert window_shift(short, short.routers[0]) is None
    stalled = series([100] * 30 + [0] * 10)
    assert window_shift(stalled, stalled.routers[0]) is None


def test_gaps_as_scheduled_are_those_within_the_receivers_pause() -> None:
    # 100 us apart, seen by a receiver that looks every 50 us; one gap of 1 ms.
    counts = ((49_664, 50_175, 100), (99_328, 100_351, 800), (150_528, 152_575, 99),
              (999_424, 1_015_807, 1))  # fmt: skip
    found = gaps_of(counts, scheduled_ns=100_000, resolution_ns=50_000)
    assert found is not None
    assert found.count == 1000
    assert found.as_scheduled == pytest.approx(0.999)
    assert found.p50_ns == pytest.approx(100_000, rel=0.016)
    assert found.max_ns == pytest.approx(1e6, rel=0.016)
    strict = gaps_of(counts, scheduled_ns=100_000, resolution_ns=0)
    assert strict is not None
    assert strict.as_scheduled == pytest.approx(0.8)
    assert gaps_of((), 100_000, 0) is None


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200))
def test_merged_buckets_keep_all_counts_within_the_stated_error(values: list[int]) -> None:
    counts: dict[tuple[int, int], int] = {}
    for value in values:
        # As crates/histogram has them.
        step = 1 << max(0, value.bit_length() - 7)
        bucket = (value // step * step, value // step * step + step - 1)
        counts[bucket] = counts.get(bucket, 0) + 1
    fine = tuple((low, high, counts[low, high]) for low, high in sorted(counts))
    coarse = merged(fine)
    assert sum(count for _, _, count in coarse) == len(values)
    for (low, high, _), (next_low, _, _) in pairwise(coarse):
        assert high < next_low
        assert high - low < max(8, low / 7)
    for value in values:
        assert any(low <= value <= high for low, high, _ in coarse)


def test_what_was_not_counted_any_more_is_zero() -> None:
    assert padded([1, 2], 4) == (1, 2, 0, 0)
    assert padded([1, 2, 3], 2) == (1, 2)


def test_noise_alone_shifts_the_window_by_its_standard_error() -> None:
    draw = random.Random(1)
    shifts = []
    for _ in range(200):
        found = series([0] * 10 + [round(draw.gauss(1000, 30)) for _ in range(90)])
        shift = window_shift(found, found.routers[0])
        assert shift is not None
        shifts.append(shift.throughput)
    # Mean of 90 bins over that of the last 30: 3 % / sqrt(30) less what both share.
    expected = 0.03 * (1 / 30 - 1 / 90) ** 0.5
    assert (sum(s * s for s in shifts) / len(shifts)) ** 0.5 == pytest.approx(expected, rel=0.2)


def kept(folder: RunFolder, number: int, frames: int = 100) -> TrialSeries:
    found = series([frames] * 40).model_copy(update={"trial": number})
    folder.append_series(found)
    return found


def test_a_folder_keeps_series_and_their_table(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    found = [kept(folder, 0), kept(folder, 1)]
    assert RunFolder.open(folder.path).series() == found
    folder.write_parquet()
    rows = pl.read_parquet(folder.path / "series.parquet")
    assert rows.schema == SERIES
    assert rows.height == 80
    window = rows.filter(pl.col("in_window") & (pl.col("trial") == 1))
    assert window["begin_s"].to_list() == [pytest.approx(0.1 + 0.01 * i) for i in range(30)]


def test_after_a_crash_the_trial_that_was_done_again_counts(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    kept(folder, 0, frames=1)
    with (folder.path / "series.jsonl").open("ab") as journal:
        journal.write(b'{"trial": 0, "torn')
    again = kept(RunFolder.open(folder.path), 0)
    assert folder.series() == [again]


def test_an_edited_series_is_noticed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    kept(folder, 0)
    kept(folder, 1)
    journal = folder.path / "series.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"[100,", b"[101,", 1))
    with pytest.raises(MeasurementError, match=r"series\.jsonl, line 1: was changed"):
        folder.series()
    journal.write_bytes(whole.split(b"\n")[0] + b"\n")
    with pytest.raises(MeasurementError, match="put the original back"):
        folder.series()
    journal.unlink()
    with pytest.raises(MeasurementError, match="put the original back"):
        folder.series()


def test_a_series_that_a_crash_kept_from_its_journal_is_no_edit(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    first = kept(folder, 0)
    again = RunFolder.open(folder.path)
    again.record.announce(
        "series", folder.path / "series.jsonl", b"what did not come to be written"
    )
    assert RunFolder.open(folder.path).series() == [first]
    second = kept(RunFolder.open(folder.path), 1)
    assert RunFolder.open(folder.path).series() == [first, second]


def test_a_series_that_a_crash_kept_from_the_record_is_no_edit(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    found = [kept(folder, 0), kept(folder, 1)]
    record = folder.path / "record.jsonl"
    lines = record.read_bytes().split(b"\n")
    assert b'"series_kept": 2' in lines[-2]
    record.write_bytes(b"\n".join(lines[:-2]) + b"\n")
    assert RunFolder.open(folder.path).series() == found
    found.append(kept(RunFolder.open(folder.path), 2))
    assert RunFolder.open(folder.path).series() == found


def test_a_series_that_was_added_is_noticed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    kept(folder, 0)
    journal = folder.path / "series.jsonl"
    journal.write_bytes(journal.read_bytes() * 2)
    with pytest.raises(MeasurementError, match=r"series\.jsonl, line 2: was not written by this r"):
        folder.series()
    with (folder.path / "record.jsonl").open("a") as record:
        record.write('{"series": 2, "sha256": "0", "chain": "0"}\n')
    with pytest.raises(MeasurementError, match=r"record\.jsonl, line \d+: this line or one before"):
        folder.series()


def test_a_series_that_was_taken_out_is_noticed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    kept(folder, 0)
    kept(folder, 1)
    journal = folder.path / "series.jsonl"
    journal.write_bytes(journal.read_bytes().split(b"\n")[0] + b"\n")
    with pytest.raises(MeasurementError, match=r"2 time series were written .*, and 1 are there"):
        folder.series()
    assert folder.trials() == [], "trials are judged by themselves"


def test_a_folder_of_an_older_version_has_none(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", "isolane: 1", data.HOST)
    assert folder.series() == []
    folder.write_parquet()
    assert not (folder.path / "series.parquet").exists()

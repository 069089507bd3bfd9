"""The answer of a search on a screen: twelve lines of a hundred columns, the fastest arm first."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from isolane.cli.search_answer import print_answer, ranked
from isolane.cli.search_table import remarks
from isolane.results.priming import Priming
from isolane.results.search_results import (
    FoundRate,
    RateLimit,
    RateName,
    Searched,
    SearchSummary,
    Status,
)


def rate(
    name: RateName, pps: float | None, status: Status = "found", ratio: float | None = None
) -> FoundRate:
    return FoundRate(
        name=name, loss_ratio=ratio, max_delay_ns=None, status=status, throughput_pps=pps,
        throughput_bps=None if pps is None else pps * 512, load_pps=pps, failing_load_pps=None,
        trials=3, delay_p99_ns=120e3, reason=None if status == "found" else "the reason",
    )  # fmt: skip


def searched(arm: str, pps: float, frmol: float, status: Status = "found") -> Searched:
    rates = (
        rate("NDR", 0.9 * pps, status, 0.0),
        rate("PDR", pps, status, 0.005),
        rate("MFR", 1.01 * pps, status),
        rate("FRMOL", frmol),
    )
    return Searched(
        arm=arm, routers=("victim",), together=False, max_load_pps=2e6, rates=rates, trials=30,
        trials_without_verdict=0, seconds=15.0,
    )  # fmt: skip


def summary_of(found: tuple[Searched, ...], **changed: Any) -> SearchSummary:
    return SearchSummary(
        isolane="0", library="MLRsearch", name="noisy", title="What a noisy neighbour does to you",
        started_unix_s=0.0, finished_unix_s=1.0, complete=True, options={}, searched=found,
        **changed,
    )  # fmt: skip


def printed(*found: Searched, **changed: Any) -> list[str]:
    text = io.StringIO()
    print_answer(summary_of(found, **changed), Console(file=text))
    lines = text.getvalue().splitlines()
    assert len(lines) <= 10, "two are left for the files"
    assert max(map(len, lines)) <= 100
    return [line.rstrip() for line in lines]


BRIDGE = searched("bridge", 250e3, 90e3)
MACVLAN = searched("macvlan", 1_413e3, 1_400e3)
DIRECT = searched("direct", 1_800e3, 1_818e3, "at-least")


def test_the_fastest_comes_first_and_the_others_beside_it() -> None:
    assert [one.arm for one in ranked((BRIDGE, MACVLAN))] == ["macvlan", "bridge"]
    told = printed(BRIDGE, MACVLAN)
    assert told[0] == "What a noisy neighbour does to you; all rates in kpps"
    assert " ".join(told[1].split()) == "arm NDR PDR 0.5 % MFR FRMOL p99 at its load"
    assert told[2].split() == ["macvlan", "1,272", "1,413", "1,427", "1,400", "120", "µs", "(PDR)"]
    assert told[3].split()[0] == "bridge"
    text = " ".join(told[4:])
    assert "On this host, macvlan forwards 1,413 kpps with at most 0.5 % loss." in text
    assert "Of that, bridge 18 %." in text
    assert "bridge livelocks: offered the maximum, it forwards 36 % of its MFR." in text


def test_bounds_are_marked_and_explained() -> None:
    told = printed(DIRECT, MACVLAN)
    assert told[2].split()[:3] == ["direct", ">1,620", ">1,800"]
    text = " ".join(told)
    assert "direct forwards at least 1,800 kpps" in text
    assert "> is a lower bound: no more could be offered." in text
    assert "the reason" in text


def test_many_arms_still_fit() -> None:
    told = printed(*(searched(f"arm-{n}", (n + 1) * 1e5, n * 1e5, "at-least") for n in range(5)))
    assert told[2].startswith("arm-4")
    assert told[-1] == "5 remarks: --details"


def test_a_search_without_a_result_says_so() -> None:
    nothing = BRIDGE.model_copy(update={"rates": (), "reason": "no trial gave a verdict"})
    told = printed(nothing)
    assert "Nothing was found: --details says why." in told
    assert told[-1] == "bridge, victim alone: no trial gave a verdict"


def test_a_prediction_is_called_one() -> None:
    told = printed(BRIDGE, simulated="veth")
    assert "predicted by simulation, profile veth" in told[0]
    assert "On the simulated host, bridge forwards" in " ".join(told)


def beside_others(one: Searched, left: float) -> Searched:
    rates = [
        rate.model_copy(update={"whole_pps": (rate.throughput_pps or 0) / left})
        if rate.name in ("MFR", "FRMOL")
        else rate
        for rate in one.rates
    ]
    return one.model_copy(update={"rates": tuple(rates)})


def test_what_others_had_of_the_cores_is_told() -> None:
    text = " ".join(printed(beside_others(MACVLAN, 0.75), beside_others(BRIDGE, 0.9)))
    assert "Others had up to 25 % of the routers' cores." in text
    assert "With the whole of them MFRs would be: macvlan 1,900, bridge 281 kpps." in text
    assert "Others" not in " ".join(printed(beside_others(MACVLAN, 0.99)))


def limited(
    one: Searched, idle: float | None, *, emptied: bool = True, behind: bool = False
) -> Searched:
    priming = Priming(offered_pps=400e3, duration_ns=50_000_000)
    limit = RateLimit(priming=priming, idle=idle, emptied=emptied, behind=behind)
    return one.model_copy(update={"rate_limit": limit})


def test_a_shaper_that_is_the_limit_is_told() -> None:
    told = printed(limited(BRIDGE, 0.53), limited(MACVLAN, 0.4), DIRECT)
    assert "Not a busy core limits macvlan, bridge:" in " ".join(told)
    assert "the cores were idle for 40 % or more." in " ".join(told)
    assert "too high" not in " ".join(told)
    told = printed(limited(BRIDGE, None, emptied=False), MACVLAN)
    assert "idle" not in " ".join(told), "nobody knows its cores"
    assert "As if a shaper limited it, the same comes through of any load: bridge." in " ".join(
        told
    )
    assert "Its bucket was not empty, so these may be too high: bridge." in " ".join(told)
    told = printed(limited(BRIDGE, 0.001))
    assert "idle" not in " ".join(told), "a busy core"


def test_a_limit_on_the_way_out_is_told_as_such() -> None:
    told = " ".join(printed(limited(BRIDGE, 0.03, behind=True), limited(MACVLAN, 0.4)))
    assert "Not a busy core limits bridge: frames are lost on the way out." in told
    assert "Not a busy core limits macvlan: the cores were idle for 40 % or more." in told
    assert "As if a shaper" not in told


def test_how_its_trials_begin_is_a_remark() -> None:
    (told,) = remarks(summary_of((limited(BRIDGE, 0.53),)))
    assert told == (
        "bridge, victim alone: a shaper, policer or CPU cap is the limit; each trial begins with "
        "50 ms of 400 kpps: its bucket is empty then"
    )
    (told,) = remarks(summary_of((limited(BRIDGE, 0.53, emptied=False),)))
    assert told.endswith("its bucket was not empty even then, so rates may be too high")
    (told,) = remarks(summary_of((limited(BRIDGE, 0.0, behind=True),)))
    assert "bridge, victim alone: a shaper or policer on the way out is the limit; each" in told
    for unsure in (None, 0.0, 0.04):
        (told,) = remarks(summary_of((limited(BRIDGE, unsure),)))
        assert "the same comes through of any load, as if a shaper were the limit; each" in told


def test_cores_that_moved_are_a_remark() -> None:
    near = MACVLAN.model_copy(update={"transfer_ns": (250.0,) * 30})
    far = BRIDGE.model_copy(update={"transfer_ns": (1_400.0,) * 30})
    assert "the machine moved its cores" in " ".join(printed(near, far))
    assert "moved" not in " ".join(printed(near, near))
    assert "moved" not in " ".join(printed(far, far))
    asleep = near.model_copy(update={"transfer_ns": (56.0, 349.0) * 15})
    assert "moved" not in " ".join(printed(asleep, near)), "near, whatever sleeps"
    stray = near.model_copy(update={"transfer_ns": (*near.transfer_ns, 9_000.0)})
    assert "moved" not in " ".join(printed(stray, near))

"""The rule of own and caused CPU time, on accounts as every arm would leave them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane._native import CpuUse, PollSums
from isolane.guests import GuestPart
from isolane.procfs import CoreTicks
from isolane.trials.cpu_causes import caused, in_proportion
from isolane.trials.live.cores import Cores
from isolane.trials.live.cpu_accounting import (
    BACKLOG,
    IDLE,
    INTERRUPT,
    NET_TX,
    PROCESS,
    STEAL,
    Accounts,
    CpuAccounting,
    CpuUses,
    Handled,
    Ticks,
)

WINDOW_NS = 1_000_000_000
ONE, TWO, NIC = 10, 11, 12
DIRECT = Accounts({"one": ONE, "two": TWO}, own=frozenset({"one", "two"}))
MACVLAN = Accounts({"one": ONE, "two": TWO}, {NIC: ("one", "two")})
BRIDGE = replace(MACVLAN, backlog=frozenset({"one", "two"}))
MANAGED = replace(MACVLAN, own=frozenset({"one", "two"}), demux=NIC)
CORES = Cores(dut=(1,), measure=(0,))
NO_TICKS = CoreTicks(0, 0, 0, 0, 0, 0, 0, 0)
STILL: tuple[Ticks, Ticks] = ({0: NO_TICKS, 1: NO_TICKS}, {0: NO_TICKS, 1: NO_TICKS})
HANDLED = {"one": Handled(100, 0, 100), "two": Handled(300, 200, 100)}

Entry = tuple[int, int, int, int]
"""Softirq ns, thread ns, polls, frames: the fields of a CpuUse that are told by account."""


def accounting(
    dut: dict[int, Entry],
    measure: dict[int, Entry] | None = None,
    *,
    accounts: Accounts = DIRECT,
    ticks: tuple[Ticks, Ticks] = STILL,
    polls: PollSums | None = None,
) -> CpuAccounting:
    """Return the accounting of two cores; each nanosecond that no account has was idle."""
    uses: CpuUses = []
    for entries in (measure or {}, dut):
        core: list[Entry] = [(0, 0, 0, 0)] * 16
        for account, entry in entries.items():
            core[account] = entry
        spent = sum(entry[0] + entry[1] for entry in core)
        if IDLE not in entries:
            core[IDLE] = (0, WINDOW_NS - spent, 0, 0)
        uses.append(
            [
                CpuUse(
                    softirq_ns=softirq_ns,
                    thread_ns=thread_ns,
                    over_ns=0,
                    kernel_ns=thread_ns,
                    polls=polls_,
                    frames=frames,
                )
                for softirq_ns, thread_ns, polls_, frames in core
            ]
        )
    return CpuAccounting(uses, accounts, CORES, WINDOW_NS, ticks, polls)


def sums(passed_ns: int, dropped_ns: int, poll_ns: int = 500) -> PollSums:
    """Return the sums of polls of all mixtures, with these costs."""
    polls = [(p, d, poll_ns + passed_ns * p + dropped_ns * d) for p in range(40) for d in range(40)]
    return PollSums(
        polls=len(polls),
        ns=sum(ns for _, _, ns in polls),
        ns_ns=sum(ns * ns for _, _, ns in polls),
        passed=sum(p for p, _, _ in polls),
        dropped=sum(d for _, d, _ in polls),
        passed_passed=sum(p * p for p, _, _ in polls),
        passed_dropped=sum(p * d for p, d, _ in polls),
        dropped_dropped=sum(d * d for _, d, _ in polls),
        passed_ns=sum(p * ns for p, _, ns in polls),
        dropped_ns=sum(d * ns for _, d, ns in polls),
    )


def test_direct_own_is_polls_and_threads_on_every_core_and_nothing_else_is_caused() -> None:
    found = accounting({ONE: (300, 20, 1, 1), TWO: (5, 0, 1, 1)}, {ONE: (1, 2, 1, 1)})
    assert found.causes(HANDLED) == {"one": {"own": 323}, "two": {"own": 5}}


def test_a_guests_own_time_is_told_by_what_it_was_for() -> None:
    parts: dict[GuestPart, int] = {"processors": 13, "programs": 14, "emulator": 15}
    accounts = replace(DIRECT, guests={"one": parts})
    used = {ONE: (300, 20, 1, 1), 13: (0, 400, 0, 0), 15: (7, 50, 0, 0), TWO: (5, 0, 1, 1)}
    found = accounting(used, {13: (0, 3, 0, 0)}, accounts=accounts)
    assert found.of_guest("one") == {
        "host": 320, "processors": 403, "programs": 0, "emulator": 57,
    }  # fmt: skip
    assert found.of_guest("two") is None
    assert found.of_router("one") == 320 + 403 + 57
    assert found.causes(HANDLED)["one"] == {"own": 780}
    for core in found.of_cores(HANDLED):
        assert core.parts is not None
        assert sum(core.parts.values()) == pytest.approx(1)
    assert found.of_cores(HANDLED)[1].routers == pytest.approx((300 + 20 + 400 + 57 + 5) / 1e9)


def test_a_router_that_did_nothing_used_nothing() -> None:
    assert accounting({ONE: (300, 0, 1, 1)}).of_router("two") == 0


def test_a_poll_that_routers_share_is_divided_by_the_frames_that_it_took() -> None:
    found = accounting({NIC: (500, 100, 1, 1)}, accounts=MACVLAN).causes(HANDLED)
    assert found == {"one": {"receive": 150}, "two": {"receive": 450}}


def test_the_backlog_of_a_bridge_is_divided_by_the_frames_that_were_not_dropped_before_it() -> None:
    found = accounting(
        {NIC: (400, 0, 1, 1), BACKLOG: (70, 0, 0, 0)}, {BACKLOG: (9, 0, 0, 0)}, accounts=BRIDGE
    ).causes(HANDLED)
    assert found["one"] == {"receive": 100, "backlog": 35}
    assert found["two"] == {"receive": 300, "backlog": 35}, "the measuring core's is not theirs"


def test_one_router_alone_caused_all_shared_work_and_has_no_own() -> None:
    alone = Accounts({"one": ONE}, {NIC: ("one",)}, backlog=frozenset({"one"}))
    found = accounting({NIC: (500, 0, 1, 1), BACKLOG: (70, 0, 0, 0)}, accounts=alone)
    assert found.of_router("one") is None
    assert found.causes({"one": Handled(3, 0, 3)}) == {"one": {"receive": 500, "backlog": 70}}


def test_managed_own_threads_and_a_part_of_the_nics_thread_and_of_put_off_sending() -> None:
    uses = {ONE: (10, 200, 1, 1), TWO: (0, 100, 1, 1), NIC: (0, 400, 1, 1), NET_TX: (50, 0, 0, 0)}
    found = accounting(uses, accounts=MANAGED).causes(HANDLED)
    assert found["one"] == {"own": 210, "receive": 100, "transmit": 25}
    assert found["two"] == {"own": 100, "receive": 300, "transmit": 25}, "drops not told apart"


def test_where_drops_cost_something_else_whoever_caused_them_is_charged() -> None:
    uses = {ONE: (0, 200, 1, 1), TWO: (0, 100, 1, 1), NIC: (0, 500, 1, 1)}
    found = accounting(uses, accounts=MANAGED, polls=sums(200, 50)).causes(HANDLED)
    # 200 frames passed at 200 ns and 200 dropped at 50: four fifths, one fifth of 500 ns
    assert found["one"] == {"own": 200, "receive": 200}
    assert found["two"] == {"own": 100, "receive": 200, "drop": 100}


def test_two_wires_in_one_arm_are_two_accounts() -> None:
    mixed = Accounts({"one": ONE, "two": TWO}, {NIC: ("one",), NIC + 1: ("two",)})
    found = accounting({NIC: (500, 0, 1, 1), NIC + 1: (7, 0, 1, 1)}, accounts=mixed)
    assert found.causes(HANDLED) == {"one": {"receive": 500}, "two": {"receive": 7}}


times = st.integers(min_value=0, max_value=WINDOW_NS // 20)
entries = st.dictionaries(
    st.sampled_from([ONE, TWO, NIC, BACKLOG, NET_TX, INTERRUPT, PROCESS]),
    st.tuples(times, times, st.just(1), st.just(1)),
)
frames = st.builds(
    Handled, *[st.integers(min_value=0, max_value=10**9)] * 3
)  # fmt: skip


@given(
    dut=entries,
    stolen=times,
    accounts=st.sampled_from([DIRECT, MACVLAN, BRIDGE, MANAGED]),
    one=frames,
    two=frames,
    polls=st.sampled_from([None, sums(200, 50)]),
)
def test_own_shared_and_rest_are_the_window_in_every_arm(
    dut: dict[int, Entry],
    stolen: int,
    accounts: Accounts,
    one: Handled,
    two: Handled,
    polls: PollSums | None,
) -> None:
    handled = {"one": one, "two": two}
    if not accounts.shared:
        dut = {account: entry for account, entry in dut.items() if account != NIC}
    found = accounting({**dut, STEAL: (0, stolen, 0, 0)}, accounts=accounts, polls=polls)
    core = found.of_cores(handled)[1]
    assert core.parts is not None
    assert sum(core.parts.values()) == pytest.approx(1, abs=1e-12)
    assert core.user + core.system + core.softirq + core.idle == pytest.approx(1, abs=1e-9)
    if accounts is DIRECT:
        return
    everything = sum(caused(parts) for parts in found.causes(handled).values())
    nobodys = sum(work.ns for work in found.shared_work(handled) if not work.assigned)
    unowned = 0 if accounts.own else sum(sum(dut.get(a, (0, 0))[:2]) for a in (ONE, TWO))
    backlog = sum(dut.get(BACKLOG, (0, 0))[:2]) if not accounts.backlog else 0
    charged = [ONE, TWO, NIC, BACKLOG, NET_TX]
    total = sum(sum(dut.get(account, (0, 0))[:2]) for account in charged)
    assert everything + nobodys + unowned == total
    assert nobodys >= backlog


@given(
    total=st.integers(min_value=0, max_value=10**12),
    weights=st.dictionaries(st.text(max_size=2), st.integers(min_value=-3, max_value=10**10)),
)
def test_parts_in_proportion_add_up_and_none_is_off_by_one(
    total: int, weights: dict[str, int]
) -> None:
    parts = in_proportion(total, weights)
    whole = sum(max(0, weight) for weight in weights.values())
    assert sum(parts.values()) == (total if whole else 0)
    for name, weight in weights.items():
        exact = total * max(0, weight) / whole if whole else 0
        assert parts[name] == pytest.approx(exact, abs=1, rel=1e-9)


@pytest.mark.parametrize("account", [ONE, TWO, NIC])
def test_frames_polled_elsewhere_are_found(account: int) -> None:
    found = accounting(
        {ONE: (1, 0, 10, 100), NIC: (1, 0, 1, 5)}, {account: (1, 0, 2, 3)}, accounts=MACVLAN
    ).placement()
    assert (found.polls_on_dut, found.frames_on_dut) == (11, 105)
    assert (found.polls_elsewhere, found.frames_elsewhere) == (2, 3)
    assert not found.ok


def test_an_empty_poll_elsewhere_is_no_misplaced_frame() -> None:
    assert accounting({ONE: (1, 0, 1, 1)}, {ONE: (1, 0, 5, 0)}).placement().ok


def test_the_parts_of_a_core_add_up_to_one() -> None:
    ticks: tuple[Ticks, Ticks] = (
        {0: NO_TICKS, 1: replace(NO_TICKS, user=60, nice=40, system=50, steal=7)},
        {0: NO_TICKS, 1: replace(NO_TICKS, user=62, nice=41, system=51, steal=17)},
    )
    found = accounting(
        {ONE: (400_000_000, 0, 1, 1), TWO: (0, 100_000_000, 1, 1), PROCESS: (0, 200_000_000, 0, 0)},
        ticks=ticks,
    )
    measure, dut = found.of_cores(HANDLED)
    assert (measure.part, dut.part) == ("measure", "dut")
    assert dut.user == pytest.approx(0.15), "three of four ticks were the user's"
    assert dut.system == pytest.approx(0.15), "the fourth, and the router's thread"
    assert dut.softirq == pytest.approx(0.4)
    assert dut.routers == pytest.approx(0.5)
    assert dut.steal == pytest.approx(0.1)
    assert dut.user + dut.system + dut.softirq + dut.idle == pytest.approx(1)
    assert measure.idle == 1
    assert dut.parts is not None
    assert dut.parts["own"] == pytest.approx(0.5)
    assert dut.parts["processes"] == pytest.approx(0.2)


def test_time_that_was_stolen_is_a_part_of_its_own_and_overlaps_the_four_states() -> None:
    dut = accounting(
        {ONE: (300_000_000, 0, 1, 1), STEAL: (0, 100_000_000, 0, 0), IDLE: (0, 600_000_000, 0, 0)}
    ).of_cores(HANDLED)[1]
    assert dut.parts is not None
    assert dut.parts["steal"] == dut.steal == pytest.approx(0.1)
    assert dut.parts["own"] == dut.routers == pytest.approx(0.3)
    assert dut.softirq == pytest.approx(0.4)
    assert dut.idle == pytest.approx(0.6)


def test_without_ticks_processes_are_the_users() -> None:
    core = accounting({PROCESS: (0, 1_000_000, 0, 0)}).of_cores(HANDLED)[1]
    assert core.user == pytest.approx(0.001)
    assert core.system == 0


def test_a_core_that_is_offline_is_left_out() -> None:
    ticks: tuple[Ticks, Ticks] = ({1: NO_TICKS}, {1: NO_TICKS})
    found = accounting({ONE: (0, 500, 0, 0)}, ticks=ticks)
    assert found.online == (1,)
    assert [core.core for core in found.of_cores(HANDLED)] == [1]

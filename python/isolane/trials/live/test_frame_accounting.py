from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from isolane.results.results import DROP_POINTS, DropPoint
from isolane.testbed import Counters
from isolane.trials.live.frame_accounting import (
    SHARED_DROP_POINTS,
    Account,
    lost_frames,
    receiver_lost,
)

OWN: tuple[DropPoint, ...] = ("nic_queue", "router_queue", "no_route", "egress")
frames = st.integers(0, 10_000)
Losses = dict[tuple[str | None, str], int]


def counters(lost: Losses) -> Counters:
    return Counters(lost, 0, 0)


@st.composite
def anything(draw: st.DrawFn) -> tuple[list[Account], Counters]:
    """Counters that need not have anything to do with the frames."""
    names = [f"vr{i}" for i in range(draw(st.integers(1, 5)))]
    accounts = []
    for name in names:
        scheduled = draw(frames)
        sent = draw(st.integers(0, scheduled))
        accounts.append(Account(name, scheduled, sent, draw(frames)))
    lost: Losses = {(name, point): draw(frames) for name in names for point in OWN}
    lost |= {(None, point): draw(frames) for point in SHARED_DROP_POINTS}
    return accounts, counters(lost)


@st.composite
def consistent(draw: st.DrawFn) -> tuple[list[Account], Counters, list[dict[str, int]]]:
    """Frames that really went somewhere, and what the kernel then counts; the true losses, too."""
    accounts, truth = [], []
    lost: Losses = {(None, point): 0 for point in SHARED_DROP_POINTS}
    for number in range(draw(st.integers(1, 5))):
        name = f"vr{number}"
        own = {point: draw(frames) for point in OWN}
        shared: dict[str, int] = {point: draw(frames) for point in SHARED_DROP_POINTS}
        late, received = draw(frames), draw(frames)
        sent = received + sum(own.values()) + sum(shared.values())
        accounts.append(Account(name, sent + late, sent, received))
        lost |= {(name, point): count for point, count in own.items()}
        for point, count in shared.items():
            lost[None, point] += count
        truth.append(shared)
    return accounts, counters(lost), truth


@given(anything())
def test_whatever_the_counters_every_frame_is_accounted_for_or_called_unaccounted(
    case: tuple[list[Account], Counters],
) -> None:
    accounts, lost = case
    losses = lost_frames(accounts, lost)
    counted = lost.total
    missing = sum(a.sent - a.received for a in accounts)
    for account, router in zip(accounts, losses, strict=True):
        assert tuple(router) == DROP_POINTS
        assert router["generator"] == account.scheduled - account.sent
        assert all(router[point] >= lost.of(account.router)[point] for point in OWN)
    # Each counted frame is charged to its drop point or shows as unaccounted; none is made up.
    unaccounted = sum(router["unaccounted"] for router in losses)
    assert unaccounted == missing - counted
    if any(router["unaccounted"] for router in losses):
        return
    for account, router in zip(accounts, losses, strict=True):
        assert account.scheduled == account.received + sum(router.values())


@given(consistent())
def test_consistent_counters_leave_nothing_unaccounted(
    case: tuple[list[Account], Counters, list[dict[str, int]]],
) -> None:
    accounts, lost, truth = case
    losses = lost_frames(accounts, lost)
    assert [router["unaccounted"] for router in losses] == [0] * len(losses)
    for account, router in zip(accounts, losses, strict=True):
        assert account.scheduled == account.received + sum(router.values())
        assert min(router.values()) >= 0
    for point in SHARED_DROP_POINTS:
        own = sum(lost.of(account.router)[point] for account in accounts)
        assert sum(router[point] for router in losses) - own == sum(t[point] for t in truth)


@given(consistent(), st.integers(1, 100))
def test_a_frame_that_nobody_counted_is_unaccounted(
    case: tuple[list[Account], Counters, list[dict[str, int]]], extra: int
) -> None:
    accounts, lost, _ = case
    first = accounts[0]
    more = Account(first.router, first.scheduled + extra, first.sent + extra, first.received)
    losses = lost_frames([more, *accounts[1:]], lost)
    assert sum(router["unaccounted"] for router in losses) == extra
    # And a frame that was counted but is not missing is not hidden either.
    if first.sent - first.received >= extra:
        less = Account(first.router, first.scheduled, first.sent, first.received + extra)
        losses = lost_frames([less, *accounts[1:]], lost)
        assert sum(router["unaccounted"] for router in losses) == -extra


def test_shared_losses_are_divided_in_proportion() -> None:
    lost: Losses = {(None, "nic_queue"): 100, (None, "router_queue"): 60, (None, "egress"): 40}
    accounts = [Account("one", 1000, 1000, 950), Account("two", 1000, 1000, 850)]
    one, two = lost_frames(accounts, counters(lost))
    assert (one["nic_queue"], one["router_queue"], one["egress"]) == (25, 15, 10)
    assert (two["nic_queue"], two["router_queue"], two["egress"]) == (75, 45, 30)


def test_own_losses_stay_with_their_router() -> None:
    lost: Losses = {("one", "nic_queue"): 7, (None, "egress"): 5}
    accounts = [Account("one", 100, 99, 92), Account("two", 100, 100, 95)]
    one, two = lost_frames(accounts, counters(lost))
    assert one == {
        "generator": 1, "nic_queue": 7, "router_queue": 0, "no_route": 0, "unanswered": 0,
            "egress": 0,
        "in_router": 0, "unaccounted": 0,
    }  # fmt: skip
    assert two["egress"] == 5


@given(anything())
def test_where_not_all_is_counted_the_rest_was_lost_in_or_behind_the_router(
    case: tuple[list[Account], Counters],
) -> None:
    accounts, lost = case
    shared = counters({key: count for key, count in lost.lost.items() if key[0] is None})
    losses = lost_frames(accounts, shared, untold=frozenset(a.router for a in accounts))
    for account, router in zip(accounts, losses, strict=True):
        assert account.scheduled == account.received + sum(router.values())
        assert router["in_router"] >= 0
        # Only frames that nobody sent are left over: somebody else's, or made twice.
        assert router["unaccounted"] == min(0, account.sent - account.received)


def behind(passed_on: dict[str, int], own: dict[str, int], *, egress: int, full: int) -> Counters:
    lost: Losses = {(None, "egress"): egress}
    return Counters(lost, 0, full, own_receiver_dropped=own, passed_on=passed_on)


FIRST, SECOND = Account("vr0", 1_000, 1_000, 890), Account("vr1", 1_000, 1_000, 700)


def test_what_a_policy_counted_on_the_way_out_is_charged_exactly() -> None:
    """By proportion the first router, that lost a quarter of all, would have a quarter of each."""
    lost = behind({"vr0": 900, "vr1": 800}, {}, egress=110, full=110)
    lost = lost.plus({("vr0", "nic_queue"): 100, ("vr1", "nic_queue"): 200})
    first, second = lost_frames([FIRST, SECOND], lost)
    assert (first["egress"], second["egress"]) == (10, 100)
    assert (first["unaccounted"], second["unaccounted"]) == (0, 0)
    assert [receiver_lost(one, lost) for one in (FIRST, SECOND)] == [10, 100]


def test_a_queue_before_the_receivers_wire_hides_who_was_dropped_there() -> None:
    """Here the link's classes dropped 60 of the 110."""
    lost = behind({"vr0": 900, "vr1": 800}, {}, egress=110, full=50)
    assert [receiver_lost(one, lost) for one in (FIRST, SECOND)] == [None, None]
    assert [one["egress"] for one in lost_frames([FIRST, SECOND], lost)] == [10, 100]


def test_a_wire_of_its_own_tells_and_a_shared_one_without_a_policy_does_not() -> None:
    lost = behind({}, {"vr0": 7}, egress=0, full=20)
    assert receiver_lost(FIRST, lost) == 7
    assert receiver_lost(SECOND, behind({}, {}, egress=20, full=20)) is None
    assert receiver_lost(SECOND, behind({}, {}, egress=20, full=0)) == 0, "none was full"


def test_wires_of_others_do_not_hide_what_is_told_of_a_shared_one() -> None:
    """Here the first router has a wire of its own, the second shares one under a policy."""
    lost = behind({"vr1": 800}, {"vr0": 7}, egress=100, full=107)
    assert [receiver_lost(one, lost) for one in (FIRST, SECOND)] == [7, 100]


@given(anything(), st.dictionaries(st.sampled_from(["vr0", "vr1", "vr9"]), frames))
def test_what_a_policy_counted_makes_no_frame_up(
    case: tuple[list[Account], Counters], passed_on: dict[str, int]
) -> None:
    accounts, lost = case
    told = replace(lost, passed_on=passed_on, receiver_dropped=lost.of(None)["egress"])
    losses = lost_frames(accounts, told)
    missing = sum(a.sent - a.received for a in accounts)
    assert sum(router["unaccounted"] for router in losses) == missing - lost.total
    for account in accounts:
        assert 0 <= (receiver_lost(account, told) or 0) <= told.receiver_dropped

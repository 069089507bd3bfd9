"""From capacity trials to 1x: those of this version, and those of earlier ones."""

from __future__ import annotations

from pathlib import Path

from isolane.analysis.capacities import arm_capacities, measured_capacity
from isolane.report import test_data as data
from isolane.results.invalid import InvalidKind
from isolane.results.results import Lateness, Trial


def offered(trial: Trial, load_pps: float, received_pps: float, arm: str = "direct") -> Trial:
    changes = {"offered_pps": load_pps, "received_pps": received_pps}
    router = trial.routers[0].model_copy(update=changes)
    return trial.model_copy(update={"arm": arm, "routers": (router,)})


def test_mfr_and_frmol_are_never_taken_for_each_other(tmp_path: Path) -> None:
    one = data.capacity_trial(data.experiment(tmp_path, data.NOISY), 0)
    below = [offered(one, 100e3, 100e3), *[offered(one, 250e3, r) for r in (252e3, 249e3, 247e3)]]
    over = [offered(one, 2e6, 140e3)]
    other = [offered(one, 2e6, 90e3, arm="bridge")]
    direct, bridge = arm_capacities([*below, *over, *other])
    assert (direct.mfr_load_pps, direct.mfr_pps.median) == (250e3, 248e3), "fresh trials only"
    assert (direct.max_load_pps, direct.frmol_pps, direct.at_least) == (2e6, 140e3, False)
    assert (bridge.arm, bridge.mfr_pps.median) == ("bridge", 90e3)
    found = measured_capacity([*other, *below, *over], "direct")
    assert found is not None
    assert (found.arm, found.pps.median) == ("direct", 248e3)
    assert measured_capacity([]) is None
    assert measured_capacity(other, "direct") is None


def test_one_lucky_reading_is_not_preferred_to_a_load_that_was_confirmed(tmp_path: Path) -> None:
    one = data.capacity_trial(data.experiment(tmp_path, data.NOISY), 0)
    confirmed = [offered(one, 850e3, rate) for rate in (802e3, 799e3, 801e3)]
    lucky = offered(one, 950e3, 830e3)
    first = [offered(one, 250e3, 250e3, arm="the first")]
    _, found = arm_capacities([*first, offered(one, 400e3, 400e3), *confirmed, lucky])
    assert (found.mfr_load_pps, found.mfr_pps.median, found.mfr_pps.n) == (850e3, 800e3, 2)


def test_the_arm_that_defines_1x_is_told_as_closely_as_it_was_searched(tmp_path: Path) -> None:
    one = data.capacity_trial(data.experiment(tmp_path, data.NOISY), 0)
    (found,) = arm_capacities(
        [*[offered(one, 800e3, 768e3)] * 5, *[offered(one, 840e3, 800e3)] * 4]
    )
    assert (found.mfr_load_pps, found.mfr_pps.median) == (840e3, 800e3)


def test_trials_without_verdict_do_not_count(tmp_path: Path) -> None:
    one = data.capacity_trial(data.experiment(tmp_path, data.NOISY), 0)
    best = offered(one, 300e3, 300e3).model_copy(update={"status": "no-verdict"})
    (found,) = arm_capacities([best, offered(one, 250e3, 200e3)])
    assert (found.mfr_load_pps, found.trials) == (250e3, 1)
    assert arm_capacities([best]) == ()


def test_what_the_receiver_had_no_room_for_had_been_forwarded(tmp_path: Path) -> None:
    one = data.capacity_trial(data.experiment(tmp_path, data.NOISY), 0)
    frames = {"received_total": 100_000, "generated_pps": 2e6, "generated_frames": 0}
    full = offered(one, 2e6, 1e6)
    router = full.routers[0].model_copy(update={**frames, "offered_frames": 0})
    limited = full.model_copy(
        update={
            "routers": (router,), "status": "no-verdict", "receiver_dropped": 2_000,
            "invalid": (InvalidKind.RECEIVER_LIMIT, InvalidKind.PAUSED),
        }
    )  # fmt: skip
    (found,) = arm_capacities([limited])
    assert (found.mfr_load_pps, round(found.mfr_pps.median)) == (2e6, 1_020_000)
    told = limited.model_copy(
        update={"routers": (router.model_copy(update={"receiver_lost": 2_000}),)}
    )
    (found,) = arm_capacities([told])
    assert round(found.mfr_pps.median) == 1_000_000, "what is told by router is in its rate"
    short = {"offered_frames": 2_000, "generated_frames": 1_800, "generated_pps": 1.8e6}
    both = {"invalid": (InvalidKind.RECEIVER_LIMIT, InvalidKind.GENERATOR_LIMIT)}

    def of(**changes: float) -> tuple[float, ...]:
        one = limited.routers[0].model_copy(update={**short, **changes})
        found = arm_capacities([limited.model_copy(update={**both, "routers": (one,)})])
        return tuple(round(each.mfr_pps.median) for each in found)

    assert of() == (1_020_000,), "it is overloaded by nine tenths of the load, too"
    assert of(received_pps=1.75e6) == (), "whether it is overloaded is not known"
    assert of(generated_frames=1_500) == (), "too little was sent"
    misplaced = (InvalidKind.RECEIVER_LIMIT, InvalidKind.MISPLACED)
    assert arm_capacities([limited.model_copy(update={"invalid": misplaced})]) == ()


def test_the_trials_of_an_earlier_version_count_all(tmp_path: Path) -> None:
    """It offered one load, three times."""
    experiment = data.experiment(tmp_path, data.NOISY)
    found = measured_capacity([data.capacity_trial(experiment, number) for number in range(3)])
    assert found is not None
    assert (found.arm, found.router, found.pps.median, found.pps.n) == (
        "direct", "victim", 720_900, 3,
    )  # fmt: skip


def test_a_generator_that_was_held_up_tells_the_rate_while_it_sent(tmp_path: Path) -> None:
    """It stood still for 3 % of the window; one that is late for every frame is at its limit."""
    one = data.capacity_trial(data.experiment(tmp_path, data.NOISY), 0)
    late = Lateness(count=1, missed=1, p50_ns=500, p99_ns=500, p999_ns=500, max_ns=500)
    frames = {"offered_frames": 25_000, "generated_frames": 24_250, "received_frames": 19_400}
    short = offered(one, 250e3, 194e3)
    router = short.routers[0].model_copy(update={**frames, "lateness": late})
    (found,) = arm_capacities([short.model_copy(update={"routers": (router,), "invalid": ()})])
    assert (found.mfr_load_pps, round(found.mfr_pps.median)) == (250e3, 200_000)
    at_limit = router.model_copy(update={"lateness": late.model_copy(update={"p50_ns": 3e5})})
    assert arm_capacities([short.model_copy(update={"routers": (at_limit,), "invalid": ()})]) == ()

"""Xen experiments: figures of series, claims that can fail, and the simulator's answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import numpy as np
import pytest

from isolane.errors import SpecError
from isolane.reproduce.adamczyk import EXPERIMENTS, PAPER, adamczyk_claims, measures
from isolane.reproduce.adamczyk.runs import (
    Course,
    Job,
    Repeats,
    interval,
    load_experiment,
    load_host,
    run,
    simulate,
)
from isolane.reproduce.adamczyk.spec import Sweep, XenHost
from isolane.reproduce.adamczyk.variant_model import model, weights_at
from isolane.reproduce.model import Item, Options, Result
from isolane.reproduce.workers import Pool
from isolane.spec.loader import parse_file

NAMES = sorted({name for names in EXPERIMENTS.values() for name in names})


def repeats(name: str, variant: str, *courses: tuple[Sequence[float], Sequence[float]]) -> Repeats:
    """Return made-up courses: throughput of vm1 and vm2 by second."""
    experiment = load_experiment(name)
    seconds = len(courses[0][0])
    experiment = experiment.model_copy(update={"duration": float(seconds)})
    (which,) = [one for one in experiment.variants if one.name == variant]
    made = tuple(Course({"vm1": np.array(a), "vm2": np.array(b)}, 0) for a, b in courses)
    return Repeats(experiment, which, made)


def verdicts(found: dict[str, dict[str, Repeats]], name: str) -> dict[str, bool]:
    return {claim.text: claim.reproduced for claim in adamczyk_claims.of(found, [name])}


def test_an_interval_is_students() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.low is not None
    # t(0.975; 2) = 4.303, standard error 1 / sqrt 3.
    assert found.mean - found.low == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert interval([5.0]).low is None


def test_domination_is_counted_in_seconds_on_end() -> None:
    vm1 = [50.0] * 3 + [90.0] * 4 + [50.0] + [5.0] * 6 + [50.0]
    vm2 = [95.0 - value for value in vm1]
    it = repeats("no-rate", "unmodified", (vm1, vm2))
    assert measures.longest_domination_s(it) == 6
    assert measures.max_share(it) == pytest.approx(90 / 95)


def test_the_half_width_is_that_of_ten_repeats() -> None:
    courses = [([20.0 + i % 2] * 10, [20.0] * 10) for i in range(30)]
    it = repeats("equal-rates", "rate-25", *courses)
    deviation = np.std([i % 2 for i in range(30)], ddof=1)
    # The other guest does not vary: half of vm1's.
    assert measures.half_width(it) == pytest.approx(2.262 * deviation / 10**0.5 / 2, rel=1e-3)


def test_claims_are_decided_by_the_series() -> None:
    alternating = ([0.0] * 2 + [95.0] * 20, [0.0] * 2 + [0.0] * 20)
    even = ([47.5] * 22, [47.5] * 22)

    def said(
        unmodified: tuple[list[float], list[float]], looks: tuple[list[float], list[float]]
    ) -> list[bool]:
        variants = {
            "unmodified": repeats("no-rate", "unmodified", unmodified),
            "looks": repeats("no-rate", "looks", looks),
        }
        return list(verdicts({"no-rate": variants}, "no-rate").values())

    assert said(alternating, even) == [True, True, True]
    assert said(even, even) == [False, False, True]
    assert said(alternating, alternating) == [True, True, False]


def test_what_was_not_simulated_is_not_claimed() -> None:
    assert adamczyk_claims.of({}, NAMES) == ()


class Stopped:
    """Workers that are interrupted after so many jobs; a course tells which job it was."""

    interrupted = True

    def __init__(self, after: int) -> None:
        self.after = after

    def map(
        self,
        function: Callable[[Item], Result],  # noqa: ARG002 - the protocol's
        items: Iterable[Item],
        label: str = "",  # noqa: ARG002
    ) -> list[Result]:
        jobs = [cast("Job", item) for item in items][: self.after]
        courses = [
            Course({vm: np.full(2, job.seed) for vm in job.variant.guests}, len(job.variant.name))
            for job in jobs
        ]
        return cast("list[Result]", courses)


@pytest.mark.parametrize("after", [4, 10_000])
def test_all_variants_advance_alike_and_each_keeps_its_own_in_order(after: int) -> None:
    found = simulate(["connections", "priorities"], Options(seed=7), Stopped(after))
    assert list(found) == ["connections", "priorities"]
    assert list(found["connections"]) == ["two", "three"]
    counts = [len(it.courses) for variants in found.values() for it in variants.values()]
    assert counts == ([2, 1, 1] if after == 4 else [24, 24, 1])
    for variants in found.values():
        for name, it in variants.items():
            assert {course.lost_after_netback for course in it.courses} == {len(name)}
            seeds = [course.mbps["vm1"][0] for course in it.courses]
            assert seeds == [7000 + i for i in range(len(seeds))]


def test_a_disk_load_too_short_to_tell_is_not_claimed() -> None:
    short = repeats("disk", "unmodified", ([95.0] * 17, [0.0] * 17))
    variants = dict.fromkeys(("unmodified", "improved", "protected"), short)
    assert adamczyk_claims.of({"disk": variants}, ["disk"]) == ()


def test_weights_go_from_one_to_the_other() -> None:
    sweep = Sweep.model_validate({"most": 30})
    steps = [weights_at(sweep, second, 150) for second in range(150)]
    assert steps[0] == (30, 1)
    assert steps[-1] == (1, 30)
    assert all(one + other == 31 for one, other in steps)


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_becomes_a_model_of_its_own_seed(name: str) -> None:
    experiment, host = load_experiment(name), load_host(None)
    for variant in experiment.variants:
        first, again, other = (model(host, experiment, variant, seed) for seed in (1, 1, 2))
        assert first == again
        assert [t["start_ns"] for t in first["traffic"]] != [
            t["start_ns"] for t in other["traffic"]
        ]


def test_a_missing_or_negative_cost_is_named() -> None:
    data = load_host(None).model_dump(mode="json")
    del data["costs"]["bridge"]
    data["buffers"]["output"] = 0
    with pytest.raises(SpecError, match="output"):
        parse_file(json.dumps(data), "xen.yaml", XenHost, "a Xen host")
    data["buffers"]["output"] = 50
    with pytest.raises(SpecError, match="bridge"):
        parse_file(json.dumps(data), "xen.yaml", XenHost, "a Xen host")


@pytest.mark.native
def test_the_same_seed_gives_the_same_series() -> None:
    experiment, host = load_experiment("no-rate", scale=0.01), load_host(None)
    first, again = (run(Job(host, experiment, experiment.variants[0], 3)) for _ in range(2))
    assert first.lost_after_netback == again.lost_after_netback
    for vm in ("vm1", "vm2"):
        assert np.array_equal(first.mbps[vm], again.mbps[vm])


@pytest.mark.native
@pytest.mark.parametrize("name", ["no-rate-improved", "minimum-rates", "random-sizes"])
def test_who_looks_at_the_output_loses_nothing_behind_netback(name: str) -> None:
    experiment, host = load_experiment(name, scale=0.1), load_host(None)
    for variant in experiment.variants:
        found = run(Job(host, experiment, variant, 1))
        assert (found.lost_after_netback == 0) == variant.look
        # The link is full, and never more than that.
        total = found.mbps["vm1"][2:] + found.mbps["vm2"][2:]
        assert (total < 96).all()
        assert (total > 85).all()


@pytest.mark.native
def test_rates_are_kept_and_the_late_one_is_late() -> None:
    experiment, host = load_experiment("equal-rates", scale=0.4), load_host(None)
    found = run(Job(host, experiment, experiment.variants[0], 1))
    assert found.mbps["vm2"][0] == 0
    for series in found.mbps.values():
        # A second may hold the credit of one period more than its own, 1/20.
        assert series.max() < 25 * 1.06


@pytest.mark.native
def test_a_figure_is_reproduced_with_rows_claims_and_a_plot() -> None:
    with Pool(jobs=1) as pool:
        found = PAPER.reproduce(["10"], Options(scale=0.1), pool)
    assert {row.quantity for row in found.rows} == {"throughput of vm1", "throughput of vm2"}
    assert [claim.figure for claim in found.claims] == ["figure 10", "figure 10"]
    assert {point.series for point in found.plots[0].points} == {"vm1", "vm2"}
    assert found.complete

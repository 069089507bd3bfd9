"""The answer: which arm it names, in which order, and in which words."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from isolane.analysis.answer import BEST_FIRST, _rank, answer, answer_of
from isolane.analysis.answer_words import (
    clearly_faster,
    figures,
    headings,
    lost_line,
    moved_words,
    sentences,
)
from isolane.analysis.more_repeats import repeat_s
from isolane.analysis.test_cells import cell, summary_of
from isolane.analysis.test_missing import isolated
from isolane.analysis.test_victim_findings import receiving
from isolane.report import test_data as data
from isolane.results.generator_models import MovedPoint
from isolane.results.interval import Interval
from isolane.results.results import Summary, Trial
from isolane.results.verdict_models import AnswerRow, Finding

SHARES = {"direct": 1.0, "macvlan": 0.4, "bridge": 0.1}
MAX_WORDS = 20


def about(median: float, half: float = 0.0) -> Interval:
    return Interval(median=median, low=median - half, high=median + half, n=5)


def row(
    arm: str, finding: Finding | None, keeps: float | None = None, total: float = 1e6
) -> AnswerRow:
    return AnswerRow(
        arm=arm,
        finding=finding,
        keeps=None if keeps is None else about(keeps),
        keeps_at=None if keeps is None else "aggressor 2x",
        delay_p99_ns=None,
        alone_p99_ns=None,
        total_pps=about(total),
        total_share=total / 1e6,
    )


def undecided(arm: str, keeps: float, low: float, high: float) -> AnswerRow:
    interval = Interval(median=keeps, low=low, high=high, n=6)
    return row(arm, "undecided").model_copy(update={"keeps": interval})


def over_invocations(arm: str) -> AnswerRow:
    found = undecided(arm, 0.91, 0.85, 0.97)
    assert found.keeps is not None
    several = found.keeps.model_copy(update={"invocations": 6})
    return found.model_copy(update={"keeps": several})


@pytest.mark.parametrize(
    ("rows", "repeat_s", "told"),
    [
        ([undecided("bridge", 0.91, 0.85, 0.97)], 30.0, "try --repeats 14, about 7 min"),
        ([undecided("bridge", 0.91, 0.85, 0.97)], None, "try --repeats 14"),
        ([undecided("macvlan", 0.99, 0.93, 1.0)], 2.0, "try --repeats 14, about 1 min"),
        ([undecided("macvlan", 0.9, 0.7, 0.96)], 2.0, "try --repeats 9, about 1 min"),
        ([undecided("macvlan", 0.95, 0.9, 1.0)], 2.0, "100 repeats may not decide"),
        (
            [undecided("macvlan", 0.951, 0.9, 1.0), undecided("bridge", 0.91, 0.85, 0.97)],
            2.0,
            "100 repeats may not decide",
        ),
        ([row("bridge", "undecided", 0.9)], 2.0, "more --repeats"),
        ([over_invocations("bridge")], 2.0, "more --invocations"),
    ],
)
def test_what_is_undecided_says_what_would_decide_it(
    rows: list[AnswerRow], repeat_s: float | None, told: str
) -> None:
    found = sentences(rows, simulated=False, repeat_s=repeat_s)
    assert found[-1].endswith(f" ({told}).")


def test_a_round_lasts_from_its_first_trial_to_that_of_the_next(tmp_path: Path) -> None:
    trials = data.trials_of(data.experiment(tmp_path, data.NOISY, 5), 5)
    timed = [
        trial.model_copy(update={"started_unix_s": 100.0 + 7 * trial.repeat + trial.trial / 1e3})
        for trial in trials
    ]
    assert repeat_s(timed) == pytest.approx(7.0, abs=0.1)
    assert repeat_s([trial for trial in timed if trial.repeat == 0]) is None
    still = [trial.model_copy(update={"started_unix_s": 0.0}) for trial in trials]
    assert repeat_s(still) is None, "a simulation has no times"


def by_arm(trial: Trial) -> Trial:
    """Give each arm's victims under attack their share of what they are offered."""
    if trial.purpose == "capacity":
        return trial
    share = 1.0 if trial.point == 0 else SHARES[trial.arm]
    routers = tuple(receiving(r, share) if r.role == "victim" else r for r in trial.routers)
    return trial.model_copy(update={"routers": routers})


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """A run in which one arm isolates, and two do not."""
    return summary_of(tmp_path_factory.mktemp("mixed"), repeats=5, change=by_arm)


def test_the_arm_that_isolates_is_first_and_is_named(mixed: Summary) -> None:
    found = answer_of(mixed)
    assert found == mixed.answer
    assert [(one.arm, one.finding) for one in found.rows] == [
        ("direct", "isolated"),
        ("macvlan", "not isolated"),
        ("bridge", "not isolated"),
    ]
    assert found.use == "direct"
    assert found.sentences[:2] == (
        "On this host, use direct: its victim keeps 100 % at worst.",
        "On bridge it keeps 10 %.",
    )


def test_a_row_says_what_the_run_found(mixed: Summary) -> None:
    found = answer_of(mixed)
    bridge = found.rows[2]
    judged = next(arm for arm in mixed.verdict.arms if arm.arm == "bridge")
    assert (bridge.keeps, bridge.keeps_at) == (judged.delivered, judged.point_label)
    worst = next(
        one
        for one in mixed.cells
        if (one.arm, one.point_label, one.role) == ("bridge", judged.point_label, "victim")
    )
    assert worst.reference is not None
    alone = cell(mixed, "bridge", worst.reference, worst.router)
    assert bridge.delay_p99_ns == worst.delay_p99_ns
    assert bridge.alone_p99_ns == alone.delay_p99_ns
    heaviest = max(mixed.aggregates, key=lambda one: one.offered_pps.median)
    totals = {
        one.arm: one.throughput_pps for one in mixed.aggregates if one.point == heaviest.point
    }
    assert {one.arm: one.total_pps for one in found.rows} == totals
    top = max(total.median for total in totals.values())
    assert bridge.total_share == pytest.approx(totals["bridge"].median / top)
    assert found.total_at == heaviest.point_label


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ((2e5, math.inf), "- (100 µs)"),
        ((math.inf, math.inf), "inf (100 µs)"),
        ((2e5, 3e5), "250 µs (100 µs)"),
        ((2e5, math.inf, math.inf), "inf (100 µs)"),
    ],
)
def test_there_is_nothing_between_a_delay_and_a_loss(values: tuple[float, ...], told: str) -> None:
    """A p99 of two trials is that of neither, if only one of them lost more than 1 %."""
    p99 = Interval(
        median=statistics.median(values), low=min(values), high=max(values), n=len(values)
    )
    alone = about(1e5)
    given = {"delay_p99_ns": p99, "alone_p99_ns": alone}
    shown = figures(row("direct", "isolated", 1.0).model_copy(update=given))
    assert shown[4] == told


def test_a_run_of_an_older_version_has_its_answer_from_what_it_kept(mixed: Summary) -> None:
    older = mixed.model_copy(update={"answer": None})
    assert answer_of(older) == mixed.answer


def test_a_missing_point_makes_no_arm_the_answer(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda trial: trial.point == 4)
    told = answer_of(found)
    assert told.use is None
    assert told.sentences == ("No verdict: macvlan, direct and bridge. The report says why.",)
    assert lost_line(found) == f"Of {found.trials} trials 9 gave no verdict"


def test_without_victims_the_fastest_arm_is_the_answer(tmp_path: Path) -> None:
    text = data.NOISY.replace("role: victim", "role: router").replace(
        "role: aggressor", "role: router"
    )
    found = summary_of(tmp_path, text, repeats=5)
    told = answer_of(found)
    rates = [one.total_pps.median for one in told.rows if one.total_pps]
    assert rates == sorted(rates, reverse=True)
    assert len(rates) == 3
    assert {one.finding for one in told.rows} == {None}
    assert told.rows[0].arm in told.sentences[0]


def test_a_run_without_a_result_says_why(tmp_path: Path) -> None:
    found = isolated(tmp_path, lambda _: True)
    none = answer(found.verdict, (), (), simulated=False)
    assert none.use is None
    assert none.sentences


CASES: list[tuple[list[AnswerRow], str]] = [
    (
        [row("direct", "isolated", 1.0, 9e5), row("bridge", "not isolated", 0.3)],
        (
            "On this host, use direct: its victim keeps 100 % at worst. On bridge it keeps 30 %. "
            "The routers of direct together forward 10 % less than those of bridge."
        ),
    ),
    (
        [row("direct", "isolated", 1.0), row("bridge", "isolated", 1.0, 5e5)],
        "On this host, use direct: its victim keeps 100 % at worst. No arm forwards more.",
    ),
    (
        [row("direct", "nearly isolated", 0.97), row("bridge", "undecided", 0.9)],
        (
            "On this host, the nearest to isolated is direct: its victim keeps 97 % at worst. No "
            "arm forwards more. Undecided: bridge (more --repeats)."
        ),
    ),
    (
        [row("macvlan", "not isolated", 0.4), row("bridge", "not isolated", 0.1)],
        "On this host, no arm isolates the victim. It keeps the largest share on macvlan: 40 %.",
    ),
    (
        [row("direct", "undecided", 0.9), row("bridge", "not isolated", 0.1)],
        (
            "On this host, bridge does not isolate the victim: it keeps 10 %. "
            "Undecided: direct (more --repeats)."
        ),
    ),
    (
        [row("direct", "attack incomplete", 1.0), row("bridge", "never overloaded", 1.0)],
        (
            "Attack incomplete: the generator could not send its whole load on direct. "
            "Never overloaded: bridge. Offer the aggressor more."
        ),
    ),
    (
        [row(name, "overloaded alone", 0.5) for name in ("a", "b", "c", "d")],
        ("Overloaded without an attack, too: a, b, c and 1 more."),
    ),
    ([row("direct", None)], "On this host, direct forwards 1 Mpps."),
    (
        [row("direct", None), row("bridge", None, total=5e5)],
        "On this host, direct forwards more than any other arm: 1 Mpps.",
    ),
    (
        [row("direct", None), row("bridge", None)],
        "On this host, no arm is clearly the fastest; direct forwards 1 Mpps.",
    ),
]


def bound(one: AnswerRow) -> AnswerRow:
    return one.model_copy(update={"total_is_bound": True, "total_share": None})


def test_an_arm_that_may_forward_more_is_not_called_slower() -> None:
    rows = [row("bridge", None, total=1.5e6), bound(row("direct", None, total=1.1e6))]
    assert sentences(rows, simulated=False) == (
        "On this host, no arm is clearly the fastest; bridge forwards 1.5 Mpps.",
    )
    assert not clearly_faster(rows)
    first = row("direct", "isolated", 1.0, 6e5)
    more = sentences([first, bound(row("bridge", "undecided", 0.9, 1e6))], simulated=False)
    assert more[1] == (
        "The routers of direct together forward at least 40 % less than those of bridge."
    )
    less = sentences([first, bound(row("bridge", "undecided", 0.9, 5e5))], simulated=False)
    assert less[1].startswith("Undecided")


def late(arm: str, p99_us: float, half_us: float = 0.0, n: int = 5) -> AnswerRow:
    """Return an arm whose victim keeps all, and that forwards all."""
    p99 = Interval(
        median=1e3 * p99_us, low=1e3 * (p99_us - half_us), high=1e3 * (p99_us + half_us), n=n
    )
    return bound(row(arm, "isolated", 1.0)).model_copy(update={"delay_p99_ns": p99})


def test_arms_that_forward_all_are_told_apart_by_delay() -> None:
    all_that = "protected forwarded all that it was offered."
    rows = [late("protected", 700, 100), late("bridge", 3900), late("macvtap", 4000, 100)]
    assert sentences(rows, simulated=False)[1:] == (
        all_that,
        "Its p99 is 700 µs there, on macvtap 4 ms.",
    )
    for other in (late("macvtap", 4000, 3300), late("macvtap", 4000, n=1)):
        assert sentences([rows[0], other], simulated=False)[1:] == (all_that,)
    less = [
        row("bridge", "isolated", 1.0),
        late("bridge", 3900).model_copy(update={"finding": "not isolated"}),
    ]
    for other in less:
        assert "Its p99" not in " ".join(sentences([rows[0], other], simulated=False))
    named = sorted([rows[2], row("direct", "isolated", 1.0, 2e6), rows[0], rows[1]], key=_rank)
    assert [one.arm for one in named] == ["protected", "bridge", "macvtap", "direct"]


@pytest.mark.parametrize(("rows", "told"), CASES, ids=[told[:40] for _, told in CASES])
def test_sentences(rows: list[AnswerRow], told: str) -> None:
    found = sentences(rows, simulated=False)
    assert " ".join(found) == told
    for sentence in " ".join(found).split(". "):
        assert len(sentence.split()) <= MAX_WORDS, sentence


def test_a_prediction_speaks_of_the_simulated_host() -> None:
    (told, *_) = sentences([row("direct", "isolated", 1.0)], simulated=True)
    assert told.startswith("On the simulated host, use direct")


def test_every_finding_has_a_rank_and_every_figure_a_heading(mixed: Summary) -> None:
    assert set(BEST_FIRST) == set(Finding.__args__)  # type: ignore[attr-defined]
    found = answer_of(mixed)
    assert {len(figures(one)) for one in found.rows} == {len(headings(found))}
    assert "[" in figures(found.rows[0])[2]
    assert figures(row("direct", "no verdict"))[2:5] == ("-", "-", "-")


def moved(arm: str, aggressor_x: float | None) -> MovedPoint:
    return MovedPoint(
        arm=arm,
        point=2,
        point_label="aggressor 2x",
        intended_pps=2e6,
        offered_pps=5e5,
        aggressor_x=aggressor_x,
    )


def test_loads_that_could_not_be_sent_are_told_once() -> None:
    told = "For aggressor 2x the generator sends no more than "
    lighter = moved("direct", 0.4).model_copy(update={"point": 1, "intended_pps": 1e6})
    assert moved_words(()) == ()
    assert moved_words([moved("direct", 0.5), lighter]) == (f"{told}0.5x on direct.",)
    assert moved_words([moved("direct", None), moved("bridge", 1.5)]) == (
        f"{told}500 kpps on direct and 1.5x on bridge.",
    )
    many = [moved(name, 0.5) for name in ("a", "b", "c", "d")]
    assert moved_words(many)[0].endswith("c; further arms are in the report.")


def test_a_total_of_which_nothing_was_lost_is_a_bound(mixed: Summary) -> None:
    whole = [
        one.model_copy(update={"throughput_pps": one.offered_pps}) if one.arm == "direct" else one
        for one in mixed.aggregates
    ]
    found = answer(mixed.verdict, mixed.cells, whole, simulated=False)
    best = found.rows[0]
    assert (best.arm, best.total_is_bound, best.total_share) == ("direct", True, None)
    assert figures(best)[-1].startswith(">")
    assert "direct forwarded all that it was offered." in found.sentences
    assert not any(one.total_is_bound for one in found.rows[1:])

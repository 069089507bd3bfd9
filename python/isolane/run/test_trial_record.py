"""Which reasons leave a trial valid, and what its record says."""

import pytest

from isolane.results.invalid import ABOUT_DELAY, InvalidKind, InvalidReason
from isolane.results.results import GeneratorAudit, Purpose
from isolane.run.schedule import Task
from isolane.run.trial_record import Attempt
from isolane.spec import Arm, Point
from isolane.trials.backend import Observation

AUDIT = GeneratorAudit(
    requested_pps=0, achieved_pps=0, rate_error=0, departure_p50_ns=None, departure_p99_ns=None,
    departure_max_ns=None, busy=0, saturated=False,
)  # fmt: skip
SPOILS = {
    InvalidKind.GENERATOR_LIMIT,
    InvalidKind.RECEIVER_LIMIT,
    InvalidKind.MISPLACED,
    InvalidKind.UNACCOUNTED,
    InvalidKind.NOT_BUILT,
}
"""The finding would be wrong if such a trial counted."""


def attempt(*kinds: InvalidKind, purpose: Purpose = "measure", repeatable: bool = False) -> Attempt:
    reasons = tuple(InvalidReason(kind, f"this is {kind}") for kind in kinds)
    task = Task(Arm("direct", "softirq", 0, 1, ()), Point(0, "alone", ()), 0, purpose)
    seen = Observation((), (), AUDIT, None, conserved=True, invalid=reasons)
    return Attempt(0, task, 0.0, 1_000_000, seen, repeatable=repeatable)


@pytest.mark.parametrize("kind", InvalidKind)
def test_a_trial_counts_unless_its_finding_would_be_wrong(kind: InvalidKind) -> None:
    found = attempt(kind).trial()
    assert found.status == ("no-verdict" if kind in SPOILS else "ok")
    assert (found.invalid, found.reason) == ((kind,), f"this is {kind}"), "it is told either way"


@pytest.mark.parametrize("kind", InvalidKind)
def test_one_that_can_be_made_again_also_must_not_have_been_paused(kind: InvalidKind) -> None:
    found = attempt(kind, repeatable=True).trial()
    assert found.status == ("no-verdict" if kind in SPOILS | {InvalidKind.PAUSED} else "ok")


def test_what_spoils_a_trial_is_told_first() -> None:
    found = attempt(InvalidKind.DISTURBED, InvalidKind.MISPLACED).trial()
    assert found.reason == "this is misplaced; this is disturbed"


@pytest.mark.parametrize("purpose", ["capacity", "search"])
def test_where_the_rate_alone_is_asked_for_delays_do_not_matter(purpose: Purpose) -> None:
    found = attempt(*ABOUT_DELAY, InvalidKind.DISTURBED, purpose=purpose).trial()
    assert (found.status, found.invalid) == ("ok", (InvalidKind.DISTURBED,))

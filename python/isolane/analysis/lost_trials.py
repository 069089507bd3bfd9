"""Lost trials: how many each arm lost to invalid reasons.

Trials are not lost at random: a busy host loses more of them where it is busiest. So what is left
may be too kind, and the count stands beside the verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isolane.analysis.attempts import key_of
from isolane.results.quality_models import LostTrials
from isolane.results.results import Trial


def lost_trials(
    arms: Sequence[str], planned: int, trials: Sequence[Trial]
) -> tuple[LostTrials, ...]:
    """Count the lost trials of each arm.

    Parameters
    ----------
    arms
        Names of all arms.
    planned
        Trials of each arm.
    trials
        All trials of the run.
    """
    measured = [trial for trial in trials if trial.purpose == "measure"]
    return tuple(_of_arm(arm, planned, [t for t in measured if t.arm == arm]) for arm in arms)


def _of_arm(arm: str, planned: int, own: Sequence[Trial]) -> LostTrials:
    invalid = [trial for trial in own if trial.status == "no-verdict"]
    valid = {key_of(trial) for trial in own if trial.status == "ok"}
    return LostTrials(
        arm=arm,
        planned=planned,
        invalid=len(invalid),
        failed=sum(trial.status == "failed" for trial in own),
        lost=len({key_of(trial) for trial in own} - valid),
        reasons=dict(Counter(kind.value for trial in invalid for kind in trial.invalid or ())),
    )

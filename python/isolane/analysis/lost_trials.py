"""Lost trials: how many each arm lost to invalid reasons, and what they could have changed.

Trials are not lost at random: a busy host loses more of them where it is busiest. So what is left
may be too kind. Two extremes bound what the lost trials would have shown (worst-case bounds,
Horowitz and Manski, JASA 95, 2000): the victim received nothing in all of them, or everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from isolane.analysis.attempts import key_of
from isolane.analysis.delivery import attack_of
from isolane.results.quality_models import LostTrials
from isolane.results.results import Finding, RouterTrial, Trial, Verdict

Judge = Callable[[Sequence[Trial]], Verdict]


def lost_trials(
    arms: Sequence[str], planned: int, trials: Sequence[Trial], judge: Judge
) -> tuple[LostTrials, ...]:
    """Count the lost trials of each arm, and try both extremes.

    Parameters
    ----------
    arms
        Names of all arms.
    planned
        Trials of each arm, its twin's left out.
    trials
        All trials of the run.
    judge
        Gives the verdict on trials.
    """
    measured = [trial for trial in trials if trial.purpose == "measure"]
    found = _findings(judge(measured)) if _lost(measured) else {}
    worst = _findings(judge([*measured, *_imputed(measured, received=False)])) if found else {}
    best = _findings(judge([*measured, *_imputed(measured, received=True)])) if found else {}
    return tuple(
        _of_arm(arm, planned, measured, (found.get(arm), worst.get(arm), best.get(arm)))
        for arm in arms
    )


def _findings(verdict: Verdict) -> dict[str, Finding]:
    return {found.arm: found.finding for found in verdict.arms}


def _of_arm(
    arm: str,
    planned: int,
    measured: Sequence[Trial],
    findings: tuple[Finding | None, Finding | None, Finding | None],
) -> LostTrials:
    own = [trial for trial in measured if trial.arm == arm]
    invalid = [trial for trial in own if trial.status == "no-verdict"]
    lost = len({key_of(trial) for trial in _lost(own)})
    found, worst, best = findings if lost else (None, None, None)
    late = any(router.mode == "http" for trial in own for router in trial.routers)
    if found == "no verdict" or late:  # nothing could change, or by how late answers would be
        found, worst, best = None, None, None
    return LostTrials(
        arm=arm,
        planned=planned,
        invalid=len(invalid),
        failed=sum(trial.status == "failed" for trial in own),
        lost=lost,
        reasons=dict(Counter(kind.value for trial in invalid for kind in trial.invalid or ())),
        could_change=found is not None and {worst, best} != {found},
        at_worst=worst,
        at_best=best,
    )


def _lost(trials: Sequence[Trial]) -> list[Trial]:
    """Return one attempt at each trial that has no valid one."""
    valid = {key_of(trial) for trial in trials if trial.status == "ok"}
    last = {key_of(trial): trial for trial in trials}
    return [trial for key, trial in last.items() if key not in valid]


def _imputed(measured: Sequence[Trial], *, received: bool) -> Iterator[Trial]:
    """Yield a made-up trial for each lost one whose point has a valid trial to copy."""
    valid = {(trial.arm, trial.point): trial for trial in measured if trial.status == "ok"}
    number = max((trial.trial for trial in measured), default=0)
    for lost in _lost(measured):
        copy = valid.get((lost.arm, lost.point))
        if copy is None:
            continue  # the point is missing, and the finding says so
        number += 1
        reference = attack_of(copy) == min(
            attack_of(trial) for key, trial in valid.items() if key[0] == lost.arm
        )
        # What a victim has when nobody attacks is no question; only that round's is missing.
        routers = copy.routers if reference else tuple(_as(r, received) for r in copy.routers)
        update = {"trial": number, "repeat": lost.repeat, "routers": routers}
        yield copy.model_copy(update={**update, "invocation": lost.invocation})


def _as(router: RouterTrial, received: bool) -> RouterTrial:  # noqa: FBT001 - which extreme
    if router.role != "victim":
        return router
    frames = router.generated_frames if received else 0
    return router.model_copy(
        update={
            "received_frames": frames,
            "received_pps": router.generated_pps if received else 0.0,
            "loss_ratio": 0.0 if received else 1.0,
            "delay": router.delay if received else None,
        }
    )

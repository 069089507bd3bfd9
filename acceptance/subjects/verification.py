"""What ``verify`` and ``search`` tell: of policies that are kept, sabotaged, and of shapers.

Both repeat and compare by themselves, so their own answer decides: ``verify`` calls a promise of
its table wrongly held or broken with a probability of 5 % at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from isolane.results.folder import RunFolder
from isolane.results.search_results import Searched

from acceptance.subject import Command, Decided, Verdict
from acceptance.subjects.rigs import living_on_rig
from tests.live import ROOT, await_free, isolane
from tests.shaped import LIMITS, SHAPED
from tests.verifying import (
    CPU,
    LINK,
    RUNNING,
    findings,
    into_the_others_group,
    really,
    verify_while,
    without_its_class,
)

SHIPPED = ROOT / "examples" / "policy.yaml"
SHIPPED_S, LINK_S, QUICK_S, SEARCH_S = 120.0, 60.0, 50.0, 45.0
WITHIN = 0.005
"""Of a shaper's rate."""
_OPPOSITE: Mapping[Verdict, Verdict] = {"held": "broken", "broken": "held"}


def _verified(text: str, folder: Path, *options: str) -> Sequence[Decided]:
    """Verify a policy; each of its promises is one of ours."""
    file = folder / "policy.yaml"
    file.write_text(text)
    await_free()
    done = isolane("verify", file, "--json", *options)
    return [
        Decided(f"{router}: {promise}", *_answer(finding))
        for (router, promise), finding in findings(done).items()
    ]


def _answer(finding: Mapping[str, Any]) -> tuple[Verdict, str]:
    """Return verify's own answer, and its reason or figures."""
    why = finding["why"]
    told = _figures(finding) if finding["measured"] is not None else None
    return finding["verdict"], "; ".join(filter(None, (told, why)))


def _figures(finding: Mapping[str, Any]) -> str:
    return f"{finding['measured']:.4g} of {finding['promised']:.4g} promised"


def _sabotaged(
    policy: str, work: Any, router: str, promise: str, name: str, folder: Path
) -> Sequence[Decided]:
    """Verify a policy that somebody tampers with; it is to be called broken."""
    _, found = verify_while(folder, policy, work, "--time-limit", f"{QUICK_S:.0f}s")
    answer, why = _answer(found[router, promise])
    return [Decided(name, _OPPOSITE.get(answer, "undecided"), f"verify says {answer}: {why}")]


def _running(name: str, folder: Path) -> Sequence[Decided]:
    """Verify running routers between their own interfaces."""
    with living_on_rig(folder) as rig:
        rig.apply("100Mbps", **RUNNING)
        found = findings(really(rig, rig.file("100Mbps", **RUNNING)))
    return [Decided(name, *_answer(found["vr1", "rate_min"]))]


def _searched(arm: str, folder: Path) -> Sequence[Decided]:
    """Search for the rates of a shaper; the search confirms them by repeats."""
    file, target = folder / "shaped.yaml", folder / "found"
    others = [f"name: {other}," for other in LIMITS if other != arm]
    lines = SHAPED.splitlines()
    file.write_text("\n".join(line for line in lines if not any(o in line for o in others)))
    await_free()
    isolane("search", file, "--time-limit", f"{SEARCH_S:.0f}s", "--output", target)
    summary = RunFolder.open(target).search()
    assert summary is not None
    (searched,) = summary.searched
    rates = [rate for rate in searched.rates if rate.name in _RATES]
    return [*(_of_rate(rate.name, rate, LIMITS[arm]) for rate in rates), _above(searched, arm)]


_RATES = ("NDR", "PDR", "MFR")
_ABOVE = "no confirmed rate is above the limit"


def _above(searched: Searched, arm: str) -> Decided:
    """Look at all rates that trials have confirmed, those that are bounds included."""
    limit_pps = (1 + WITHIN) * LIMITS[arm]
    told = {
        rate.name: rate.throughput_pps
        for rate in searched.rates
        if rate.throughput_pps is not None and rate.trials and rate.status != "unfinished"
    }
    if not told:
        return Decided(_ABOVE, "undecided", "none is confirmed within the time limit")
    above = [f"{name} {pps:.0f} pps" for name, pps in told.items() if pps > limit_pps]
    return Decided(_ABOVE, "broken" if above else "held", ", ".join(above or told))


def _of_rate(name: str, rate: Any, limit_pps: float) -> Decided:
    if rate.status != "found" or rate.throughput_pps is None:
        return Decided(name, "undecided", f"{rate.status} within the time limit")
    told = f"{rate.throughput_pps:.0f} of {limit_pps:.0f} pps"
    return Decided(
        name, "held" if abs(rate.throughput_pps / limit_pps - 1) <= WITHIN else "broken", told
    )


MOVED, REMOVED = "a thread in another's group is found out", "a class that was removed is found out"
ON_THEIR_OWN = "a guaranteed rate of running routers"

COMMANDS = (
    Command(
        "verify, the shipped policy",
        (),
        lambda folder: _verified(SHIPPED.read_text(), folder, "--time-limit", f"{SHIPPED_S:.0f}s"),
        SHIPPED_S,
    ),
    Command(
        "verify, a link of 100 Mbit/s",
        (),
        lambda folder: _verified(LINK, folder, "--time-limit", f"{LINK_S:.0f}s"),
        LINK_S,
    ),
    Command(
        "verify, a moved thread",
        (MOVED,),
        partial(_sabotaged, CPU, into_the_others_group, "heavy", "cpu_weight", MOVED),
        QUICK_S,
    ),
    Command(
        "verify, a removed class",
        (REMOVED,),
        partial(_sabotaged, LINK, without_its_class, "promised", "rate_min", REMOVED),
        QUICK_S,
    ),
    Command("verify, running routers", (ON_THEIR_OWN,), partial(_running, ON_THEIR_OWN), QUICK_S),
    *(
        Command(
            f"search for a shaper of {arm}",
            (*_RATES, _ABOVE),
            partial(_searched, arm),
            SEARCH_S,
        )
        for arm in LIMITS
    ),
)

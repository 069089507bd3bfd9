"""Links: rates, priorities and shares kept on a NIC, for small, large and mixed frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isolane.spec.units import wire_bps
from isolane.testbed import Journal

from benches.beds import Arm, bed, host
from benches.common import Check, Options, Outcome, main, median

FRAMES = {"64": ("10Mbps", 64.0), "1518": ("100Mbps", 1518.0), "imix": ("50Mbps", 362.0)}
"""Frame size: link rate (slow enough that the core is not the limit), mean frame in bytes."""


@dataclass(frozen=True)
class Case:
    """Policies, offered loads as shares of the link, and the share that the first is to get."""

    name: str
    policies: tuple[str, ...]
    offered: tuple[float, ...]
    wanted: float
    within: float
    """Relative error that is asked for."""
    of_rest: bool = False
    """The share is that of all that was forwarded."""


def cases(link_mbps: float) -> tuple[Case, ...]:
    """Return what is tried on a link."""
    minimum = f"rate_min: {0.6 * link_mbps:g}Mbps"
    ceiling = f"rate_max: {0.3 * link_mbps:g}Mbps"
    return (
        Case(
            "rate_min 60 %, just used, two aggressors at line rate",
            (minimum, "", ""),
            (0.6, 1.0, 1.0),
            0.6,
            0.01,
        ),
        Case("rate_max 30 %, offered the line rate", (ceiling, ""), (1.0, 0.1), 0.3, 0.01),
        Case(
            "priority strict: 90 % offered first, line rate behind",
            ("priority: 0", ""),
            (0.9, 1.0),
            0.9,
            0.01,
        ),
        Case(
            "link_weight 3:1, both at line rate",
            ("link_weight: 3", "link_weight: 1"),
            (1.0, 1.0),
            0.75,
            0.02,
            of_rest=True,
        ),
    )


def measure(size: str, case: Case, journal: Journal, options: Options) -> float:
    """Return the share of the link (or of all) that the first router got; the median."""
    line, mean_bytes = FRAMES[size]
    link_bps = float(line.removesuffix("Mbps")) * 1e6
    full_pps = link_bps / wire_bps(1.0, mean_bytes)
    arm = Arm("isolane", case.policies, line_rate=line, frame_size=size)
    shares = []
    with bed(arm, journal, options.seconds) as here:
        for _ in range(options.rounds):
            got = here.forwarded([0.999 * share * full_pps for share in case.offered])
            if got is None:
                continue
            whole = sum(got) if case.of_rest else full_pps
            shares.append(got[0] / whole)
    return median(shares)


def bench(options: Options) -> Outcome:
    """Go through sizes and cases."""
    rows, checks = [], []
    with host() as journal:
        for size, (line, _) in FRAMES.items():
            for case in cases(float(line.removesuffix("Mbps"))):
                share = measure(size, case, journal, options)
                error = share / case.wanted - 1
                what = f"{size}-byte frames, {line}: {case.name}".replace("imix-byte", "IMIX")
                figure = f"{100 * share:.2f} % ({100 * error:+.2f} %)"
                rows.append((what, figure, f"{100 * case.wanted:g} % within {case.within:.0%}"))
                met = None if math.isnan(error) else abs(error) <= case.within
                checks.append(Check(what, figure, met))
    return Outcome(
        title=f"Links: medians of {options.rounds}, {options.seconds:g} s each",
        columns=("what", "share of the link", "asked"),
        rows=rows,
        checks=checks,
        notes=["Shares are of the wire: preamble, gap and checksum of each frame count."],
        data={"rows": rows},
    )


if __name__ == "__main__":
    main("links", bench, Options(rounds=5, seconds=1.0), str(__doc__))

"""The claims of Adamczyk and Chydzinski, each checked against the simulation by computation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from isolane.reproduce.adamczyk import measures as m
from isolane.reproduce.adamczyk.guest_rows import Found
from isolane.reproduce.adamczyk.runs import Interval, Repeats, Series, interval
from isolane.reproduce.adamczyk.variant_model import weights_at
from isolane.reproduce.model import Claim

RATES = (25, 30, 35, 40)
EVEN = 0.05
"""A share that differs from one half by no more than this is even."""


def of(found: Found, names: Sequence[str]) -> tuple[Claim, ...]:
    """Return the claims of these experiments, as far as all they need was simulated."""
    return tuple(claim for name in names for claim in _claims(found, name))


def _claims(found: Found, name: str) -> Iterator[Claim]:
    for decide in CLAIMS[name]:
        try:
            yield from decide(found)
        except KeyError:  # interrupted, shortened, or not run: what it needs is not there
            continue


def _equal_rates(found: Found) -> Iterator[Claim]:
    variants = found["equal-rates"]
    by_rate = {rate: variants[f"rate-{rate}"] for rate in RATES}
    figure = "figure 5"
    ratios = [float(m.alone(it, "vm1").mean()) / rate for rate, it in by_rate.items()]
    yield Claim(
        figure=figure,
        text="The actual rate is always a little smaller than the parameter rate.",
        reproduced=all(0.9 < ratio < 1 for ratio in ratios),
        evidence="alone, a guest got " + _listed(ratios, "{:.1%}") + " of its rate",
    )
    widths = [m.half_width(it) for it in by_rate.values()]
    yield Claim(
        figure=figure,
        text="With growing rate the confidence intervals get larger: isolation weakens.",
        reproduced=widths[0] < widths[2] and widths[3] > 1.25 * widths[0],
        evidence=f"half widths of ten runs at {_listed(RATES, '{}')} Mbit/s: "
        + _listed(widths, "{:.1f}"),
    )
    losses = [interval(_lost_by_first(it)) for it in by_rate.values()]
    yield Claim(
        figure=figure,
        text="Isolation is not too bad at a rate of 25 Mbit/s and rather weak at 35 Mbit/s.",
        reproduced=losses[0].mean < 0.1 <= losses[2].mean,
        evidence="when the second guest sends, the first loses "
        + ", ".join(_with_interval(loss) for loss in losses)
        + " of what it had",
    )


def _lone_guest(found: Found) -> Iterator[Claim]:
    lone = m.after_warmup(found["equal-rates"]["alone-85"], "vm1")
    yield Claim(
        figure="figure 5",
        text="The throughput of a single VM is stable even above 80 Mbit/s.",
        reproduced=bool(lone.mean() > 80 and lone.std() < 0.02 * lone.mean()),
        evidence=f"alone, at a rate of 85 Mbit/s: {lone.mean():.1f} Mbit/s, "
        f"standard deviation {lone.std():.2f}",
    )


def _unequal_rates(found: Found) -> Iterator[Claim]:
    variants = found["unequal-rates"]
    widths = [m.half_width(it) for it in variants.values()]
    yield Claim(
        figure="figure 6",
        text="With rates of 30 and 40 Mbit/s the isolation problem remains.",
        reproduced=min(widths) > 1,
        evidence=f"half widths of the confidence intervals: {_listed(widths, '{:.1f}')} Mbit/s",
    )
    lost = {30: 0.0, 40: 0.0}
    for it in variants.values():
        for vm, guest in it.variant.guests.items():
            lost[round(guest.rate_max or 0)] += m.lost_to_the_other(it, vm) / len(variants)
    yield Claim(
        figure="figure 6",
        text="Both VMs affect each other similarly.",
        reproduced=max(lost.values()) < 2 * min(lost.values()),
        evidence=f"the guest with 30 Mbit/s loses {lost[30]:.1%} of its rate, the one with 40 "
        f"{lost[40]:.1%}",
    )


def _no_rate(found: Found) -> Iterator[Claim]:
    variants = found["no-rate"]
    it, figure = variants["unmodified"], "figure 7"
    largest = m.max_share(it)
    yield Claim(
        figure=figure,
        text="Without rate, sometimes one VM gets the total throughput and the other nearly none.",
        reproduced=largest >= 0.9,
        evidence=f"the largest share of one guest in a second is {largest:.1%}",
    )
    longest = m.longest_domination_s(it)
    yield Claim(
        figure=figure,
        text="There are long periods when one VM dominates the other by far.",
        reproduced=longest >= 10,
        evidence=f"one has more than {m.DOMINATES:.0%} for up to {longest:.0f} s on end",
    )
    looks = variants["looks"]
    yield Claim(
        figure=figure,
        text="The cause is that netback does not look at the output buffer.",
        reproduced=m.longest_domination_s(looks) == 0 and m.max_share(looks) < 0.5 + EVEN,
        evidence=f"with the look alone added, the largest share is {m.max_share(looks):.1%}"
        + _losses(looks, it),
    )


def _connections(found: Found) -> Iterator[Claim]:
    variants = found["connections"]
    two, three = (m.means(m.share(variants[name], "vm2")) for name in ("two", "three"))
    figure = "figure 8"
    for name, data in (("two", two), ("three", three)):
        it = interval(data)
        yield Claim(
            figure=figure,
            text=f"A VM with {name} connections gets more than one with a single connection.",
            reproduced=it.mean > 0.5 and (it.low is None or it.low > 0.5),
            evidence=f"its share is {_with_interval(it)}",
        )
    yield Claim(
        figure=figure,
        text="The more abusive the domain is, the better throughput it achieves.",
        reproduced=bool(three.mean() > two.mean() > 0.5),
        evidence=f"share with two connections {two.mean():.1%}, with three {three.mean():.1%}",
    )


def _disk(found: Found) -> Iterator[Claim]:
    variants = found["disk"]
    kept = {name: _kept(it) for name, it in variants.items()}
    during, after = kept["unmodified"]
    yield Claim(
        figure="figure 9",
        text="Disk operations of one VM have a strong impact on the network throughput of another.",
        reproduced=during < 0.8 and after > 0.98,
        evidence=f"{during:.1%} of it is kept during the disk load, {after:.1%} after",
    )
    during, _ = kept["improved"]
    yield Claim(
        figure="section V",
        text="The improved back-end does not address the influence of disk operations.",
        reproduced=during < 0.9,
        evidence=f"with it {during:.1%} is kept during the disk load",
    )
    during, _ = kept["protected"]
    yield Claim(
        figure="beyond",
        text="Not in the paper: with dom0's CPU protected, disk operations take nothing away.",
        reproduced=during > 0.98,
        evidence=f"{during:.1%} is kept during the disk load",
    )


def _priorities(found: Found) -> Iterator[Claim]:
    it = found["priorities"]["sweep"]
    shares = m.share(it)[0]
    begin = round(m.WARMUP_S / it.experiment.bin)
    sweep, seconds = it.variant.sweep, round(it.experiment.duration)
    if sweep is None:
        return
    weights = [weights_at(sweep, begin + i, seconds) for i in range(len(shares))]
    wanted = np.array([one / (one + other) for one, other in weights])
    off = np.abs(shares - wanted)
    yield Claim(
        figure="figure 10",
        text="At first VM 1 is favoured, in the end VM 2 in the same proportion.",
        reproduced=bool(shares[0] > 0.85 and shares[-1] < 0.15),
        evidence=f"VM 1's share goes from {shares[0]:.1%} to {shares[-1]:.1%}",
    )
    yield Claim(
        figure="figure 10",
        text="Bandwidth is shared in proportion to the weights.",
        reproduced=bool(off.mean() < 0.05),
        evidence=f"the share is {off.mean():.1%} off in the mean, {off.max():.1%} at most, since "
        "packets to serve are whole numbers",
    )


def _improved_rates(found: Found) -> Iterator[Claim]:
    figure = "figure 11"
    before, after = found["equal-rates"], found["equal-rates-improved"]
    widths = [
        (m.half_width(before[f"rate-{rate}"]), m.half_width(after[f"rate-{rate}"]))
        for rate in RATES
    ]
    yield Claim(
        figure=figure,
        text="The improved back-end makes sharing fair and stable at all four rates.",
        reproduced=all(new < old / 3 for old, new in widths)
        and all(_even(after[f"rate-{rate}"]) for rate in RATES),
        evidence="half widths of the confidence intervals: "
        + ", ".join(f"{new:.2f} instead of {old:.1f}" for old, new in widths)
        + " Mbit/s",
    )
    single = [float(m.alone(after[f"rate-{rate}"], "vm1").std()) for rate in RATES]
    yield Claim(
        figure=figure,
        text="There are some fluctuations even if only one adapter is transmitting.",
        reproduced=min(single) > 0.1,
        evidence=f"standard deviation alone: {_listed(single, '{:.2f}')} Mbit/s",
    )


def _improved_no_rate(found: Found) -> Iterator[Claim]:
    it, before = found["no-rate-improved"]["improved"], found["no-rate"]["unmodified"]
    yield Claim(
        figure="figure 12",
        text="The improved back-end makes sharing fair and predictable: none is favoured.",
        reproduced=m.max_share(it) < 0.5 + EVEN,
        evidence=f"the largest share in a second is {m.max_share(it):.1%} instead of "
        f"{m.max_share(before):.1%}",
    )


def _random_sizes(found: Found) -> Iterator[Claim]:
    shares = {name: float(m.share(it).mean()) for name, it in found["random-sizes"].items()}
    yield Claim(
        figure="beyond",
        text="With packets of random size DRR would be the choice (WRR is not fair then).",
        reproduced=abs(shares["drr"] - 0.5) < EVEN < abs(shares["wrr"] - 0.5),
        evidence=f"share of the guest with small packets: WRR {shares['wrr']:.1%}, DRR "
        f"{shares['drr']:.1%}",
    )
    yield Claim(
        figure="beyond",
        text="Where fairness is concerned, Weighted Fair Queueing could be used.",
        reproduced=abs(shares["wfq"] - 0.5) < EVEN,
        evidence=f"share of the guest with small packets: {shares['wfq']:.1%}",
    )


def _minimum_rates(found: Found) -> Iterator[Claim]:
    variants = found["minimum-rates"]
    ratio = float(
        m.after_warmup(variants["wfq"], "vm1").mean()
        / m.after_warmup(variants["wfq"], "vm2").mean()
    )
    min_mbps = float(m.after_warmup(variants["minimum"], "vm1").min())
    wanted = 60 * m.payload_share(variants["minimum"])
    yield Claim(
        figure="beyond",
        text="Not in the paper: WFQ with weights 2 and 1 gives 2:1, whatever the connections.",
        reproduced=abs(ratio - 2) < 0.1,
        evidence=f"throughput {ratio:.2f}:1, the other guest having three connections",
    )
    yield Claim(
        figure="beyond",
        text="Not in the paper: a minimum rate holds against an overactive guest.",
        reproduced=min_mbps >= wanted * 0.99,
        evidence=f"in no second less than {min_mbps:.1f} Mbit/s of payload, promised {wanted:.1f}",
    )


CLAIMS: Mapping[str, tuple[Callable[[Found], Iterator[Claim]], ...]] = {
    "equal-rates": (_equal_rates, _lone_guest),
    "unequal-rates": (_unequal_rates,),
    "no-rate": (_no_rate,),
    "connections": (_connections,),
    "disk": (_disk,),
    "priorities": (_priorities,),
    "equal-rates-improved": (_improved_rates,),
    "no-rate-improved": (_improved_no_rate,),
    "random-sizes": (_random_sizes,),
    "minimum-rates": (_minimum_rates,),
}


def _lost_by_first(it: Repeats) -> Series:
    lost: Series = 1 - m.means(m.after_warmup(it, "vm1")) / m.means(m.alone(it, "vm1"))
    return lost


def _with_interval(it: Interval) -> str:
    return f"{it.mean:.1%}" + ("" if it.low is None else f" (95 %: {it.low:.1%} to {it.high:.1%})")


def _even(it: Repeats) -> bool:
    return abs(float(m.share(it).mean()) - 0.5) < EVEN


def _losses(looks: Repeats, before: Repeats) -> str:
    lost = [[course.lost_after_netback for course in it.courses] for it in (looks, before)]
    known = [[count for count in each if count is not None] for each in lost]
    if known != lost:
        return ""
    now, then = map(sum, known)
    return f", and frames lost after netback are {now} instead of {then}"


def _kept(it: Repeats) -> tuple[float, float]:
    """Return what is left of the throughput before: during the disk load, and after it.

    Raises
    ------
    KeyError
        If there is no disk load, or the run was too short to tell.
    """
    disk, width = it.variant.disk, it.experiment.bin
    if disk is None:
        raise KeyError(it.variant.name)
    spans = ((width, disk.start), (disk.start + width, disk.stop), (disk.stop + width, math.inf))
    parts = [it.between("vm1", *span) for span in spans]
    if not all(part.size for part in parts):
        raise KeyError(it.variant.name)
    before, during, after = (float(part.mean()) for part in parts)
    return during / before, after / before


def _listed(values: Sequence[float], form: str) -> str:
    return ", ".join(form.format(value) for value in values)

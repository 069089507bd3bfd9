"""The claims of de Oliveira Filho et al., each checked against the simulation by computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Final, NamedTuple

from isolane.reproduce.model import Claim
from isolane.reproduce.oliveira2024.echo_trials import Found, Quantity
from isolane.reproduce.oliveira2024.load_cells import (
    ALL_MACVTAP,
    ALL_PASSTHROUGH,
    BACKGROUND_PASSTHROUGH,
    BRIDGE,
    COUNTS,
    E1000,
    FAST_COUNTS,
    FAST_KPPS,
    LOADS,
    MACVTAP,
    PASSTHROUGH,
    SERVERS,
    VF_COUNTS,
    Cell,
    LoadType,
    Server,
    cells_of,
    figure_words,
)

NEAR: Final = 0.2
"""What differs by no more than this fraction is called similar, or as large as the paper says."""


class Told(NamedTuple):
    """What a claim comes to."""

    text: str
    reproduced: bool
    evidence: str


Differing = tuple[int, int, float]
"""In how many of how many cells one is below the other, and the median ratio of the other to it."""


def of(found: Found, figures: Sequence[str]) -> tuple[Claim, ...]:
    """Return the claims of these figures, as far as all they need was simulated."""
    return tuple(claim for figure in figures for claim in _claims(found, figure))


def _claims(found: Found, figure: str) -> Iterator[Claim]:
    for about in CLAIMS.get(figure, ()):
        try:
            told = about(found, figure)
        except KeyError:  # interrupted before a cell that it needs
            continue
        yield Claim(figure=figure_words(figure), **told._asdict())


def _location(figure: str) -> Server:
    return cells_of(figure)[0].location


def _below(
    found: Found,
    figure: str,
    low: str,
    high: str,
    counts: Sequence[int] = COUNTS,
    quantity: Quantity = "rtt",
) -> Differing:
    """Compare two configurations in all cells of a figure with these numbers of VMs."""
    ratios = []
    for load in LOADS:
        for vms in counts:
            cell = Cell(low, load, _location(figure), vms)
            other = found.median(replace(cell, configuration=high), quantity)
            ratios.append(other / found.median(cell, quantity))
    return sum(ratio > 1 for ratio in ratios), len(ratios), median(ratios)


def _always(text: str, low: str, high: str, counts: Sequence[int] = COUNTS) -> _Claim:
    """Claim that one configuration's median round-trip time is below the other's in each cell."""

    def about(found: Found, figure: str) -> Told:
        below, cells, ratio = _below(found, figure, low, high, counts)
        evidence = (
            f"{low} is below {high} in {below} of {cells} cells; the ratio of the second to the "
            f"first has a median of {ratio:.2f}"
        )
        return Told(text, below == cells, evidence)

    return about


def _cpu_load_raises(found: Found, _: str) -> Told:
    first, last = (found.median(Cell(BRIDGE, "cpu", "sender", vms)) for vms in (0, 128))
    return Told(
        "CPU load on the sender raises the median of virtio-bridge about nine times, from 0.1 to "
        "0.9 ms with 128 background VMs.",
        last / first >= 9 * (1 - NEAR),
        f"from {first:.3f} to {last:.3f} ms, {last / first:.1f} times",
    )


def _cpu_load_varies(found: Found, _: str) -> Told:
    cell = Cell(BRIDGE, "cpu", "sender", 128)
    longest = max(found.values(cell, "rtt_max"))
    return Told(
        "With CPU load on the sender and 128 background VMs round-trip times of virtio-bridge vary "
        "up to 25 ms.",
        longest >= 25 * (1 - NEAR),
        f"the longest takes {longest:.1f} ms, the median {found.median(cell):.3f}",
    )


def _network_load_raises(found: Found, figure: str) -> Told:
    medians = [found.median(Cell(BRIDGE, "network", _location(figure), vms)) for vms in COUNTS]
    return Told(
        "Under network load the median of virtio-bridge grows with the number of background VMs.",
        sorted(medians) == medians and medians[-1] > (1 + NEAR) * medians[0],
        "with 0 to 128 VMs " + ", ".join(f"{value:.3f}" for value in medians) + " ms",
    )


def _responder_suffers_less(found: Found, _: str) -> Told:
    sender, responder = (found.median(Cell(BRIDGE, "cpu", server, 128)) for server in SERVERS)
    return Told(
        "Round-trip times of virtio-bridge are lower with the CPU load on the responder than with "
        "it on the sender.",
        responder < (1 - NEAR) * sender,
        f"with 128 background VMs {responder:.3f} ms, with the load on the sender {sender:.3f}",
    )


def _network_load_alike(found: Found, _: str) -> Told:
    sender, responder = (found.median(Cell(BRIDGE, "network", server, 128)) for server in SERVERS)
    return Told(
        "Network load has a similar impact on either server.",
        abs(responder / sender - 1) <= NEAR,
        f"with 128 background VMs virtio-bridge's median is {sender:.3f} ms with the load on the "
        f"sender, {responder:.3f} on the responder",
    )


def _variation_stays(found: Found, _: str) -> Told:
    longest = {
        driver: max(found.values(Cell(driver, "cpu", "sender", 128), "rtt_max"))
        for driver in (BRIDGE, MACVTAP, PASSTHROUGH)
    }
    return Told(
        "Neither way to use SR-IOV lessens how much round-trip times vary under CPU load.",
        all(longest[driver] >= (1 - NEAR) * longest[BRIDGE] for driver in (MACVTAP, PASSTHROUGH)),
        "longest with 128 background VMs: "
        + ", ".join(f"{driver} {value:.1f} ms" for driver, value in longest.items()),
    )


def _about_half(found: Found, _: str) -> Told:
    bridge, macvtap = (
        found.median(Cell(driver, "cpu", "sender", 64)) for driver in (BRIDGE, MACVTAP)
    )
    return Told(
        "With CPU load on the sender and 64 background VMs virtio-bridge takes about twice as long "
        "as sriov-macvtap (0.98 and 0.45 ms).",
        abs(bridge / macvtap / (0.98 / 0.45) - 1) <= NEAR,
        f"{bridge:.3f} and {macvtap:.3f} ms, {bridge / macvtap:.2f} times",
    )


def _similar_at_128(found: Found, _: str) -> Told:
    bridge, macvtap = (
        found.median(Cell(driver, "network", "responder", 128)) for driver in (BRIDGE, MACVTAP)
    )
    return Told(
        "With network load on the responder and more than 64 background VMs virtio-bridge and "
        "sriov-macvtap are similar.",
        abs(bridge / macvtap - 1) <= NEAR,
        f"with 128 VMs {bridge:.3f} and {macvtap:.3f} ms",
    )


def _shortest_response(found: Found, figure: str) -> Told:
    below, cells, ratio = _below(found, figure, MACVTAP, BRIDGE, quantity="response")
    return Told(
        "sriov-macvtap has shorter response times than virtio-bridge.",
        below == cells,
        f"in {below} of {cells} cells; the ratio of the second to the first has a median of "
        f"{ratio:.2f}",
    )


def _e1000_response(found: Found, figure: str) -> Told:
    below, cells, ratio = _below(found, figure, BRIDGE, E1000, quantity="response")
    return Told(
        "virtio-bridge about halves the response time of e1000-bridge.",
        below == cells and abs(ratio / 2 - 1) <= NEAR,
        f"it is below in {below} of {cells} cells; the ratio of e1000 to it has a median of "
        f"{ratio:.2f}",
    )


def _gap_grows(found: Found, figure: str) -> Told:
    def gap(load: LoadType, vms: int) -> float:
        bridge, macvtap = (
            found.median(Cell(driver, load, _location(figure), vms), "response")
            for driver in (BRIDGE, MACVTAP)
        )
        return bridge - macvtap

    gaps = {load: (gap(load, 8), gap(load, 128)) for load in LOADS}
    return Told(
        "The more background VMs, the further is sriov-macvtap's response time below "
        "virtio-bridge's, under either load.",
        all(many > max(few, 0.0) for few, many in gaps.values()),
        "; ".join(
            f"{load} load: {1e3 * few:.1f} us with 8 VMs, {1e3 * many:.1f} us with 128"
            for load, (few, many) in gaps.items()
        ),
    )


def _rate_is_no_matter(found: Found, figure: str) -> Told:
    ratios = []
    for driver in (E1000, BRIDGE, MACVTAP):
        for vms in FAST_COUNTS:
            cell = Cell(driver, "network", _location(figure), vms)
            fast = found.median(replace(cell, echo_kpps=FAST_KPPS))
            ratios.append(fast / found.median(cell))
    return Told(
        "The echo rate has no significant influence on the medians (here: under network load).",
        all(abs(ratio - 1) <= NEAR for ratio in ratios),
        f"median round-trip times at 1 Mpps are {min(ratios):.2f} to {max(ratios):.2f} times those "
        "at 1 kpps",
    )


def _longest_of_passthrough(found: Found, _: str) -> Told:
    cells = [cell for cell in cells_of("13") if cell.configuration == PASSTHROUGH]
    longest = {cell: max(found.values(cell, "rtt_max")) for cell in cells}
    at = max(longest, key=lambda cell: longest[cell])
    return Told(
        "sriov-passthrough's longest round-trip times come with network load and 128 VMs.",
        (at.load, at.vms) == ("network", 128),
        f"{longest[at]:.1f} ms with {at.load} load and {at.vms} VMs",
    )


def _over_all(found: Found, _: str) -> Told:
    passthrough, macvtap = (
        median(
            value
            for location in SERVERS
            for load in LOADS
            for vms in COUNTS
            for value in found.values(Cell(driver, load, location, vms), "rtt")
        )
        for driver in (PASSTHROUGH, MACVTAP)
    )
    return Told(
        "Over all, sriov-passthrough's median is 1.723 times lower than sriov-macvtap's.",
        abs(macvtap / passthrough / 1.723 - 1) <= NEAR,
        f"{passthrough:.3f} and {macvtap:.3f} ms, {macvtap / passthrough:.2f} times",
    )


def _cpu_alike(found: Found, _: str) -> Told:
    used = {
        driver: found.median(Cell(driver, "network", "sender", 128), "cpu")
        for driver in (BRIDGE, MACVTAP, PASSTHROUGH)
    }
    return Told(
        "With network load on the sender and 128 background VMs bridge, macvtap and passthrough "
        "use nearly the same CPU (within one percentage point).",
        max(used.values()) - min(used.values()) <= 1,
        ", ".join(f"{driver} {value:.2f} %" for driver, value in used.items()),
    )


def _macvtap_wins_late(found: Found, _: str) -> Told:
    both = [
        (
            found.median(Cell(ALL_MACVTAP, "network", "responder", vms)),
            found.median(Cell(ALL_PASSTHROUGH, "network", "responder", vms)),
        )
        for vms in (32, 64)
    ]
    return Told(
        "With network load on the responder and 32 or 64 background VMs macvtap outperforms "
        "passthrough, where all VMs have VFs.",
        all(macvtap < passthrough for macvtap, passthrough in both),
        "; ".join(f"{macvtap:.3f} and {passthrough:.3f} ms" for macvtap, passthrough in both),
    )


def _worse_with_more(found: Found, figure: str) -> Told:
    medians = {
        load: [
            found.median(Cell(BACKGROUND_PASSTHROUGH, load, _location(figure), vms))
            for vms in VF_COUNTS
        ]
        for load in LOADS
    }
    return Told(
        "The round-trip time of a VM without a VF grows as more VMs with VFs run beside it.",
        all(own[-1] > (1 + NEAR) * own[0] for own in medians.values()),
        "; ".join(
            f"{load} load: {own[0]:.3f} ms alone, {own[-1]:.3f} beside 64"
            for load, own in medians.items()
        ),
    )


def _passthrough_uses_more_cpu(found: Found, figure: str) -> Told:
    both = [
        tuple(
            found.median(Cell(name, "network", _location(figure), vms), "cpu")
            for name in (ALL_PASSTHROUGH, ALL_MACVTAP)
        )
        for vms in (32, 64)
    ]
    return Told(
        "Where all VMs have VFs, passthrough uses more CPU than macvtap under network load with 32 "
        "and 64 background VMs.",
        all(passthrough > macvtap for passthrough, macvtap in both),
        "; ".join(f"{passthrough:.1f} and {macvtap:.1f} %" for passthrough, macvtap in both),
    )


_Claim = Callable[[Found, str], Told]

_VIRTIO = _always("virtio-bridge is faster than e1000-bridge, always.", BRIDGE, E1000)
_MACVTAP = _always("sriov-macvtap is faster than virtio-bridge.", MACVTAP, BRIDGE)
_PASSTHROUGH = _always("sriov-passthrough is faster than sriov-macvtap.", PASSTHROUGH, MACVTAP)
_ALL_PASSTHROUGH = _always(
    "Where all VMs have VFs, passthrough is faster than macvtap.",
    ALL_PASSTHROUGH,
    ALL_MACVTAP,
    VF_COUNTS,
)
_WITHOUT_VF = _always(
    "A VM without a VF beside VMs with VFs is slower than one with a VF.",
    ALL_PASSTHROUGH,
    BACKGROUND_PASSTHROUGH,
    VF_COUNTS,
)

CLAIMS: Mapping[str, Sequence[_Claim]] = {
    "5": (_VIRTIO, _cpu_load_raises, _cpu_load_varies, _network_load_raises),
    "6": (_VIRTIO, _network_load_raises, _responder_suffers_less, _network_load_alike),
    "7": (_MACVTAP, _about_half),
    "8": (_MACVTAP, _similar_at_128),
    "11": (_shortest_response, _e1000_response, _gap_grows, _rate_is_no_matter),
    "12": (_shortest_response, _e1000_response, _gap_grows, _rate_is_no_matter),
    "13": (_PASSTHROUGH, _longest_of_passthrough),
    "14": (_PASSTHROUGH, _variation_stays),
    "16": (_cpu_alike,),
    "17": (_ALL_PASSTHROUGH, _macvtap_wins_late, _WITHOUT_VF, _worse_with_more),
    "18": (_ALL_PASSTHROUGH, _WITHOUT_VF, _worse_with_more),
    "19": (_passthrough_uses_more_cpu,),
    "20": (_passthrough_uses_more_cpu,),
    "4.3": (_over_all,),
}
"""Claims by figure; two of figure 6 need figure 5 besides."""

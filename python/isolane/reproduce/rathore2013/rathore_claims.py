"""The claims of Rathore et al., each checked against the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from isolane.reproduce.model import Claim
from isolane.reproduce.rathore2013.names import (
    LINE_KPPS,
    ONE_CORE,
    SCENARIO1,
    SCENARIO2,
    THROUGHPUT,
    TWO_CORES,
)
from isolane.reproduce.trials import TOTAL, Figure, Trials

KEPT = 0.99
"""Share of its throughput that a router keeps when a table shows no loss at all."""


class _Look:
    """Figures by experiment and arm, in kpps, percent and µs; 0 where a trial is missing."""

    def __init__(self, found: Trials) -> None:
        self._found = found

    def has(self, *experiments: str) -> bool:
        """Whether every trial of these experiments was simulated."""
        return all(
            (name, arm.name, point.index) in self._found.found
            for name in experiments
            for arm in self._found.experiments[name].resolved_arms()
            for point in self._found.experiments[name].points()
        )

    def points(self, experiment: str) -> range:
        """Numbers of the points."""
        return range(len(self._found.experiments[experiment].points()))

    def offered(self, point: int) -> float:
        """Offered load of the throughput experiment, kpps."""
        return self._found.experiments[THROUGHPUT].points()[point].routers[0].load.value / 1e3

    def at(self, kpps: float) -> int:
        """Point of the throughput experiment with this offered load."""
        return next(i for i in self.points(THROUGHPUT) if abs(self.offered(i) - kpps) < 0.5)

    def kpps(self, experiment: str, arm: str, point: int, router: str = TOTAL) -> float:
        """Throughput."""
        return (self._found.rate(experiment, arm, point, router) or 0.0) / 1e3

    def figure(self, arm: str, point: int, metric: str) -> float:
        """CPU (percent) or delay (µs) of the throughput experiment."""
        asked = Figure(THROUGHPUT, arm, point, TOTAL, metric, None)
        value = self._found.value(asked) or 0.0
        return value / 1e3 if metric == "delay" else 100 * value


def of(found: Trials, figures: Sequence[str]) -> tuple[Claim, ...]:
    """Return the claims about some figures, as far as their trials were simulated."""
    look = _Look(found)
    return tuple(
        claim
        for figure in figures
        for needs, claims in _CLAIMS[figure]
        if look.has(*needs)
        for claim in claims(look)
    )


def _figure4(look: _Look) -> Iterator[Claim]:
    top = look.at(LINE_KPPS)
    rate = {
        arm: look.kpps(THROUGHPUT, arm, top)
        for arm in ("native", "container-sriov", "vm-sriov", "container-macvlan", "vm-macvtap")
    }
    others = {arm: value for arm, value in rate.items() if arm != "native"}
    yield Claim(
        figure="figure 4",
        text="Only IP forwarding without virtualization reaches line rate.",
        reproduced=rate["native"] >= KEPT * LINE_KPPS and max(others.values()) < KEPT * LINE_KPPS,
        evidence=f"it forwards {rate['native']:.0f} kpps of {LINE_KPPS:.0f}, the best of the "
        f"others {max(others.values()):.0f}.",
    )
    container, machine = rate["container-sriov"], rate["vm-sriov"]
    yield Claim(
        figure="figure 4",
        text="SR-IOV forwards more than the software paths, and virtual machines with it hardly "
        "less than containers (1250 to 1300 kpps).",
        reproduced=min(container, machine) > max(rate["container-macvlan"], rate["vm-macvtap"])
        and 0 <= container - machine <= 0.1 * container,
        evidence=f"SR-IOV {container:.0f} (LXC) and {machine:.0f} kpps (KVM), macvlan "
        f"{rate['container-macvlan']:.0f}, macvtap {rate['vm-macvtap']:.0f}.",
    )
    times = rate["container-macvlan"] / max(rate["vm-macvtap"], 1e-9)
    yield Claim(
        figure="figure 4",
        text="macvlan (LXC) forwards around 11 times what macvtap (KVM) forwards at line rate.",
        reproduced=9 <= times <= 13,
        evidence=f"{times:.1f} times.",
    )
    light = look.kpps(THROUGHPUT, "vm-macvtap", look.at(280))
    yield Claim(
        figure="figure 4",
        text="macvtap forwards 280 kpps when 280 are offered, and less the more is offered: about "
        "100 at line rate.",
        reproduced=light >= KEPT * 280 and rate["vm-macvtap"] < light / 2,
        evidence=f"{light:.0f} kpps of 280 offered, {rate['vm-macvtap']:.0f} of {LINE_KPPS:.0f}.",
    )


def _figure5(look: _Look) -> Iterator[Claim]:
    low, top = look.at(280), look.at(LINE_KPPS)
    kernel = [look.figure("vm-macvtap", i, "cpu-kernel") for i in (low, top)]
    user = [look.figure("vm-macvtap", i, "cpu-user") for i in (low, top)]
    yield Claim(
        figure="figure 5",
        text="With macvtap the kernel's CPU share grows quickly with the load, until user space "
        "starves.",
        reproduced=kernel[1] > 2 * kernel[0] and user[1] < user[0] and user[1] < 50,
        evidence=f"from 280 to {LINE_KPPS:.0f} kpps the kernel's share goes from {kernel[0]:.0f} "
        f"to {kernel[1]:.0f} %, that of user space from {user[0]:.0f} to {user[1]:.0f} %.",
    )
    share = look.figure("vm-sriov", top, "cpu-kernel")
    yield Claim(
        figure="figure 5",
        text="SR-IOV takes packet handling off the host's kernel.",
        reproduced=share < 10,
        evidence=f"at line rate the host's kernel takes {share:.1f} % of the core.",
    )


def _figure6(look: _Look) -> Iterator[Claim]:
    top = look.at(LINE_KPPS)
    delay = {
        arm: look.figure(arm, top, "delay")
        for arm in ("container-sriov", "vm-sriov", "container-macvlan", "vm-macvtap")
    }
    near = max(delay["container-sriov"], delay["vm-sriov"]) <= 2 * min(
        delay["container-sriov"], delay["vm-sriov"]
    )
    yield Claim(
        figure="figure 6",
        text="Latency at line rate follows the same pattern as throughput: SR-IOV (KVM) is "
        "comparable to SR-IOV (LXC), and macvtap is the slowest.",
        reproduced=near and delay["vm-macvtap"] == max(delay.values()),
        evidence="medians: "
        + ", ".join(f"{arm} {value:.0f} µs" for arm, value in delay.items())
        + ".",
    )


def _figure7(look: _Look) -> Iterator[Claim]:
    macvtap = [look.kpps(ONE_CORE, "vm-macvtap", i) for i in look.points(ONE_CORE)]
    yield Claim(
        figure="figure 7",
        text="With macvtap throughput drops to zero with five virtual routers.",
        reproduced=max(macvtap[4:]) < 0.01 * LINE_KPPS and macvtap[0] > 0,
        evidence=f"{macvtap[0]:.0f} kpps with one router, {macvtap[4]:.1f} with five, "
        f"{macvtap[7]:.1f} with eight.",
    )
    lxc = [look.kpps(ONE_CORE, "container-sriov", i) for i in look.points(ONE_CORE)]
    kvm = [look.kpps(ONE_CORE, "vm-sriov", i) for i in look.points(ONE_CORE)]
    yield Claim(
        figure="figure 7",
        text="SR-IOV (LXC) scales better than SR-IOV (KVM), and the difference grows with the "
        "number of routers (1230 and 949 kpps with eight).",
        reproduced=lxc[7] > kvm[7] and lxc[7] - kvm[7] > lxc[0] - kvm[0],
        evidence=f"with one router {lxc[0]:.0f} and {kvm[0]:.0f} kpps, with eight {lxc[7]:.0f} "
        f"and {kvm[7]:.0f}.",
    )


def _figure8(look: _Look) -> Iterator[Claim]:
    two = {arm: look.kpps(TWO_CORES, arm, 1) for arm in ("container-sriov", "vm-sriov")}
    yield Claim(
        figure="figure 8",
        text="With two cores two routers reach line rate, containers as well as virtual machines.",
        reproduced=min(two.values()) >= KEPT * LINE_KPPS,
        evidence=f"{two['container-sriov']:.0f} kpps (LXC), {two['vm-sriov']:.0f} (KVM).",
    )
    more = [look.kpps(TWO_CORES, "vm-sriov", i) for i in look.points(TWO_CORES)]
    yield Claim(
        figure="figure 8",
        text="With more virtual machines on two cores throughput drops somewhat.",
        reproduced=KEPT * more[1] > more[7] > 0.5 * more[1],
        evidence=f"{more[1]:.0f} kpps with two, {more[7]:.0f} with eight.",
    )


def _scenario1(arm: str, figure_name: str, words: str) -> Callable[[_Look], Iterator[Claim]]:
    def claims(look: _Look) -> Iterator[Claim]:
        kept = [look.kpps(SCENARIO1, arm, i, "vr2") for i in look.points(SCENARIO1)]
        yield Claim(
            figure=figure_name,
            text=f"With {words}, VR2 keeps its 400 kpps however much VR1 is overloaded.",
            reproduced=min(kept) >= KEPT * 400,
            evidence=f"VR2 forwards at least {min(kept):.0f} kpps.",
        )

    return claims


def _scenario2(look: _Look) -> Iterator[Claim]:
    last = look.points(SCENARIO2)[-1]
    for arm, words in (
        ("container-sriov", "containers"),
        ("vm-sriov", "virtual machines of equal CPU shares"),
    ):
        first, worst = (look.kpps(SCENARIO2, arm, i, "vr1") for i in (0, last))
        yield Claim(
            figure="scenario II",
            text=f"With {words}, overloading VR2 degrades VR1, which needs 800 kpps.",
            reproduced=worst < KEPT * 800,
            evidence=f"VR1 forwards {first:.0f} kpps with VR2 at 400 and {worst:.0f} with VR2 "
            "at 688.",
        )
    arm = "vm-sriov-shares"
    vr1 = [look.kpps(SCENARIO2, arm, i, "vr1") for i in look.points(SCENARIO2)]
    vr2 = [look.kpps(SCENARIO2, arm, i, "vr2") for i in look.points(SCENARIO2)]
    yield Claim(
        figure="scenario II",
        text="With CPU shares 2:1 both virtual machines keep what they need (800 and 400 kpps), "
        "however much VR2 is overloaded.",
        reproduced=min(vr1) >= KEPT * 800 and min(vr2) >= KEPT * 400,
        evidence=f"VR1 forwards at least {min(vr1):.0f} kpps, VR2 at least {min(vr2):.0f}.",
    )


_Claims = Sequence[tuple[Sequence[str], Callable[[_Look], Iterator[Claim]]]]

_CLAIMS: dict[str, _Claims] = {
    "4": [((THROUGHPUT,), _figure4)],
    "5": [((THROUGHPUT,), _figure5)],
    "6": [((THROUGHPUT,), _figure6)],
    "7": [((ONE_CORE,), _figure7)],
    "8": [((TWO_CORES,), _figure8)],
    "table1": [((SCENARIO1,), _scenario1("container-sriov", "table 1", "containers"))],
    "table2": [((SCENARIO1,), _scenario1("vm-sriov", "table 2", "virtual machines"))],
    "scenario2": [((SCENARIO2,), _scenario2)],
}
"""Claims by figure, with the experiments that they need."""

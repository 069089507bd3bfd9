"""A guest beside a router that gets too much, at ports of one back-end: a policy, and none."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from isolane.enforce import Enforcer
from isolane.guests import UmlGuest
from isolane.netback import Status
from isolane.procfs import descendants
from isolane.spec.policy import Policy, parse_policy
from isolane.testbed import NETNS_DIR

from benches import beds
from benches.common import (
    RECEIVER_CORE,
    Check,
    Options,
    Outcome,
    main,
    median,
    spread,
)
from benches.steady_load import WARMUP_NS, Load, send
from tests.netback.back_end import DUT, FAR, BackEnd, back_end, far_mac, mac
from tests.netback.container import attached, container, netns_of
from tests.netback.far_end import conserved, in_far, of
from tests.wires import bring_up, inside, ip

VICTIM, NEIGHBOUR = 0, 1
VICTIM_PPS = 20e3
NEIGHBOURS = ("container", "guest")
NEIGHBOUR_KPPS = (0, 200, 800, 2000)
"""The last is more than the generator sends."""
ARMS = ("no policy", "policy")
CORE = RECEIVER_CORE
"""Of the back-end, and of both routers."""
KEEPS = 0.99
COOKIE = 0x5CA2
DRAIN_S = 0.3


@dataclass(frozen=True)
class Seen:
    """What came of the frames of one trial, shares of what was sent."""

    victim: float
    neighbour: float
    sent_pps: float
    """To the neighbour."""
    on_wire: float
    """Frames of both that the wire lost, before the back-end had any part in it."""


@contextmanager
def routers(folder: Path, kind: str) -> Iterator[tuple[BackEnd, Policy]]:
    """Have a back-end with a guest and such a neighbour behind it, all on one core.

    Also yields a policy of equal shares.
    """
    beside = [NEIGHBOUR] if kind == "container" else []
    with ExitStack() as stack:
        one = stack.enter_context(back_end(folder, 2, "drr", containers=beside))
        guests = {
            number: stack.enter_context(one.guest(number))
            for number in (VICTIM, NEIGHBOUR)
            if number not in beside
        }
        for number in beside:
            stack.enter_context(container(number))
            attached(one, number)
        for threads in (one.threads(), *(descendants(guest.process) for guest in guests.values())):
            for thread in threads:
                os.sched_setaffinity(thread, {CORE})
        takes_frames_of_xdp()
        one.until("a wire again", lambda status: status.uplinks[0].carrier)
        yield one, policy_of(guests)


def takes_frames_of_xdp() -> None:
    """Have the first wire take what the generator sends: its end is to have NAPI as it comes up."""
    inside(DUT, "ethtool", "-K", "n0", "gro", "on")
    for netns, ifname in ((DUT, "n0"), (FAR, "g0")):
        ip("-n", netns, "link", "set", ifname, "down")
    bring_up((DUT, "n0"), (FAR, "g0"), arp=False)


def policy_of(guests: dict[int, UmlGuest]) -> Policy:
    """Return equal shares of the core."""
    named = {
        name: {"process": guests[number].process}
        if number in guests
        else {"netns": netns_of(number)}
        for name, number in (("victim", VICTIM), ("neighbour", NEIGHBOUR))
    }
    routers = {name: {**who, "cores": [CORE]} for name, who in named.items()}
    return parse_policy(
        json.dumps({"isolane": 1, "name": "ports", "nics": {"n1": {}}, "routers": routers})
    )


def load(one: BackEnd, ifindex: int, neighbour_pps: float, seconds: float) -> Seen:
    """Offer both their loads, and see what leaves by the second wire."""
    rates = {VICTIM: VICTIM_PPS, NEIGHBOUR: neighbour_pps}
    loads = {
        number: Load(
            pps, far_mac(0), mac(0, number), f"10.9.{2 * number}.2", f"10.9.{2 * number + 1}.2"
        )
        for number, pps in rates.items()
        if pps
    }
    before = one.status()
    frames = send(NETNS_DIR / FAR, ifindex, list(loads.values()), COOKIE, seconds)
    time.sleep(DRAIN_S)
    after = one.status()
    conserved(after)
    sent = dict(zip(loads, frames, strict=True))
    return Seen(
        came(one, VICTIM, before, after) / sent[VICTIM],
        came(one, NEIGHBOUR, before, after) / sent[NEIGHBOUR] if NEIGHBOUR in sent else 1.0,
        sent.get(NEIGHBOUR, 0) / (WARMUP_NS / 1e9 + seconds),
        1 - reached(before, after) / sum(frames),
    )


def reached(before: Status, after: Status) -> int:
    """Count the frames that reached the back-end's ring, or found it full."""
    first, last = before.uplinks[0], after.uplinks[0]
    return last.received + last.ring_full - first.received - first.ring_full


def came(one: BackEnd, number: int, before: Status, after: Status) -> int:
    """Count a router's frames that were handed to the second wire."""
    name = one.port(1, number)
    return of(after, name).sent - of(before, name).sent


Case = tuple[str, str, int]
"""What the neighbour is, the arm, and what it is offered, kpps."""


def measure(kind: str, options: Options, found: dict[Case, list[Seen]]) -> None:
    """Load both, without the policy and with it, in turns."""
    with tempfile.TemporaryDirectory() as text, routers(Path(text), kind) as (one, policy):
        enforcer = Enforcer(NETNS_DIR / DUT, Path(text) / "policy", "isolane-ports")
        ifindex = in_far(lambda: socket.if_nametoindex("g0"))
        for _ in range(options.rounds):
            for arm in ARMS:
                if arm == "policy":
                    enforcer.apply(policy)
                try:
                    for kpps in NEIGHBOUR_KPPS:
                        seen = load(one, ifindex, kpps * 1e3, options.seconds)
                        found[kind, arm, kpps].append(seen)
                finally:
                    if arm == "policy":
                        enforcer.clear()


def bench(options: Options) -> Outcome:
    """Compare what the guest keeps."""
    found: dict[Case, list[Seen]] = defaultdict(list)
    with beds.host():
        for kind in NEIGHBOURS:
            measure(kind, options, found)
    keeps = {case: median([one.victim for one in each]) for case, each in found.items()}
    worst = {kind: min(keeps[kind, "policy", kpps] for kpps in NEIGHBOUR_KPPS)
             for kind in NEIGHBOURS}  # fmt: skip
    return Outcome(
        title=(
            f"A guest at {VICTIM_PPS / 1e3:g} kpps and a neighbour at ports of one back-end, all "
            f"on core {CORE}, {options.rounds} rounds"
        ),
        columns=(
            "neighbour",
            "",
            "sent to it, kpps",
            "it forwards",
            "guest keeps, %",
            "range",
            "lost on the wire, %",
        ),
        rows=[
            (
                case[0],
                case[1],
                f"{median([one.sent_pps for one in each]) / 1e3:.0f}",
                f"{median([one.neighbour * one.sent_pps for one in each]) / 1e3:.0f}",
                f"{100 * keeps[case]:.1f}",
                spread([one.victim for one in each], 0.01, 1),
                f"{100 * median([one.on_wire for one in each]):.1f}",
            )
            for case, each in found.items()
        ],
        checks=[
            Check(
                f"beside a {kind} a guest keeps {100 * KEEPS:.0f} % under a policy",
                f"{100 * worst[kind]:.1f} %",
                worst[kind] >= KEEPS,
            )
            for kind in NEIGHBOURS
        ],
        data={", ".join(map(str, case)): [vars(one) for one in each]
              for case, each in found.items()},
    )  # fmt: skip


if __name__ == "__main__":
    main("ports", bench, Options(rounds=5, seconds=1.0), str(__doc__))

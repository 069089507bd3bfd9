"""Many routers under one policy: how long it takes to apply, and what a frame then costs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from isolane import _native
from isolane.enforce import Enforcer
from isolane.errors import MeasurementError
from isolane.procfs import cpu_ns
from isolane.spec.policy import parse_policy
from isolane.testbed import NETNS_DIR
from isolane.testbed.journal import RUN_DIR

from benches.beds import host
from benches.common import Check, Options, Outcome, main, median
from benches.steady_load import FLOWS, Load, send

COUNTS = (2, 16, 256)
OFFERED_PPS = 100e3
"""To each of two routers; all others are silent."""
APPLY_S = 10.0
GROWTH = 1.25
GROUP = "isolane-scale"
NAMES = {end: f"{GROUP}-{end}" for end in ("host", "gen", "rcv")}
STATE = RUN_DIR / "scale-policy"
"""Always the same, so that the next run puts back what one that was killed left."""
COOKIE = 0x5CA1
GEN_MAC, RCV_MAC = "02:15:05:00:00:01", "02:15:05:00:00:02"


def ip(*words: str, lines: list[str] | None = None) -> None:
    """Run `ip`, or several of its commands."""
    text = "\n".join(lines) + "\n" if lines is not None else None
    command = ["ip", *words, *(["-batch", "-"] if lines is not None else [])]
    subprocess.run(command, input=text, text=True, check=True, capture_output=True)


def router(number: int) -> str:
    """Name a router's namespace."""
    return f"{GROUP}-r{number}"


def mac(number: int) -> str:
    """Return the address of a router's first interface."""
    return f"02:15:05:01:{number >> 8:02x}:{number & 255:02x}"


@contextmanager
def namespaces(count: int) -> Iterator[None]:
    """Make a host with two NICs, a generator before one, a receiver behind the other, routers."""
    try:
        for name in (*NAMES.values(), *(router(number) for number in range(count))):
            ip("netns", "add", name)
        ip(
            "-n",
            NAMES["host"],
            lines=[
                f"link add nin type veth peer name gin netns {NAMES['gen']} address {GEN_MAC}",
                f"link add nout type veth peer name gout netns {NAMES['rcv']} address {RCV_MAC}",
                "link set nin up",
                "link set nout up",
                *(line for number in range(count) for line in wires(number)),
            ],
        )
        ip("-n", NAMES["gen"], lines=["link set gin up"])
        ip("-n", NAMES["rcv"], lines=["link set gout up"])
        for number in range(count):
            inside(number)
        yield
    finally:
        remove()


def wires(number: int) -> list[str]:
    """Connect a router with the host, twice."""
    name = router(number)
    return [
        f"link add h{number}a type veth peer name eth0 netns {name} address {mac(number)}",
        f"link add h{number}b type veth peer name eth1 netns {name}",
        f"link set h{number}a up",
        f"link set h{number}b up",
    ]


def inside(number: int) -> None:
    """Let the first two routers forward to the receiver."""
    name = router(number)
    lines = ["link set eth0 up", "link set eth1 up"]
    if number < 2:
        words = ["netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1"]
        ip(*words, "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0")
        lines += [
            f"addr add 198.18.{number}.1/24 dev eth0",
            f"addr add 198.19.{number}.1/24 dev eth1",
            f"neigh add 198.19.{number}.2 lladdr {RCV_MAC} dev eth1",
        ]
    ip("-n", name, lines=lines)


def remove() -> None:
    """Remove all namespaces of this bench that are there."""
    for file in NETNS_DIR.glob(f"{GROUP}-*"):
        ip("netns", "del", file.name)


def policy_of() -> Enforcer:
    """Return who keeps this bench's policies."""
    return Enforcer(NETNS_DIR / NAMES["host"], STATE, GROUP)


@dataclass(frozen=True)
class Found:
    """What one number of routers takes."""

    apply_s: float
    set_s: float
    clear_s: float
    frame_ns: tuple[float, ...]
    forwarded: tuple[float, ...]
    """Share of what was offered."""


def measure(count: int, options: Options) -> Found:
    """Apply a policy for so many routers, and load two of them."""
    nics = {"nin": {"rate": "10Gbps"}, "nout": {"rate": "10Gbps"}}
    interfaces = {"eth0": "nin", "eth1": "nout"}
    routers = {
        f"vr{number}": {"netns": router(number), "interfaces": interfaces}
        for number in range(count)
    }
    file = {"isolane": 1, "name": "scale", "nics": nics, "defaults": {"cores": [1]}}
    policy = parse_policy(json.dumps({**file, "routers": routers}))
    with ExitStack() as stack:
        stack.enter_context(namespaces(count))
        enforcer = policy_of()
        cleared: list[float] = []
        stack.callback(lambda: cleared or enforcer.clear())
        begun = time.monotonic()
        enforcer.apply(policy)
        applied = time.monotonic()
        enforcer.set_keys("vr1", {"cpu_weight": "200"})
        was_set = time.monotonic()
        enforcer.set_keys("vr1", {"cpu_weight": "100"})
        seen = [load(enforcer, options.seconds) for _ in range(options.rounds)]
        clearing = time.monotonic()
        enforcer.clear()
        cleared.append(time.monotonic() - clearing)
    return Found(
        applied - begun,
        was_set - applied,
        cleared[0],
        tuple(cost for cost, _ in seen),
        tuple(share for _, share in seen),
    )


def load(enforcer: Enforcer, seconds: float) -> tuple[float, float]:
    """Load two routers; return ns of all threads for each frame, and the share that arrived."""
    loads = [
        Load(OFFERED_PPS, GEN_MAC, mac(number), f"198.18.{number}.2", f"198.19.{number}.2")
        for number in range(2)
    ]
    receiver = _native.Receiver(
        interfaces=[
            _native.Interface(netns=str(NETNS_DIR / NAMES["rcv"]), ifindex=index_of("rcv", "gout"))
        ],
        cookie=COOKIE,
        flows=[FLOWS] * len(loads),
    )
    with closing(receiver):
        before = threads_ns(enforcer)
        sent = send(NETNS_DIR / NAMES["gen"], index_of("gen", "gin"), loads, COOKIE, seconds)
        time.sleep(0.05)
        spent = threads_ns(enforcer) - before
        received = sum(count.received for count in receiver.counts())
    if not received:
        raise MeasurementError("no frame came through")
    return spent / received, received / sum(sent)


def index_of(end: str, ifname: str) -> int:
    """Return an interface's index in one of the namespaces."""
    words = ["ip", "-n", NAMES[end], "-json", "link", "show", "dev", ifname]
    shown = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return int(json.loads(shown)[0]["ifindex"])


def threads_ns(enforcer: Enforcer) -> int:
    """Return the CPU time of all threads under the policy, and of the NICs'."""
    routers = [thread for threads in enforcer.threads().values() for thread in threads]
    return sum(map(cpu_ns, (*routers, *enforcer.nic_threads())))


def bench(options: Options) -> Outcome:
    """Go through the numbers of routers."""
    found: dict[int, Found] = {}
    with host():
        if STATE.is_dir():
            policy_of().clear()
        remove()
        for count in COUNTS:
            found[count] = measure(count, options)
    costs = {count: median(one.frame_ns) for count, one in found.items()}
    largest, smallest = max(COUNTS), min(COUNTS)
    grown = costs[largest] / costs[smallest]
    return Outcome(
        title=f"Routers under one policy; two of them get {OFFERED_PPS / 1e3:.0f} kpps each",
        columns=("routers", "apply, s", "set, s", "clear, s", "ns a frame", "came through, %"),
        rows=[
            (
                str(count),
                f"{one.apply_s:.2f}",
                f"{one.set_s:.2f}",
                f"{one.clear_s:.2f}",
                f"{costs[count]:.0f}",
                f"{100 * median(one.forwarded):.1f}",
            )
            for count, one in found.items()
        ],
        checks=[
            Check(
                f"{largest} routers applied in under {APPLY_S:.0f} s",
                f"{found[largest].apply_s:.2f} s",
                found[largest].apply_s < APPLY_S,
            ),
            Check(
                "the cost of a frame does not grow with their number",
                f"{grown:.2f} times that with {smallest}",
                grown < GROWTH,
            ),
        ],
        data={"found": {str(count): vars(one) for count, one in found.items()}},
    )


if __name__ == "__main__":
    main("scale", bench, Options(rounds=3, seconds=0.5), str(__doc__))

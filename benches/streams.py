"""TCP through a router: a guest on the network back-end, with and without offloads; a container."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from benches import beds
from benches.common import Check, Options, Outcome, main, median, spread
from tests.netback.back_end import ADDRESSES, DUT, SIDES, back_end, far_mac, mac, wires
from tests.netback.streams import ends, of_ip
from tests.wires import ip

BYTES_PER_S = 50_000_000
"""So many bytes are sent for each second of the bench's option."""


def guest(data: bytes, offloads: str) -> float:
    """Send them through a User-Mode Linux guest; return how long it took, s."""
    with (
        tempfile.TemporaryDirectory() as folder,
        back_end(Path(folder), more=f", offloads: {offloads}") as one,
        one.guest(0),
        ends(4) as through,
    ):
        return through(data)


def container(data: bytes) -> float:
    """Send them through a network namespace that forwards; return how long it took, s."""
    with wires():
        ip("netns", "exec", DUT, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        for side, (near, _) in enumerate(SIDES):
            ip("-n", DUT, "link", "set", near, "address", mac(side, 0))
            ip("-n", DUT, "address", "add", ADDRESSES[4][0].format(side, 1), "dev", near)
            other = of_ip(4, side, 2)
            ip("-n", DUT, "neighbour", "add", other, "lladdr", far_mac(side), "dev", near)
        with ends(4) as through:
            return through(data)


ARMS: dict[str, Callable[[bytes], float]] = {
    "guest, offloads on": lambda data: guest(data, "on"),
    "guest, offloads off": lambda data: guest(data, "off"),
    "container on two wires": container,
}


def bench(options: Options) -> Outcome:
    """Measure each arm in turn, round by round."""
    data = os.urandom(round(BYTES_PER_S * options.seconds))
    mbps: dict[str, list[float]] = defaultdict(list)
    with beds.host():
        for _ in range(options.rounds):
            for arm, send in ARMS.items():
                mbps[arm].append(8 * len(data) / send(data) / 1e6)
    on, off = (median(mbps[f"guest, offloads {word}"]) for word in ("on", "off"))
    return Outcome(
        title=f"TCP through a router: a stream of {len(data) / 1e6:g} MB, {options.rounds} rounds",
        columns=("router", "median, Mbit/s", "range"),
        rows=[(arm, f"{median(each):.0f}", spread(each, digits=0)) for arm, each in mbps.items()],
        checks=[
            Check("offloads make a stream faster", f"{on / off:.2f} times", on > off),
        ],
        data={"mbps": dict(mbps)},
    )


if __name__ == "__main__":
    main("streams", bench, Options(rounds=5, seconds=2.0), str(__doc__))

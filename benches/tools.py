"""The generators that are compared, each with the settings that may be its best."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from isolane.testbed.bed_devices import GEN
from isolane.trials.live.traffic import Target

from benches.common import GENERATOR_CORE, RECEIVER_CORE
from benches.wire import GEN_IFNAME

FRAME_BYTES = 64
FCS_BYTES = 4
FAR_TOO_FAST = "10Mpps"
"""More than any core sends: isolane generate then sends without a pause."""


@dataclass(frozen=True)
class Tool:
    """A generator."""

    name: str
    variants: dict[str, Callable[[Target], list[str]]]
    """Setting -> command line."""
    env: dict[str, str] = field(default_factory=dict)
    factor: float | None = None
    """How many times its rate Isolane is to send; None: Isolane itself."""


def _isolane(target: Target) -> list[str]:
    return [
        *(sys.executable, "-m", "isolane", "generate", GEN_IFNAME, "--netns", GEN),
        *("--to", target.dst_ip, "--from", target.src_ip, "--mac", target.dst_mac),
        *("--rate", FAR_TOO_FAST, "--duration", "70s", "--frame-size", str(FRAME_BYTES)),
        *("--core", str(GENERATOR_CORE)),
    ]


def _checksum(header: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def _frame(target: Target) -> bytes:
    """Build the frame that isolane generate sends, but for the signature, which stays zero."""
    macs = bytes.fromhex((target.dst_mac + target.src_mac).replace(":", ""))
    length = FRAME_BYTES - FCS_BYTES - 14
    head = struct.pack("!BBHIBB", 0x45, 0, length, 0, 64, socket.IPPROTO_UDP)
    addresses = socket.inet_aton(target.src_ip) + socket.inet_aton(target.dst_ip)
    checksum = struct.pack("!H", _checksum(head + bytes(2) + addresses))
    udp = struct.pack("!HHHH", 1024, 9, length - 20, 0)
    frame = macs + b"\x08\x00" + head + checksum + addresses + udp
    return frame.ljust(FRAME_BYTES - FCS_BYTES, b"\0")


def _trafgen(*options: str) -> Callable[[Target], list[str]]:
    """Give a command line: a static frame, an AF_PACKET TX ring, one process on one core."""

    def argv(target: Target) -> list[str]:
        packet = ", ".join(f"0x{byte:02x}" for byte in _frame(target))
        return [
            # With --cpus 1 its only sender pins itself to core 0.
            *("trafgen", "--dev", GEN_IFNAME, "--cpus", "1", "--no-cpu-stats", "--notouch-irq"),
            *("--no-sock-mem", *options, f"{{ {packet} }}"),
        ]

    return argv


def _testpmd(device: str, burst: int) -> Callable[[Target], list[str]]:
    """Give a command line: txonly on the generator's core, the main lcore asleep elsewhere."""

    def argv(target: Target) -> list[str]:
        return [
            *("dpdk-testpmd", "-l", f"{GENERATOR_CORE},{RECEIVER_CORE}"),
            *("--main-lcore", str(RECEIVER_CORE), "--no-pci", "--no-huge", "--no-shconf"),
            *("-m", "256", "--no-telemetry", f"--vdev={device}", "--", "--forward-mode=txonly"),
            *("--nb-cores=1", f"--txpkts={FRAME_BYTES - FCS_BYTES}", f"--burst={burst}"),
            *("--total-num-mbufs=16384", f"--eth-peer=0,{target.dst_mac}"),
        ]

    return argv


_PACKET = f"net_af_packet0,iface={GEN_IFNAME},qdisc_bypass=1"
_XDP = f"net_af_xdp0,iface={GEN_IFNAME}"

ISOLANE = Tool("isolane generate", {"": _isolane})
LIBXDP = {"LIBXDP_SKIP_DISPATCHER": "1"}
"""Without a dispatcher libxdp pins nothing: nothing is left behind if testpmd is killed."""

# Each peer as it comes, and with the best of some settings, which its manual suggests.
PEERS = (
    Tool("trafgen", {"": _trafgen()}, factor=8.0),
    Tool(
        "trafgen, tuned",
        {
            "ring 64 MiB": _trafgen("--ring-size", "64MiB"),
            "through qdisc": _trafgen("--qdisc-path"),
        },
        factor=8.0,
    ),
    Tool("testpmd af_packet", {"": _testpmd(_PACKET, 32)}, factor=6.0),
    Tool(
        "testpmd af_packet, tuned",
        {
            "burst 64": _testpmd(_PACKET, 64),
            "burst 512": _testpmd(f"{_PACKET},framecnt=2048", 512),
        },
        factor=6.0,
    ),
    Tool("testpmd af_xdp", {"": _testpmd(_XDP, 32)}, env=LIBXDP, factor=6.0),
    Tool(
        "testpmd af_xdp, tuned",
        {
            "burst 64": _testpmd(_XDP, 64),
            "burst 64, no busy poll": _testpmd(f"{_XDP},busy_budget=0", 64),
            "burst 256": _testpmd(_XDP, 256),
        },
        env=LIBXDP,
        factor=6.0,
    ),
)

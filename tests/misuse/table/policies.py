"""Policies with values that cannot be, and such as do not fit together or this host."""

from __future__ import annotations

from typing import Final

from tests.misuse.files import policy
from tests.misuse.row import Row

GOLD: Final = "netns: e2e-misuse-absent, cpu_weight: 200, rate_min: 100Mbps"
BRONZE: Final = "netns: e2e-misuse-absent-too, cpu_weight: 100"
NICS: Final = "{w0: {rate: 1Gbps}}"

CHANGED: Final[dict[str, tuple[str, str, str]]] = {
    "weight of 0": ("cpu_weight: 200", "cpu_weight: 0", "gold.cpu_weight: .*1 to 10000"),
    "negative weight": ("cpu_weight: 200", "cpu_weight: -1", "gold.cpu_weight: "),
    "weight of 10001": ("cpu_weight: 200", "cpu_weight: 10001", "gold.cpu_weight: .*10000"),
    "weight of 1.5": ("cpu_weight: 200", "cpu_weight: 1.5", "gold.cpu_weight: "),
    "weight of NaN": ("cpu_weight: 200", "cpu_weight: .nan", "gold.cpu_weight: "),
    "weight of infinity": ("cpu_weight: 200", "cpu_weight: .inf", "gold.cpu_weight: "),
    "weight in percent": ("cpu_weight: 200", "cpu_weight: 50%", "gold.cpu_weight: "),
    "weight is true": ("cpu_weight: 200", "cpu_weight: true", "gold.cpu_weight: "),
    "a cap of nothing": ("cpu_weight: 200", "cpu_max: 0%", "gold.cpu_max: "),
    "a cap of NaN": ("cpu_weight: 200", "cpu_max: nan%", "gold.cpu_max: "),
    "a negative cap": ("cpu_weight: 200", "cpu_max: -5%", "gold.cpu_max: "),
    "a cap without a unit": ("cpu_weight: 200", "cpu_max: 60", "gold.cpu_max: "),
    "a cap of a billion cores": ("cpu_weight: 200", "cpu_max: 100000000000%", "gold.cpu_max: "),
    "no cores": ("cpu_weight: 200", "cores: []", "gold.cores: "),
    "negative cores": ("cpu_weight: 200", "cores: [-1]", "gold.cores"),
    "the same core twice": ("cpu_weight: 200", "cores: [0, 0]", "gold.cores.*(twice|0)"),
    "cores as text": ("cpu_weight: 200", "cores: all", "gold.cores: "),
    "core of half": ("cpu_weight: 200", "cores: [0.5]", "gold.cores"),
    "core of 2^40": ("cpu_weight: 200", f"cores: [{2**40}]", "gold.cores"),
    "minimum above maximum": ("cpu_weight: 200", "rate_max: 50Mbps", "gold.rate_m(in|ax): "),
    "minimum above the link": ("rate_min: 100Mbps", "rate_min: 2Gbps", "rate_min is 2 Gbps on w0; accepted: at most 1 Gbps"),
    "minimum of NaN": ("rate_min: 100Mbps", "rate_min: nanbps", "gold.rate_min: "),
    "minimum in bytes": ("rate_min: 100Mbps", "rate_min: 100MB/s", "gold.rate_min: .*Mbps"),
    "maximum of nothing": ("cpu_weight: 200", "rate_max: 0bps", "gold.rate_max: "),
    "maximum that is negative": ("cpu_weight: 200", "rate_max: -1Gbps", "gold.rate_max: "),
    "maximum sideways": ("cpu_weight: 200", "rate_max: {sideways: 1Gbps}", "gold.rate_max"),
    "priority 8": ("cpu_weight: 200", "priority: 8", "gold.priority: .*7"),
    "priority -1": ("cpu_weight: 200", "priority: -1", "gold.priority: "),
    "priority in words": ("cpu_weight: 200", "priority: high", "gold.priority: "),
    "link weight of 0": ("cpu_weight: 200", "link_weight: 0", "gold.link_weight: "),
    "queue of no frames": ("cpu_weight: 200", "queue: 0", "gold.queue: "),
    "queue of a billion": ("cpu_weight: 200", "queue: 1000000000", "gold.queue: "),
    "unknown engine": ("cpu_weight: 200", "forward: fpga", "gold.forward: .*xdp"),
    "unknown key": ("cpu_weight: 200", "cpu_wieght: 200", "gold.cpu_wieght: .*cpu_weight"),
    "two ways to find it": (GOLD, "netns: a, pid: 1", "gold.*(netns|pid)"),
    "no way to find it": (GOLD, "cpu_weight: 5", "gold.*(netns|docker)"),
    "process 0": (GOLD, "pid: 0", "gold.pid: "),
    "process -1": (GOLD, "pid: -1", "gold.pid: "),
    "process 2^63": (GOLD, f"pid: {2**63}", "gold.pid: "),
    "namespace that is a path": (GOLD, "netns: ../../etc/passwd", "gold.netns: "),
    "namespace without a name": (GOLD, "netns: ''", "gold.netns: "),
    "namespace with a line break": (GOLD, 'netns: "a\\nb"', "gold.netns: "),
    "container named as an option": (GOLD, "docker: --privileged", "gold.docker: "),
    "container with a semicolon": (GOLD, "docker: 'a; reboot'", "gold.docker: "),
    "container in unicode": (GOLD, "lxc: \u00e4\u00f6", "gold.lxc: "),
    "interface that is too long": (GOLD, "interface: abcdefghijklmnop", "gold.interface: .*15"),
    "interface with a slash": (GOLD, "interface: a/b", "gold.interface: "),
    "interface named by a dot": (GOLD, "interface: .", "gold.interface: "),
    "MAC of nobody": (GOLD, f"{GOLD}, mac: 'zz:zz'", "gold.mac: "),
    "MAC that is multicast": (GOLD, f"{GOLD}, mac: '01:00:5e:00:00:01'", "gold.mac: "),
    "MAC of zeros": (GOLD, f"{GOLD}, mac: '00:00:00:00:00:00'", "gold.mac: "),
    "way out by a NIC that there is not": (GOLD, f"{GOLD}, interfaces: {{eth0: w9}}",
                                           "gold.interfaces.*w9"),
    "no NICs, and only some interfaces its own": (
        GOLD, f"{GOLD}, interfaces: {{eth0: own, eth1: w9}}", "gold.interfaces.*w9"),
    "router named by a slash": ("gold:", "a/b:", "a/b"),
    "router named by two dots": ("gold:", "..:", r"\.\."),
    "router named by nothing": ("gold:", "'':", "routers"),
    "router in an enormous name": ("gold:", f"{'g' * 300}:", "routers"),
    "the same router twice": ("bronze:", "gold:", "gold.*twice"),
    "two routers in one namespace": ("absent-too", "absent", "bronze.*gold|gold.*bronze"),
    "router is a list": (f"{{{GOLD}}}", "[1]", "routers.gold"),
    "router is nothing": (f"{{{GOLD}}}", "", "routers.gold"),
    "no NICs": (NICS, "{}", "nics: "),
    "NIC with a name that is too long": ("w0:", "abcdefghijklmnop:", "nics.abcdefghijklmnop"),
    "NIC with a slash": ("w0:", "'a/b':", "nics.a/b"),
    "link of nothing": ("rate: 1Gbps", "rate: 0bps", "nics.w0.rate: "),
    "link of infinity": ("rate: 1Gbps", "rate: infbps", "nics.w0.rate: "),
    "frames told apart by magic": ("rate: 1Gbps", "rate: 1Gbps, steer: magic", "nics.w0.steer: "),
    "link in frames": ("rate: 1Gbps", "rate: 5kpps", "nics.w0.rate: "),
    "NIC is a list": (NICS, "[w0]", "nics: "),
}  # fmt: skip

ROWS: Final[dict[str, Row]] = {
    **{
        name: Row("apply x.yaml", 2, says, files={"x.yaml": policy(old, new)}, lines=6)
        for name, (old, new, says) in CHANGED.items()
    },
    "core that this host has not": Row(
        "apply x.yaml", 2, "gold: cores: there is no core 1000", where="wire",
        files={"x.yaml": policy("cpu_weight: 200", "cores: [1000]")},
    ),
    "core of a NIC that this host has not": Row(
        "apply x.yaml", 2, "nic w0: cores: there is no core 1000", where="wire",
        files={"x.yaml": policy("rate: 1Gbps", "rate: 1Gbps, cores: [1000]")},
    ),
    "receive queues of a NIC that has no filters": Row(
        "apply x.yaml", 3, "nic w0: .*steer: hardware.*not supported on this host", where="wire",
        files={"x.yaml": policy("rate: 1Gbps", "rate: 1Gbps, steer: hardware")},
    ),
    "NIC that this host has not": Row("apply policy.yaml", 2, "w0"),
    "NIC that is loopback": Row(
        "apply x.yaml", 2, "lo is the loopback", files={"x.yaml": policy("w0:", "lo:")},
    ),
    "verify without routers that run": Row("verify x.yaml", 2, "x.yaml: no such file"),
    "verify: bad frames to others' routers": Row(
        "verify policy.yaml --from w0 --to w1 --thorough", 2, "--thorough is for a test bed"
    ),
    "verify: half of it": Row("verify policy.yaml --from w0", 2, "give both --from and --to"),
    "verify: where, without to": Row("verify policy.yaml --nic w0", 2, "need --from and --to"),
    "verify: no time at all": Row("verify policy.yaml --time-limit 0s", 2, "--time-limit|duration"),
    "verify: tolerance NaN": Row("verify policy.yaml --tolerance nan", 2, "--tolerance"),
    "verify: tolerance inf": Row("verify policy.yaml --tolerance inf", 2, "--tolerance"),
    "verify: no time": Row("verify policy.yaml --duration 0s", 2, "--duration|duration"),
    "verify: a year": Row("verify policy.yaml --duration 9000h", 2, "--duration|duration"),
    "verify: destination of nobody": Row(
        "verify policy.yaml --from w0 --to w0 --destination nobody=198.18.0.9", 2, "nobody|w0",
        where="policy",
    ),
    "verify: destination without a router": Row(
        "verify policy.yaml --from w0 --to w1 --destination =1.2.3.4", 2, "ROUTER=ADDRESS",
        where="policy",
    ),
    "verify: destination that is none": Row(
        "verify policy.yaml --from w0 --to w1 --destination gold=nowhere", 2, "nowhere",
        where="policy",
    ),
    "verify: namespace that there is not": Row(
        "verify policy.yaml --from w0@absent --to w1 --destination gold=198.18.0.9", 2, "absent",
        where="policy",
    ),
}  # fmt: skip

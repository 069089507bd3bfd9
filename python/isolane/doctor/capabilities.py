"""All capabilities that the doctor examines: what a missing one rules out, and how to get it."""

from __future__ import annotations

from isolane.doctor.answers import Capability

_KERNEL_CONFIG = "a kernel built with {}, such as Debian's: apt-get install linux-image-amd64"


def _config(option: str) -> str:
    return _KERNEL_CONFIG.format(option)


_ROWS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "root",
        "host",
        "Root",
        "every live measurement: namespaces and BPF need root",
        "run as root: sudo isolane ...",
    ),
    (
        "kernel",
        "host",
        "Linux 5.18 or later",
        "the frame generator: live frames exist since Linux 5.18",
        "install a newer kernel; Debian 12 has 6.1",
    ),
    (
        "cores",
        "host",
        "Two cores or more",
        "live measurements: generator and receiver need a core beside the routers' cores",
        "a machine with more cores",
    ),
    (
        "clock",
        "host",
        "Steady clock",
        "exact delays: reading this clock is slow",
        "boot with clocksource=tsc, if the machine's TSC is stable",
    ),
    (
        "steal",
        "host",
        "Cores that nobody else uses",
        "repeatable results: the hypervisor takes CPU time away",
        "give this virtual machine dedicated cores, or use bare metal",
    ),
    (
        "frequency",
        "host",
        "Steady core frequency",
        "repeatable results: the cost per frame follows the core's frequency",
        "cpupower frequency-set --governor performance",
    ),
    (
        "perf",
        "host",
        "Hardware counters",
        "isolane profile by the processor's cycles; the kernel's timer takes their place",
        (
            "pass the PMU to the virtual machine (QEMU: -cpu host,pmu=on), or "
            "sysctl kernel.perf_event_paranoid=1"
        ),
    ),
    (
        "btf",
        "bpf",
        "Type information (BTF)",
        "loading Isolane's BPF programs",
        _config("CONFIG_DEBUG_INFO_BTF"),
    ),
    (
        "jit",
        "bpf",
        "BPF compiled to machine code",
        "full speed: the kernel interprets BPF programs, which is slow",
        "sysctl net.core.bpf_jit_enable=1",
    ),
    (
        "native-module",
        "bpf",
        "Isolane's own BPF programs",
        "generator and receiver: every live measurement",
        "run make setup in a clone, or install the wheel",
    ),
    (
        "live-frames",
        "bpf",
        "Live frames (BPF_PROG_TEST_RUN)",
        "the frame generator",
        "Linux 5.18 or later with CONFIG_BPF_SYSCALL, as root",
    ),
    (
        "xdp-veth",
        "bpf",
        "XDP in native mode on veth",
        "generator and receiver in a test bed",
        _config("CONFIG_VETH, CONFIG_BPF_SYSCALL"),
    ),
    (
        "nic-xdp",
        "bpf",
        "XDP on this NIC",
        (
            "full speed over this NIC (generic mode works, but is slower); under a policy: "
            "dropping frames before the kernel receives them, cpu_max, forward: xdp"
        ),
        "a NIC whose driver has native XDP: i40e, ice, ixgbe, mlx5, virtio_net, ...",
    ),
    (
        "af-xdp",
        "bpf",
        "AF_XDP sockets",
        "user-space back ends and the comparison with DPDK",
        _config("CONFIG_XDP_SOCKETS"),
    ),
    (
        "netns",
        "network",
        "Network namespaces",
        "containers as routers, and every test bed",
        _config("CONFIG_NET_NS"),
    ),
    ("veth", "network", "veth", "every test bed: its wires are veth pairs", _config("CONFIG_VETH")),
    ("bridge", "network", "bridge", "path bridge", _config("CONFIG_BRIDGE")),
    ("macvlan", "network", "macvlan", "path macvlan", _config("CONFIG_MACVLAN")),
    ("macvtap", "network", "macvtap", "path macvtap (virtual machines)", _config("CONFIG_MACVTAP")),
    ("tun", "network", "tun/tap", "path tap (virtual machines)", _config("CONFIG_TUN")),
    (
        "nftables",
        "network",
        "nftables, tracking, NAT",
        "services of routers in experiments",
        "apt-get install nftables, and "
        + _config("CONFIG_NF_TABLES_INET, CONFIG_NFT_CT and CONFIG_NFT_MASQ"),
    ),
    (
        "threaded-napi",
        "network",
        "Threaded NAPI",
        "experiments with `receive: threaded`",
        "Linux 5.12 or later",
    ),
    (
        "napi-owners",
        "network",
        "Which thread polls which interface",
        "policies on routers whose interfaces have one name, such as eth0 of many containers",
        "Linux 6.8 or later; Debian 13 has 6.12",
    ),
    *(
        (
            f"qdisc-{kind}",
            "network",
            f"qdisc {kind}",
            lack,
            _config(f"CONFIG_NET_SCH_{option}"),
        )
        for kind, option, lack in (
            ("htb", "HTB", "sharing a link by rates and weights"),
            ("tbf", "TBF", "rate limits as reference in tests"),
            ("clsact", "INGRESS", "BPF on egress: frame accounting and sharing a link"),
        )
    ),
    (
        "cgroup-cpu",
        "cpu",
        "CPU cgroup",
        "CPU shares for routers",
        "cgroup v2 with the cpu controller delegated, or v1 mounted with cpu",
    ),
    (
        "cgroup-cpuacct",
        "cpu",
        "CPU accounting per cgroup",
        "exact CPU accounting of threaded routers",
        "cgroup v2 with the cpu controller, or v1 mounted with cpuacct",
    ),
    (
        "cgroup-cpuset",
        "cpu",
        "Core sets per cgroup",
        "pinning whole routers to cores",
        "cgroup v2 with the cpuset controller, or v1 mounted with cpuset",
    ),
    (
        "slices",
        "cpu",
        "Time slices of threads",
        "short ones under a policy: a victim waits longer for its core",
        "Linux 6.12 or later",
    ),
    (
        "kvm",
        "vm",
        "KVM starts a virtual machine",
        "virtual machines as routers at full speed (hypervisor: kvm)",
        (
            "switch hardware virtualisation on (BIOS), or nested virtualisation (hypervisor); "
            "apt-get install qemu-system-x86; modprobe kvm_intel or kvm_amd; isolane guest-kernel"
        ),
    ),
    (
        "tcg",
        "vm",
        "QEMU emulates a virtual machine",
        "virtual machines with NICs of real models where KVM does not work (hypervisor: tcg)",
        "apt-get install --no-install-recommends qemu-system-x86 seabios; isolane guest-kernel",
    ),
    (
        "uml",
        "vm",
        "A User-Mode Linux guest boots",
        "virtual machines as routers, without hardware virtualisation",
        "apt-get install --no-install-recommends user-mode-linux",
    ),
    (
        "vhost-net",
        "vm",
        "vhost-net",
        "fast virtio NICs for virtual machines",
        "modprobe vhost_net (CONFIG_VHOST_NET)",
    ),
    (
        "iommu",
        "vm",
        "IOMMU and VFIO",
        "passing a NIC or a VF through to a virtual machine",
        "switch the IOMMU on (BIOS; intel_iommu=on) and modprobe vfio-pci",
    ),
    (
        "sr-iov",
        "vm",
        "SR-IOV",
        "policies on virtual functions (vf:); experiments use them in simulation only",
        "a NIC with SR-IOV; switch it on in firmware and BIOS",
    ),
)

CAPABILITIES: dict[str, Capability] = {row[0]: Capability(*row) for row in _ROWS}
"""Capabilities by id, in the order of the report."""

GROUP_TITLES: dict[str, str] = {
    "host": "Host",
    "bpf": "BPF and XDP",
    "network": "Links and queues",
    "cpu": "Cgroups",
    "vm": "Virtual machines and NIC hardware",
}

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "measure": (
        "root", "kernel", "cores", "btf", "native-module", "live-frames", "xdp-veth", "netns",
        "veth",
    ),
    "enforce": (
        "root", "kernel", "netns", "veth", "xdp-veth", "threaded-napi", "qdisc-htb",
        "qdisc-clsact", "cgroup-cpu",
    ),
    "vm": ("root", "kernel", "cores", "live-frames", "netns", "veth", "uml"),
}  # fmt: skip
"""Capabilities that each of Isolane's jobs needs."""

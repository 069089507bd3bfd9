"""Names of the configurations, and the experiment that holds each one's trials."""

from __future__ import annotations

from typing import Final

THROUGHPUT: Final = "rathore2013-throughput"
ONE_CORE: Final = "rathore2013-routers-1core"
TWO_CORES: Final = "rathore2013-routers-2cores"
SCENARIO1: Final = "rathore2013-scenario1-sim"
SCENARIO2: Final = "rathore2013-scenario2-sim"

WORDS: Final = {
    "native": "IP forwarding, not virtualized",
    "container-sriov": "SR-IOV (LXC)",
    "vm-sriov": "SR-IOV (KVM)",
    "container-macvlan": "macvlan (LXC)",
    "vm-macvtap": "macvtap (KVM)",
    "vm-sriov-shares": "SR-IOV (KVM), CPU shares 2:1",
}
"""The paper's names of the arms."""

LINE_KPPS: Final = 1488.0

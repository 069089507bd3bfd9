"""What the paper's test bed is, and assumed to be, beyond what the host profile says."""

from __future__ import annotations

from typing import Final

CORES: Final = 12
"""Cores of a server: 2 x 6 without hyper-threads (the paper's table 1; Intel's data sheet)."""
FRAME_BYTES: Final = 64
"""Size of echoes and of background frames, bytes (the paper's section 3.1.2)."""
PINGS: Final = 100
"""Echoes of a trial (the same section)."""
REPEATS: Final = 10
"""Trials of a cell (the same section)."""
BACKGROUND_PPS: Final = 5_850.0
"""Frames per second that each background VM sends under network load. The paper gives no rate. It
is fitted to one figure of its section 4.3: the sender server is busy to 45.94 to 46.9 % with 128
background VMs behind the bridge and network load on the sender."""
BURST_FRAMES: Final = 32
"""Frames of a burst: assumed, the paper says "packet bursts" and no more."""
WARM_UP_NS: Final = 200_000_000
"""Simulated time before the first echo that counts, ns. All VMs' virtual runtimes begin at 0, and
eleven on a core have all run for more than half of CFS's latency after that, what a sleeper is
given; with 0.8 s the medians under network load are the same within their intervals."""
STAGGER_NS: Final = 20_000_000
"""Within this time, ns, the background VMs begin to compute one after the other."""
DRAIN_NS: Final = 50_000_000
"""Simulated time after the last echo was sent, ns, for those that are late."""

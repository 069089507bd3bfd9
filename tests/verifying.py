"""``isolane verify`` with real frames, of policies that somebody may tamper with meanwhile."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.enforce.rig import Rig
from tests.live import LIMIT_S, Process, await_free, background, in_process

CPU = """\
isolane: 1
name: cpu
nics: {eth1: {rate: 10Gbps}}
defaults: {cores: [0]}
routers:
  heavy: {netns: nowhere-1, cpu_weight: 400}
  light: {netns: nowhere-2, cpu_weight: 100}
"""
LINK = """\
isolane: 1
name: link
nics: {eth1: {rate: 100Mbps}}
defaults: {cores: [0]}
routers:
  promised: {netns: nowhere-1, rate_min: 40Mbps}
  first: {netns: nowhere-2, priority: 0, rate_max: {ingress: 20kpps}}
"""
QUICK = ("--time-limit", "30s", "--duration", "200ms", "--tolerance", "8", "--json")
"""Whatever is decided on a busy machine is decided soon: eleven pairs that agree are enough."""
NIC = "isl-ni1"
"""That frames leave a test bed's device under test by."""
BED_GROUP = "isolane-testbed"
BED_STATE = Path("/run/isolane/testbed-policy")


def findings(
    done: subprocess.CompletedProcess[str] | Process,
) -> dict[tuple[str, str], dict[str, Any]]:
    assert done.stdout, done.stderr
    return {(f["router"], f["promise"]): f for f in json.loads(done.stdout)["findings"]}


@contextlib.contextmanager
def again_and_again(work: Callable[[], object]) -> Iterator[None]:
    """Do something all the time that a policy is in force on a test bed, in a thread apart."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(0.002):
            # While it is being applied, sabotage would be noticed, and all be rolled back.
            if not (BED_STATE / "state.json").exists() or (BED_STATE / "open.jsonl").exists():
                continue
            # What is to be sabotaged comes and goes with the test beds.
            with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
                work()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def verify_while(
    folder: Path, text: str, work: Callable[[], object], *more: str
) -> tuple[int, Any]:
    """Verify a policy while something is done to it; returns exit status and findings."""
    file = folder / "policy.yaml"
    file.write_text(text)
    deadline = time.monotonic() + LIMIT_S
    while True:
        await_free()
        with (
            again_and_again(work),
            background(folder / "out", "verify", file, *QUICK, *more) as process,
        ):
            status = process.end()
            if "another run is under way" in process.stderr and time.monotonic() < deadline:
                continue
            return status, findings(process)


def groups_of_bed(router: str) -> list[Path]:
    """cgroups of a router of a test bed, of all hierarchies."""
    root = Path("/sys/fs/cgroup")
    return [at for top in (root, *root.glob("*")) if (at := top / BED_GROUP / router).is_dir()]


def into_the_others_group() -> None:
    """Move the threads of the first router into the group of the second."""
    for group in groups_of_bed("r1"):
        for name in ("tasks", "cgroup.threads"):
            if (group / name).exists():
                for thread in (group / name).read_text().split():
                    (group.parent / "r2" / name).write_text(thread)


def tc(*words: str) -> str:
    """Run ``tc`` in the test bed's device under test."""
    command = ["ip", "netns", "exec", "isolane-dut", "tc", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=5).stdout


def without_its_class() -> None:
    """Take the first router's class away: its frames go where those of nobody go."""
    classes = re.findall(
        r"^class htb (\w+:\w+) .* leaf ", tc("class", "show", "dev", NIC), re.MULTILINE
    )
    if len(classes) == 2:  # else it has been taken away before
        tc("class", "del", "dev", NIC, "classid", min(classes))


def really(rig: Rig, file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """Verify on the running routers, between the rig's generator and receiver."""
    wires = {name: rig.wire(name) for name in rig.routers}
    one = next(iter(wires.values()))
    words = ["--from", f"{one.gen_ifname}@isolane-gen", "--to", f"{one.rcv_ifname}@isolane-rcv"]
    words += ["--source", one.src_ip, "--nic", rig.nics[1]]
    for name, wire in wires.items():
        words += ["--destination", f"{name}={wire.dst_ip}@{rig.bed.inner_interfaces[name][0]}"]
    return in_process("verify", file, *QUICK, *words, *more)


RUNNING = {"vr1": "rate_min: 40Mbps", "vr2": "priority: 0"}

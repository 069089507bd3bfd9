"""Rust's tests of the BPF programs once more, under the kernel of QEMU guests: Debian 12's, 6.1.

What this host's verifier takes may be refused by an older one, which knows fewer bounds.
Run by ``make test-rust``; on its own: ``python -m tests.older_kernel [NAME ...]``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from isolane.guests.debian_kernel import GuestKernel
from isolane.guests.qemu import KERNEL_WORDS

ROOT = Path(__file__).parent.parent
NAMES = (
    *("load::", "accountant::", "points::", "profiler::", "policy_programs::", "admission::"),
    *("plane::tests::checksums", "plane::tests::ceilings", "plane::tests::a_spent"),
    *("receiver::tests::windows", "generator::tests::frames_are", "generator::tests::headers"),
    *("generator::tests::any_number", "generator::tests::bursts_that"),
)
"""Tests that load each program, with settings of each kind."""
NEEDS_VETH = ("too_long", "router_rx_forwards", "router_rx_leaves")
"""What these need, these guests' kernel has in a module that is not there."""
LIMIT_S = 900.0
MEMORY_MB = 1024
_SCRIPT = """\
mount -t tmpfs tmpfs /tmp
mount -t bpf bpf /sys/fs/bpf
ip link set lo up
uname -r
/older/tests --test-threads 1 {names} {skipped} 2>&1
poweroff -f
"""


def main(names: list[str]) -> int:
    """Run the tests whose names hold one of these; return the exit status."""
    kernel = GuestKernel.installed()
    if lack := kernel.lacking():
        print(f"older kernel: not run, {lack}")
        return 0
    with tempfile.TemporaryDirectory(prefix="isolane-older-") as made:
        told = run(kernel, Path(made), names)
    print(told)
    return 0 if re.search(r"^test result: ok\. [1-9]", told, re.MULTILINE) else 1


def run(kernel: GuestKernel, folder: Path, names: list[str]) -> str:
    """Boot the kernel with the tests in its memory, and return what it prints."""
    initrd, script = folder / "initrd", folder / "script"
    skipped = " ".join(f"--skip {name}" for name in NEEDS_VETH)
    script.write_text(_SCRIPT.format(names=" ".join(names), skipped=skipped))
    its_kernel, its_initrd = kernel.files
    # The kernel unpacks one archive after the other.
    initrd.write_bytes(its_initrd.read_bytes() + packed(folder / "root"))
    command = [
        *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-no-reboot", "-machine", "q35", "-accel", "tcg", "-cpu", "max"),
        *("-m", f"{MEMORY_MB}M", "-serial", "stdio"),
        *("-fw_cfg", f"opt/isolane/script,file={script}"),
        *("-kernel", str(its_kernel), "-initrd", str(initrd)),
        *("-append", f"console=ttyS0 quiet panic=-1 nokaslr{KERNEL_WORDS['tcg']}"),
    ]
    ended = subprocess.run(
        command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S
    )
    return (ended.stdout + ended.stderr).decode(errors="replace").replace("\r", "")


def packed(root: Path) -> bytes:
    """Return an archive (cpio) with the test binary and its libraries."""
    tests = binary()
    (root / "older").mkdir(parents=True)
    (root / "older" / "tests").write_bytes(tests.read_bytes())
    (root / "older" / "tests").chmod(0o755)
    needed = subprocess.run(["ldd", tests], check=True, capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", needed):
        target = root / library[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(library).read_bytes())
        target.chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    cpio = ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"]
    return subprocess.run(
        cpio, input=names.encode(), cwd=root, check=True, capture_output=True
    ).stdout


def binary() -> Path:
    """Return the program with the tests of crate ``dataplane``, which is built if need be."""
    told = subprocess.run(
        ["tools/cargo-test", "--quiet", "--no-run", "--message-format", "json"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    units = [json.loads(line) for line in told.splitlines()]
    (found,) = {
        unit["executable"]
        for unit in units
        if unit.get("executable")
        and unit["target"]["name"].replace("-", "_") == "isolane_dataplane"
    }
    return Path(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(NAMES)))

"""Capture points, live: frames are stamped where they pass, and the times add up."""

from __future__ import annotations

import struct
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
from isolane.results.folder import CAPTURES, RunFolder
from isolane.results.parts import LAST, WHOLE
from isolane.results.results import RouterTrial

from tests.live import LIMIT_S, assert_same_host, isolane, quiet_host
from tests.test_patterns_live import assert_sound

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: parts
traffic: {{ip: {ip}, frame_size: 84, flows: 10}}
routers:
  - {{name: one, role: victim, traffic: {{mode: echo}}}}
  - {{name: two, traffic: {{mode: icmp-echo}}}}
  - {{name: three}}
  - {{name: four, role: aggressor}}
load: {{one: 2kpps, two: 2kpps, three: 2kpps, four: 2kpps}}
arms:
{arms}
trial: {{duration: 50ms, warmup: 50ms, repeats: 1, retries: 0, null_dut: false,
         capture_points: true}}
"""
PASSED = {
    "direct": ["router-in", "router-out"],
    "bridge": ["nic-in", "port-in", "router-in", "router-out", "port-out", "nic-out"],
    "macvlan": ["nic-in", "router-out", "nic-out"],
    "isolane": ["router-in", "router-out"],
    "tap": ["router-in", "router-out"],
    "macvtap": ["nic-in", "router-out", "nic-out"],
    "netback": ["nic-in", "nic-out"],
}
"""Path of routers of any kind -> its capture points, in the order of a frame's way."""


@pytest.mark.parametrize(("ip", "paths"), [(4, ("direct", "bridge", "isolane")), (6, ("macvlan",))])
def test_the_parts_of_a_way_add_up(ip: int, paths: tuple[str, ...], tmp_path: Path) -> None:
    arms = "\n".join(f"  - {{name: {path}, path: {path}}}" for path in paths)
    file, before = tmp_path / "parts.yaml", quiet_host()
    file.write_text(TEXT.format(ip=ip, arms=arms))
    done = isolane("run", file, "--output", tmp_path / "run", "--details")
    assert done.returncode == 0, done.stderr
    assert_same_host(before)
    trials = RunFolder.open(tmp_path / "run").trials()
    for trial in trials:
        assert_sound(trial)
        if trial.purpose != "measure":
            continue
        one, two, three, four = trial.routers
        assert four.parts is None
        assert_parts(one, PASSED[trial.arm])
        assert_parts(two, PASSED[trial.arm])
        assert_parts(three, PASSED[trial.arm])
    counted = any(trial.status == "ok" and trial.purpose == "measure" for trial in trials)
    assert ("Mean time of a frame on each part of its way" in done.stdout) == counted


CAPTURED = """\
isolane: 1
name: captured
traffic: {frame_size: 200, flows: 10}
routers:
  - {name: one, path: bridge}
  - {name: two, path: bridge, role: aggressor}
load: {one: 2kpps, two: 2kpps}
trial: {duration: 100ms, warmup: 20ms, repeats: 1, retries: 0, null_dut: false, capture: true}
"""


def test_stamped_frames_are_in_a_file_that_others_read(tmp_path: Path) -> None:
    file, before = tmp_path / "captured.yaml", quiet_host()
    file.write_text(CAPTURED)
    done = isolane("run", file, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert_same_host(before)
    assert f"frames, for Wireshark: {tmp_path / 'run' / CAPTURES}" in done.stdout
    folder = RunFolder.open(tmp_path / "run")
    (trial,) = [trial for trial in folder.trials() if trial.purpose == "measure"]
    assert_sound(trial)
    one, two = trial.routers
    assert two.parts is None
    captured = (folder.path / CAPTURES / f"trial-{trial.trial}.pcapng").read_bytes()
    points, frames = blocks_of(captured)
    names = PASSED["bridge"]
    assert [title for _, title in points] == [f"{name} of one" for name in names]
    stamps = defaultdict(list)
    for frame in frames:
        stamps[frame.signature].append((frame.at_ns, frame.interface))
        assert (frame.whole, frame.kept) == (196, 128), "without the checksum"
        assert frame.leaves == (names[frame.interface] in ("port-in", "router-out", "nic-out"))
    assert len(stamps) <= one.generated_frames
    for seen in stamps.values():
        assert [point for _, point in seen] == list(range(len(seen))), "each point once, in order"
    whole = next((part.frames for part in one.parts or () if part.part == WHOLE), 0)
    assert sum(len(seen) == len(names) for seen in stamps.values()) >= whole
    assert whole <= one.generated_frames
    assert whole or not one.received_frames
    if frames:
        assert abs(frames[0].at_ns / 1e9 - trial.started_unix_s) < 600
    # By a pipe: where AppArmor is on, Debian's tcpdump opens no file of that name.
    read = subprocess.run(
        ["tcpdump", "-nn", "-r", "-"],
        input=captured,
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )
    lines = read.stdout.decode().splitlines()
    assert len(lines) == len(frames)
    assert all(" IP 198.18." in line and "UDP" in line for line in lines)


@dataclass(frozen=True)
class Frame:
    """An enhanced packet block (draft-ietf-opsawg-pcapng, 4.3)."""

    interface: int
    at_ns: int
    kept: int
    whole: int
    signature: bytes
    leaves: bool


_UDP_PAYLOAD = 42
"""Where it begins in a frame of IPv4; a signature is 18 bytes."""


def blocks_of(data: bytes) -> tuple[list[tuple[str, str]], list[Frame]]:
    """Return name and description of a capture file's interfaces, and its frames."""
    interfaces, frames, at = [], [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8 : at + length - 4]
        if kind == 1:
            options = options_of(body[8:])
            interfaces.append((options[2].decode(), options[3].decode()))
        elif kind == 6:
            interface, high, low, kept, whole = struct.unpack_from("<5I", body)
            head = body[20 : 20 + kept]
            flags = options_of(body[20 + (kept + 3 & ~3) :])[2]
            signature = head[_UDP_PAYLOAD : _UDP_PAYLOAD + 18]
            frames.append(
                Frame(interface, high << 32 | low, kept, whole, signature, flags[0] & 3 == 2)
            )
        at += length
    return interfaces, frames


def options_of(data: bytes) -> dict[int, bytes]:
    """Return a block's options by their numbers."""
    found, at = {}, 0
    while at < len(data):
        option, size = struct.unpack_from("<HH", data, at)
        found[option] = data[at + 4 : at + 4 + size]
        at += 4 + (size + 3 & ~3)
    return found


def assert_parts(router: RouterTrial, passed: list[str]) -> None:
    """Check which parts there are, and that they make up the whole."""
    parts = {part.part: part for part in router.parts or ()}
    if not router.received_frames:
        return
    assert set(parts) == {*passed, WHOLE, LAST}, router.path
    assert router.delay is not None
    for part in parts.values():
        assert part.frames <= router.generated_frames
    told = sum(part.mean_ns for name, part in parts.items() if name != WHOLE)
    assert told == pytest.approx(router.delay.mean_ns)
    if len({part.frames for part in parts.values()}) == 1:  # each frame passed all of them
        first = min(passed, key=list(parts).index)
        inner = sum(parts[name].mean_ns for name in passed if name != first)
        assert parts[WHOLE].mean_ns == pytest.approx(inner)
        assert parts[first].mean_ns + parts[WHOLE].mean_ns < router.delay.mean_ns

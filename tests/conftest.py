"""Fixtures of the end-to-end tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from isolane.guests import KERNEL, PACKAGE, qemu

TINY = """\
isolane: 1
name: tiny
traffic: {{frame_size: {size}, flows: 10, ip: {ip}}}
routers:
  - {{name: one, role: victim}}
  - {{name: two, role: aggressor}}
load: {load}
arms:
{arms}
trial: {{duration: {duration}, warmup: 20ms, repeats: {repeats}, retries: 0, seed: 1,
         null_dut: false}}
"""


@pytest.fixture
def needs_root() -> None:
    """For tests that make network namespaces, and for those that then need two cores."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces and loads BPF programs")
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores: one for the DUT, one for generator and receiver")


@pytest.fixture
def needs_guest_kernel() -> None:
    """For tests that start virtual machines."""
    if shutil.which(KERNEL) is None:
        pytest.skip(f"there is no {KERNEL}: apt-get install {PACKAGE}")


@pytest.fixture
def needs_qemu_guests() -> None:
    """For tests that start virtual machines under QEMU, emulated."""
    if why := qemu.lacking("tcg"):
        pytest.skip(why)


class Tiny:
    """Writes experiments of two routers that take a second or two."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = 0

    def __call__(
        self,
        *,
        arms: tuple[str, ...] = ("direct softirq",),
        load: str = "{one: 5kpps, two: [2kpps, 5kpps]}",
        size: str = "imix",
        ip: int = 4,
        repeats: int = 1,
        duration: str = "100ms",
    ) -> Path:
        lines = []
        for arm in arms:
            path, receive = arm.split()
            lines.append(f"  - {{name: {path}-{receive}, path: {path}, receive: {receive}}}")
        self._written += 1
        file = self._folder / f"tiny-{self._written}.yaml"
        file.write_text(
            TINY.format(
                size=size, ip=ip, load=load, arms="\n".join(lines), duration=duration,
                repeats=repeats,
            )
        )  # fmt: skip
        return file


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return Tiny(tmp_path)

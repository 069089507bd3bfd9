"""`isolane profile` on what really runs: every sample is somebody's, and the right one's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.enforce.rig import Rig
from tests.live import LIMIT_S, assert_same_host, isolane, quiet_host

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

BURNER = """\
#include <unistd.h>
volatile unsigned long sum;
__attribute__((noinline)) void burn_much(void) { for (long i = 0; i < 3000000; i++) sum += i; }
__attribute__((noinline)) void burn_little(void) { for (long i = 0; i < 1000000; i++) sum += i; }
int main(void)
{
	pid_t parent = getppid();
	while (getppid() == parent) {
		burn_much();
		burn_little();
	}
}
"""


@pytest.fixture
def burner(tmp_path: Path) -> Iterator[int]:
    """A program on the last core that spends its time in two functions; yields that core."""
    core = max(os.sched_getaffinity(0))
    source, program = tmp_path / "burner.c", tmp_path / "burner"
    source.write_text(BURNER)
    compiler = shutil.which("clang") or "cc"
    options = ("-O1", "-fno-omit-frame-pointer", "-o", str(program), str(source))
    subprocess.run([compiler, *options], check=True, timeout=LIMIT_S)
    process = subprocess.Popen([program])
    os.sched_setaffinity(process.pid, {core})
    yield core
    process.kill()
    process.wait()


def test_a_programs_functions_are_found_and_every_sample_is_in_every_file(
    burner: int, tmp_path: Path
) -> None:
    before = quiet_host()
    deadline, number = time.monotonic() + LIMIT_S, 0
    while True:
        number += 1
        folder = tmp_path / f"profile-{number}"
        done = isolane(
            "profile", "--cores", burner, "-d", "500ms", "--rate", 997, "-o", folder, "--json"
        )
        assert done.returncode == 0, done.stderr
        assert "no policy is in force" in done.stderr
        found = json.loads(done.stdout)
        stacks = folded(folder / "profile.folded")
        if all(any(name in chain for chain in stacks) for name in ("burn_much", "burn_little")):
            break
        assert time.monotonic() < deadline, stacks
    assert found == json.loads((folder / "profile.json").read_text())
    assert [owner["owner"] for owner in found["owners"]] == ["host"]
    busy = found["owners"][0]["samples"]
    assert busy + found["idle_samples"] == found["all_samples"]
    assert sum(stacks.values()) == busy
    for chain in stacks:
        if "burn_much" in chain or "burn_little" in chain:
            assert chain.startswith("host;burner;")
            assert ";main;" in chain
    assert (folder / "flame-graph.svg").read_text().startswith("<svg")
    speedscope = json.loads((folder / "profile.speedscope.json").read_text())
    assert len(speedscope["profiles"]) == 1
    assert_same_host(before)


def folded(file: Path) -> dict[str, int]:
    """Chain -> samples."""
    lines = (line.rpartition(" ") for line in file.read_text().splitlines())
    return {chain: int(samples) for chain, _, samples in lines}


def test_samples_belong_to_the_router_that_works_and_to_the_nics(rig: Rig) -> None:
    rig.apply(vr1="cpu_weight: 200")
    deadline, load_s = time.monotonic() + LIMIT_S, 2.0
    while True:
        found = profiled_under_load(rig, load_s)
        owners = {owner["owner"]: owner for owner in found["owners"]}
        assert set(owners) <= {"vr1", "vr2", "NICs", "host"}
        if "NICs" in owners and in_the_network_stack(owners.get("vr1")):
            break
        assert time.monotonic() < deadline, owners
        load_s = min(2 * load_s, 32)
    assert "vr2" not in owners, "it had no frames"
    assert found["cores"] == [rig.core]
    total = sum(owner["samples"] for owner in owners.values())
    assert total + found["idle_samples"] == found["all_samples"]
    assert owners["vr1"]["frames"] > 0
    done = rig.cli("profile", "vr2", "-d", "100ms")
    assert "no sample met vr2" in done
    assert "there is no router vr9; accepted: vr1, vr2" in rig.cli("profile", "vr9", status=2)


def in_the_network_stack(owner: dict[str, Any] | None) -> bool:
    """Whether a sample met a router there while it had frames."""
    if owner is None or not owner["frames"]:
        return False
    stack = (each for each in owner["categories"] if each["category"] == "network stack")
    return any(each["samples"] for each in stack)


def profiled_under_load(rig: Rig, load_s: float) -> dict[str, Any]:
    """Profile while vr1 has more than it can forward, where that begins soon enough."""
    found: list[dict[str, Any]] = []

    def profile() -> None:
        found.append(rig.data("profile", "-d", "1s", "--rate", 997))

    rig.offer({"vr1": 300e3}, load_s, meanwhile=profile)
    return found[0]

"""``isolane verify`` with real frames: what it says fits its figures, misuse is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.enforce.rig import Rig, rigged
from tests.live import assert_same_host, in_process, isolane, quiet_host
from tests.verifying import CPU, QUICK, findings, really

pytestmark = [pytest.mark.native, pytest.mark.root]


@pytest.mark.usefixtures("needs_root")
def test_each_promise_is_told_whatever_became_of_it(tmp_path: Path) -> None:
    """Which verdict there is depends on the machine; that it fits the figures does not."""
    before = quiet_host()
    file = tmp_path / "policy.yaml"
    file.write_text(CPU)
    done = isolane("verify", file, *QUICK, "--time-limit", "5s")
    found = findings(done)
    assert_same_host(before)
    assert set(found) == {
        ("heavy", "cpu_weight"), ("light", "cpu_weight"), ("heavy", "retained"),
        ("light", "retained"),
    }  # fmt: skip
    verdicts = {finding["verdict"] for finding in found.values()}
    assert verdicts <= {"held", "broken", "undecided", "not measured"}
    statuses = {"broken": 4, "undecided": 1, "held": 0, "not measured": 3}
    assert done.returncode == next(n for word, n in statuses.items() if word in verdicts), found
    for finding in found.values():
        assert finding["pairs"] == len(finding["values"])
    heavy = found["heavy", "cpu_weight"]
    assert heavy["promised"] == 0.8 or heavy["verdict"] == "not measured"


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Two running routers, vr1 and vr2, that share two NICs of what is the host to this test."""
    with rigged(tmp_path, 2, "isolane", 4) as made:
        monkeypatch.setenv("ISOLANE_POLICY", made.tag)
        yield made


@pytest.mark.slow
@pytest.mark.usefixtures("needs_root")
def test_a_router_without_a_destination_is_named(rig: Rig) -> None:
    rig.apply()
    done = really(rig, rig.file(), "--destination", "vr3=192.0.2.1")
    assert done.returncode == 2
    assert "--destination vr3: not in the policy; accepted: vr1, vr2" in done.stderr


@pytest.mark.usefixtures("needs_root")
def test_another_policy_in_force_is_refused(rig: Rig) -> None:
    done = really(rig, rig.file())
    assert (done.returncode, done.stdout) == (2, "")
    assert "no policy is in force; apply policy" in done.stderr
    rig.apply(vr1="cpu_weight: 300")
    done = really(rig, rig.file())
    assert done.returncode == 2
    assert "the policy in force (test, applied " in done.stderr


def test_options_that_do_not_fit_together(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(CPU)
    for words, message in (
        (("--from", "eth0"), "give both --from and --to"),
        (("--nic", "eth1"), "need --from and --to"),
        (("--duration", "1ms"), "accepted: 50ms to 1h"),
    ):
        done = in_process("verify", file, *words)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.split())


def test_a_wrong_policy_is_refused_and_the_host_untouched(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(CPU.replace("cpu_weight: 400", "cpu_weight: 0"))
    done = in_process("verify", file)
    assert done.returncode == 2
    assert "routers.heavy.cpu_weight: 0 is out of range; accepted: 1 to 10000" in done.stderr

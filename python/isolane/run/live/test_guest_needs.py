"""What guests need of a host is asked for before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported
from isolane.run.live.guest_needs import lacking, refuse
from isolane.spec import Experiment, parse_experiment

TEXT = """\
isolane: 1
name: many
routers: [{name: a, count: [2, 20]}, {name: b}]
load: {a: 1kpps, b: 1kpps}
arms: [{name: container, path: direct}, {name: guest, kind: vm, path: tap}]
"""


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    kernel = tmp_path / "linux.uml"
    kernel.write_text("")
    kernel.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return parse_experiment(TEXT, "many.yaml")


def test_memory_for_the_largest_number_of_guests_at_one_time(many: Experiment) -> None:
    arms = many.resolved_arms()
    assert lacking(many, arms, available_mb=21 * 80) == ""
    told = lacking(many, arms, available_mb=21 * 80 - 1)
    assert told.startswith("21 guests need 21 x 80 MiB = 1680 MiB of memory, and 1679 MiB are free")
    assert lacking(many, arms[:1], available_mb=0) == "", "containers need none"


def test_a_host_without_the_kernel_is_told_its_package(
    many: Experiment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(NotSupported) as error:
        refuse(many, many.resolved_arms())
    assert str(error.value).endswith(
        "apt-get install user-mode-linux; or without virtual machines: --arms container"
    )
    with pytest.raises(NotSupported) as error:
        refuse(many, many.resolved_arms()[1:])
    assert str(error.value).endswith("apt-get install user-mode-linux")
    refuse(many, many.resolved_arms()[:1])

"""`isolane run` with routers that start from disk images, which Isolane knows nothing of."""

from __future__ import annotations

from pathlib import Path

import pytest
from isolane.external import router_examination
from isolane.results.folder import RunFolder
from isolane.trials.live import image_routers

from tests.came_through import came_through, was_at_work
from tests.guests.disk_images import TinyRouter, Word, needs_tools
from tests.live import assert_same_host, in_process, isolane, quiet_host

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_qemu_guests"),
]

TURNS = 5

EXPERIMENT = """\
isolane: 1
name: images
traffic: {{frame_size: {size}, flows: 10, ip: {ip}}}
routers:
{routers}
load: {{one: 1kpps, two: 1kpps}}
trial: {{duration: 100ms, warmup: 20ms, repeats: 1, retries: 0, seed: 1, null_dut: false}}
"""
ROUTERS = """\
  - {{name: one, kind: vm, path: {path}, hypervisor: tcg, memory: 160MB, image: {image}}}
  - {{name: two, {other}}}"""
UML = "kind: vm, path: tap, hypervisor: uml, memory: 96MB"
CONTAINER = "path: direct"
OWN_SIDES = "ingress: 192.0.2.1/24, egress: 198.51.100.1/24"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that takes its addresses from cloud-init's seed, and has some without."""
    needs_tools()
    return TinyRouter().write(tmp_path_factory.mktemp("image"))


def experiment(folder: Path, image: str, path: str, ip: int = 4) -> Path:
    """An image beside a router that is there sooner: two images would take twice as long."""
    file = folder / "images.yaml"
    size = {4: 64, 6: 84}[ip]
    other = UML if path == "tap" else CONTAINER
    routers = ROUTERS.format(image=image, path=path, other=other)
    file.write_text(EXPERIMENT.format(routers=routers, ip=ip, size=size))
    return file


def run_that_forwards(file: Path, folder: Path) -> RunFolder:
    """Run an experiment until frames came through each router.

    Nobody tells whether an image still has frames, so those that are late are lost there.
    """
    for turn in range(TURNS):
        done = isolane("run", file, "--output", folder / f"run-{turn}")
        assert done.returncode == 0, done.stderr
        opened = RunFolder.open(folder / f"run-{turn}")
        (trial,) = opened.trials()
        if all(came_through([router]) for router in trial.routers):
            return opened
    pytest.fail(f"a router forwarded nothing in {TURNS} runs")


def test_an_image_with_cloud_init_forwards_to_the_frame(image: Path, tmp_path: Path) -> None:
    before = quiet_host()
    file = experiment(tmp_path, f"{{file: {image}, cloud_init: auto}}", "macvtap", ip=6)
    opened = run_that_forwards(file, tmp_path)
    assert_same_host(before)
    (trial,), (series,) = opened.trials(), opened.series()
    assert trial.conserved, trial.reason
    kinds = [(router.kind, router.hypervisor, router.nic) for router in trial.routers]
    assert kinds == [("vm", "tcg", "virtio"), ("container", None, None)]
    for router in trial.routers:
        assert router.offered_total == router.received_total + sum(router.lost.values())
        assert router.lost["unaccounted"] == router.duplicated == 0
        assert router.cpu_ns or not was_at_work(router, series)


def test_an_image_with_addresses_of_its_own_stands_beside_isolanes_guest(
    image: Path, tmp_path: Path
) -> None:
    file = experiment(tmp_path, f"{{file: {image}, {OWN_SIDES}}}", "tap")
    folder = run_that_forwards(file, tmp_path)
    (trial,) = folder.trials()
    assert trial.conserved, trial.reason
    assert trial.routers[1].lost["in_router"] == 0, "Isolane's own guest tells where it drops"
    summary = folder.summary()
    assert summary is not None
    assert "Where routers from images lose frames" in {each.what for each in summary.not_measured}


def test_an_image_that_never_forwards_is_told_with_its_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_tools()
    monkeypatch.setattr(image_routers, "BOOT_S", 1.0)
    monkeypatch.setattr(router_examination, "TRIES", 2)
    made = Word("no router", ends=False).write(tmp_path)
    own = f"{{file: {made}, cloud_init: auto}}"
    before = quiet_host()
    file = experiment(tmp_path, own, "macvtap")
    done = in_process("run", file, "--output", tmp_path / "run")
    assert done.returncode == 1
    assert "router one does not" in done.stderr
    assert "it was started 1 s ago, and says: " in done.stderr
    assert_same_host(before)


def test_an_image_that_ends_is_told_with_its_console(tmp_path: Path) -> None:
    needs_tools()
    made = Word("good bye").write(tmp_path)
    own = f"{{file: {made}, cloud_init: auto}}"
    file = experiment(tmp_path, own, "macvtap")
    done = in_process("run", file, "--output", tmp_path / "run")
    assert done.returncode == 1
    assert "the guest of router " in done.stderr
    assert "has ended; its console: " in done.stderr

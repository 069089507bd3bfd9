"""What guests need of a host is asked for before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported, SpecError
from isolane.guests import kvm, qemu
from isolane.spec import Experiment, parse_experiment
from isolane.trials.live.guest_needs import decided, lacking, limits, refuse

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


@pytest.mark.usefixtures("many")
def test_guests_under_qemu_need_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "lacking", lambda _: "")
    mixed = parse_experiment(TEXT.replace("{name: b}", "{name: b, hypervisor: tcg}"), "many.yaml")
    told = lacking(mixed, mixed.resolved_arms(), available_mb=20 * 80 + 240 - 1)
    assert told.startswith(
        "21 guests need 20 x 80 MiB + 1 x 240 MiB = 1840 MiB of memory, and 1839 MiB are free"
    )
    assert lacking(mixed, mixed.resolved_arms(), available_mb=20 * 80 + 240) == ""


@pytest.mark.usefixtures("many")
def test_a_kvm_that_starts_nothing_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kvm, "fault_with_routers", lambda: "it did not end within 2 s")
    wanted = parse_experiment(TEXT.replace("kind: vm", "kind: vm, hypervisor: kvm"), "many.yaml")
    with pytest.raises(NotSupported) as error:
        refuse(wanted, wanted.resolved_arms())
    assert str(error.value) == (
        "not supported on this host: virtual machines with hypervisor kvm: it did not end within "
        "2 s; tcg and uml need no KVM; or without virtual machines: --arms container"
    )


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(("fault", "chosen"), [("", "kvm"), ("it hangs", "uml")])
def test_auto_is_kvm_where_it_really_works(
    fault: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kvm, "fault_with_routers", lambda: fault)
    nic = {"kvm": "virtio", "uml": "vector"}[chosen]
    for keys, expected in [
        ("", (chosen, nic)),
        (", hypervisor: auto", (chosen, nic)),
        (", nic: vector", ("uml", "vector")),
        (", hypervisor: uml", ("uml", "vector")),
        (", hypervisor: tcg, nic: e1000", ("tcg", "e1000")),
    ]:
        text = TEXT.replace("kind: vm", f"kind: vm{keys}")
        container, guest = map(decided, parse_experiment(text, "many.yaml").resolved_arms())
        assert {(r.live_hypervisor, r.live_nic) for r in guest.routers} == {expected}, keys
        assert all(router.live_hypervisor is None for router in container.routers)


def test_what_a_hypervisor_s_figures_stand_for(many: Experiment) -> None:
    container, guest = many.resolved_arms()
    assert not list(limits(container))
    (told,) = limits(guest)
    assert told.what == "Virtual machines under anything but User-Mode Linux"
    assert told.why.startswith(
        "on guest a, b ran under User-Mode Linux, a guest kernel in a process"
    )


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


def test_an_images_user_data_are_looked_at_before_anything_is_started(tmp_path: Path) -> None:
    (tmp_path / "x.qcow2").write_bytes(b"QFI\xfb\0\0\0\3" + bytes(96))
    image = f"{{file: {tmp_path}/x.qcow2, cloud_init: {tmp_path}/nowhere}}"
    text = TEXT.replace("{name: b}", f"{{name: b, hypervisor: tcg, image: {image}}}")
    wanted = parse_experiment(text, "many.yaml")
    with pytest.raises(SpecError, match=r"cloud_init .*/nowhere: No such file"):
        refuse(wanted, wanted.resolved_arms())

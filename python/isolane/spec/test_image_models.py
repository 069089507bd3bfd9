from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import ArmRouter, parse_experiment

TEXT = """
isolane: 1
name: images
traffic: {ip: %s, frame_size: 128}
routers:
  - {name: fw, %s}
  - {name: plain, path: direct}
load: {fw: 1kpps, plain: 1kpps}
"""
VM = "kind: vm, path: tap, hypervisor: tcg"
UML = VM.replace("tcg", "uml")
OWN = ", image: {file: a.qcow2, ingress: 192.0.2.1/24, egress: 198.51.100.1/24}"


def machine(more: str) -> ArmRouter:
    (arm,) = parse_experiment(TEXT % (4, VM + more)).resolved_arms()
    return arm.router("fw")


def test_an_image_is_a_file_or_more() -> None:
    short, long = machine(", image: a.qcow2").image, machine(OWN).image
    assert short is not None
    assert long is not None
    assert (short.file, short.ingress, short.cloud_init) == ("a.qcow2", None, None)
    assert (str(long.ingress), str(long.egress)) == ("192.0.2.1/24", "198.51.100.1/24")


@pytest.mark.parametrize("more", [", image: a.qcow2", OWN, ", memory: 1GB, vcpus: 2", ""])
def test_it_is_written_as_it_was_read(more: str) -> None:
    experiment = parse_experiment(TEXT % (4, VM + more))
    assert parse_experiment(experiment.to_yaml()) == experiment


def test_memory_and_processors() -> None:
    assert (machine("").memory_mb, machine("").vcpus) == (None, None)
    found = machine(", memory: 2GB, vcpus: 4")
    assert (found.memory_mb, found.vcpus) == (2048, 4)


def test_what_runs_an_image_by_itself_is_no_user_mode_linux() -> None:
    text = TEXT % (4, "kind: vm, path: tap, image: a.qcow2")
    (arm,) = parse_experiment(text).resolved_arms()
    assert arm.router("fw").live_hypervisor == "tcg"
    assert arm.router("fw").live_nic == "virtio"


def test_arms_may_differ_in_what_their_machines_start_from() -> None:
    arms = """
arms:
  - {name: own, memory: 256MB}
  - {name: vyos, image: vyos.qcow2, memory: 1GB, vcpus: 2}
  - {name: openwrt, image: {file: owrt.qcow2, cloud_init: auto}}
"""
    own, vyos, openwrt = parse_experiment(TEXT % (4, VM) + arms).resolved_arms()
    found = [arm.router("fw") for arm in (own, vyos, openwrt)]
    assert [one.image and one.image.file for one in found] == [None, "vyos.qcow2", "owrt.qcow2"]
    assert [(one.memory_mb, one.vcpus) for one in found] == [(256, None), (1024, 2), (None, None)]
    assert [arm.router("plain").image for arm in (own, vyos, openwrt)] == [None] * 3


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("{name: a, image: x.qcow2, path: isolane}", "arms[0].image: image of router 'fw' on path"),
        ("{name: a, image: x.qcow2, hypervisor: uml}", "arms[0].image: image of router 'fw' under"),
        ("{name: a, kind: native, memory: 1GB}", "which has no virtual machine"),
        ("{name: a, vcpus: 0}", "out of range"),
    ],
)
def test_what_an_arm_has_is_refused_there(arm: str, words: str) -> None:
    text = TEXT % (4, VM)
    text = text.replace("  - {name: plain, path: direct}\n", "").replace(", plain: 1kpps", "")
    with pytest.raises(SpecError) as refused:
        parse_experiment(f"{text}arms: [{arm}]\n")
    assert words in str(refused.value)


REFUSALS = (
    (4, VM + ", memory: 512", "not a size of memory"),
    (4, VM + ", memory: 16MB", "out of range"),
    (4, VM + ", memory: 65GB", "out of range"),
    (4, VM + ", vcpus: 0", "out of range"),
    (4, VM + ", vcpus: 65", "out of range"),
    (4, VM + ", image: 5", "not what belongs here"),
    (4, VM + ", image: ''", "not a file's name"),
    (4, VM + ", image: {ingress: 192.0.2.1/24}", "key 'file' is missing"),
    (4, VM + OWN.replace("198.51.100.1", "192.0.2.9"), "overlaps 192.0.2.0/24"),
    (4, VM + OWN.replace(", egress: 198.51.100.1/24", ""), "an address on one side only"),
    (4, VM + OWN.replace("192.0.2.1/24", "192.0.2.1/32"), "no address left"),
    (6, VM + OWN, "192.0.2.1/24 is not IPv6, but the traffic is IPv6"),
    (4, VM + OWN + ", count: 2", "one address for all of the group 'fw'"),
    (4, VM + OWN + ", address: 198.18.5.0/24", "beside image.ingress"),
    (4, VM.replace("tap", "isolane") + ", image: a.qcow2", "image of router 'fw' on path"),
    (4, UML + ", image: a.qcow2", "image of router 'fw' under hypervisor uml"),
    (4, UML + ", vcpus: 2", "vcpus of router 'fw' under hypervisor uml"),
    (4, "kind: vm, path: tap, vcpus: 2", "under hypervisor auto, which may be uml"),
    (4, "path: direct, memory: 1GB", "which is no virtual machine"),
    (4, "path: direct, image: a.qcow2", "which is no virtual machine"),
)  # fmt: skip


@pytest.mark.parametrize(("ip", "more", "words"), REFUSALS)
def test_what_does_not_fit_is_refused(ip: int, more: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_experiment(TEXT % (ip, more))
    assert words in str(refused.value)


def test_an_image_does_not_share_a_macvtaps_wire_with_a_guest_that_counts() -> None:
    text = TEXT % (4, VM.replace("tap", "macvtap") + OWN)
    text = text.replace("{name: plain, path: direct}", "{name: plain, kind: vm, path: macvtap}")
    with pytest.raises(SpecError, match="image of fw beside plain on path macvtap"):
        parse_experiment(text)


@pytest.mark.parametrize(("path", "told"), [("bridge", True), ("tap", False)])
def test_images_on_one_wire_have_subnets_of_their_own(path: str, told: bool) -> None:
    vm = VM.replace("tap", path) + OWN
    text = (TEXT % (4, vm)).replace("{name: plain, path: direct}", f"{{name: plain, {vm}}}")
    if not told:
        assert len(parse_experiment(text).routers) == 2
        return
    with pytest.raises(SpecError, match="images of 'fw' and 'plain' with a subnet in common"):
        parse_experiment(text)

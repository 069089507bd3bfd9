"""What counts as an image, and what cloud-init is told."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from isolane.errors import SpecError
from isolane.guests import ImageGuest, ImagePlan, Seed, check_image, user_data


def header(version: int = 3, backing: int = 0, features: int = 0) -> bytes:
    """A qcow2 header: magic, version, where the backing file's name is; incompatible features."""
    head = bytearray(104)
    head[0:4] = b"QFI\xfb"
    head[4:8] = version.to_bytes(4, "big")
    head[8:16] = backing.to_bytes(8, "big")
    head[72:80] = features.to_bytes(8, "big")
    return bytes(head)


@pytest.mark.parametrize("content", [header(), header(version=2), header(features=1)])
def test_an_image_that_stands_by_itself_is_taken(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.qcow2"
    file.write_bytes(content)
    check_image(str(file))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not in format qcow2"),
        (b"\x55\xaa" * 60, "not in format qcow2"),
        (header()[:50], "not in format qcow2"),
        (header(backing=104), "needs another file"),
        (header(version=2, backing=104), "needs another file"),
        (header(features=1 << 2), "needs another file"),
    ],
)
def test_others_are_refused(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.qcow2"
    file.write_bytes(content)
    with pytest.raises(SpecError, match=words) as refused:
        check_image(str(file))
    assert str(refused.value).startswith(f"image {file}: ")
    assert "qemu-img convert -O qcow2 FILE NEW" in str(refused.value)


@pytest.mark.parametrize("name", ["", "nowhere.qcow2"])
def test_what_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"image .*: (Is a directory|No such file or directory)"):
        check_image(str(tmp_path / name))


NICS = (("02:15:02:00:00:00", "192.0.2.1/24"), ("02:15:03:00:00:00", "2001:db8::1/64"))


def test_cloud_init_is_told_the_addresses_by_mac() -> None:
    files = Seed("fw", NICS).files()
    assert set(files) == {"meta-data", "user-data", "network-config"}
    network = json.loads(files["network-config"])
    assert network["version"] == 2
    found = [(n["match"]["macaddress"], *n["addresses"]) for n in network["ethernets"].values()]
    assert found == list(NICS)
    assert json.loads(files["meta-data"])["local-hostname"] == "fw"
    assert files["user-data"].startswith("#cloud-config\n")
    assert "net.ipv4.ip_forward=1" in files["user-data"]


def test_the_users_own_data_take_the_place_of_ours() -> None:
    assert Seed("fw", NICS, "#!/bin/sh\ntrue\n").files()["user-data"] == "#!/bin/sh\ntrue\n"


def test_user_data_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cloud_init .*nowhere: No such file or directory"):
        user_data(str(tmp_path / "nowhere"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SpecError, match=r"cloud_init .*binary: not text"):
        user_data(str(tmp_path / "binary"))


def test_its_threads_stay_on_its_core(tmp_path: Path) -> None:
    """No sign of being ready comes from an image: whoever runs is moved at once."""
    core = min(os.sched_getaffinity(0))
    guest = ImageGuest(ImagePlan(name="x", core=core), directory=tmp_path)
    with subprocess.Popen(["sleep", "600"]) as process:
        guest._process = process
        try:
            assert guest.is_ready()
            assert os.sched_getaffinity(process.pid) == {core}
        finally:
            process.kill()

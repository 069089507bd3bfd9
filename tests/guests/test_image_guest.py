"""A guest that starts from a disk image: what it has, what it may not change, how it ends."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from isolane.errors import SpecError, TestbedError
from isolane.guests import ImageGuest, ImagePlan, Seed

from tests.guests.disk_images import TinyRouter, Word, needs_tools
from tests.live import LIMIT_S

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.usefixtures("needs_root", "needs_qemu_guests"),
]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_tools()
    last = "echo written >/dev/vda; sync; echo 'its disk is written'; read -r word; poweroff -f"
    return TinyRouter(at_last=last).write(tmp_path_factory.mktemp("image"))


@contextmanager
def started(plan: ImagePlan, folder: Path) -> Iterator[ImageGuest]:
    with ImageGuest(plan, directory=folder / "guests") as guest:
        yield guest


def until_it_says(guest: ImageGuest, words: str) -> str:
    deadline = time.monotonic() + LIMIT_S
    while words not in (said := guest.last_lines):
        assert guest.is_running, said
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    return said


def until_it_ends(plan: ImagePlan, folder: Path) -> None:
    """Start a guest, and ask whether it runs until it does not: it may have ended at the start."""
    deadline = time.monotonic() + LIMIT_S
    with started(plan, folder) as guest:
        while guest.is_ready():
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_two_from_one_image_have_what_their_plans_say_and_it_stays_as_it_was(
    image: Path, tmp_path: Path
) -> None:
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    nics = (("02:00:00:00:00:01", "192.0.2.9/24"), ("02:00:00:00:00:02", "198.51.100.9/24"))
    plan = ImagePlan("im", image=str(image), memory_mb=160, vcpus=2, seed=Seed("im", nics))
    another = ImagePlan("other", image=str(image), memory_mb=160)
    with started(plan, tmp_path) as guest, started(another, tmp_path) as beside:
        said = until_it_says(guest, "its disk is written")
        assert "tiny router: 2 processors, 192.0.2.9/24, 198.51.100.9/24" in said
        assert "192.0.2.1/24" in until_it_says(beside, "its disk is written")
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    assert not (tmp_path / "guests" / "im").exists()


def test_one_that_ends_by_itself_is_told_with_its_console(tmp_path: Path) -> None:
    needs_tools()
    image = Word("going now").write(tmp_path)
    plan = ImagePlan("im", image=str(image), memory_mb=160)
    with pytest.raises(TestbedError, match=r"guest im has ended; its console: .*going now"):
        until_it_ends(plan, tmp_path)


def test_what_is_no_image_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    file = tmp_path / "x.qcow2"
    file.write_bytes(b"QFI")
    with (
        pytest.raises(SpecError, match="not in format qcow2"),
        started(ImagePlan("im", image=str(file)), tmp_path),
    ):
        pass
    assert not (tmp_path / "guests" / "im").exists()


def test_an_image_that_is_damaged_is_told_with_the_emulators_words(tmp_path: Path) -> None:
    file = tmp_path / "x.qcow2"
    file.write_bytes(b"QFI\xfb\0\0\0\3" + bytes(96))
    with pytest.raises(TestbedError, match=r"its console: .*qemu-system-x86_64: "):
        until_it_ends(ImagePlan("im", image=str(file)), tmp_path)

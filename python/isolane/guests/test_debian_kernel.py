"""A guest's kernel: unpacked, checked, and asked for where it is not there."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path

import pytest

from isolane.errors import NotSupported
from isolane.guests.debian_kernel import GuestKernel, uncompressed

ELF = b"\x7fELF and so on"


@pytest.fixture
def made(tmp_path: Path) -> GuestKernel:
    """Write what a kernel's folder holds."""
    contents = {"kernel": ELF, "initrd": b"070701"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    facts = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    (tmp_path / "guest-kernel.json").write_text(json.dumps({"version": "6.1.0-9-amd64", **facts}))
    return GuestKernel(tmp_path)


def test_a_kernel_as_it_was_made(made: GuestKernel) -> None:
    assert made.lacking() == ""
    assert made.version == "6.1.0-9-amd64"


@pytest.mark.parametrize("name", ["kernel", "initrd"])
@pytest.mark.parametrize("change", ["gone", "cut", "changed"])
def test_one_that_is_not_what_was_made(made: GuestKernel, name: str, change: str) -> None:
    file = made.folder / name
    if change == "gone":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[:-1] if change == "cut" else b"x" + content[1:])
    assert made.lacking() == f"{file} is not what isolane guest-kernel made (do it again: {AGAIN})"


AGAIN = "isolane guest-kernel"


@pytest.mark.parametrize("facts", [None, "", "[]", "{}", '{"version": "6.1"}'])
def test_none_is_there(tmp_path: Path, facts: str | None) -> None:
    if facts is not None:
        (tmp_path / "guest-kernel.json").write_text(facts)
    none = GuestKernel(tmp_path)
    assert none.lacking() == (
        "there is no kernel for QEMU guests (isolane guest-kernel fetches Debian's)"
    )
    assert none.version == ""


@pytest.mark.parametrize(
    ("image", "kernel"),
    [
        (b"MZ" + lzma.compress(ELF) + b"the rest", ELF),
        (b"MZ" + lzma.compress(b"no kernel"), None),
        (b"MZ" + lzma.compress(ELF)[:20] + b"x" * 40, None),
        (b"MZ another format", None),
    ],
)
def test_the_kernel_within_an_image(image: bytes, kernel: bytes | None) -> None:
    assert uncompressed(image) == (image if kernel is None else kernel)


def test_a_host_that_is_not_debian_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    steps: list[str] = []
    with pytest.raises(
        NotSupported, match="there is no apt-get, apt-cache, dpkg-deb, cpio, ldd, ip"
    ):
        GuestKernel(tmp_path / "new").make(steps.append)
    assert (steps, list(tmp_path.iterdir())) == ([], [])

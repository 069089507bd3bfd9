"""QEMU guests: what they are kept from, and what their kernel is."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from isolane.errors import NotSupported
from isolane.guests import GuestKernel
from isolane.guests.qemu import EMULATOR

from tests.guests.booting import processes_of, qemu

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.usefixtures("needs_qemu_guests")]


def program_of(process: int) -> str | None:
    with suppress(OSError):  # processes come and go
        return Path(f"/proc/{process}/exe").readlink().name
    return None


def test_it_has_no_rights_on_this_host_and_no_network(tmp_path: Path) -> None:
    with qemu(tmp_path):
        (emulator,) = (one for one in processes_of(tmp_path) if program_of(one) == EMULATOR)
        status = Path(f"/proc/{emulator}/status").read_text()
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
        assert re.search(r"^Seccomp:\t2$", status, re.MULTILINE)
        devices = Path(f"/proc/{emulator}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in devices] == ["lo"]
        for folder in ("/", "/usr", "/run", "/dev", "/dev/shm", "/tmp", str(tmp_path)):
            file = Path(folder, "isolane-was-here")
            inside = ["nsenter", f"--mount=/proc/{emulator}/ns/mnt", "touch", str(file)]
            told = subprocess.run(inside, check=False, capture_output=True, text=True).stderr
            assert "Read-only file system" in told, folder
            assert not file.exists()


def test_its_programs_are_its_own(tmp_path: Path) -> None:
    script = "ls / | tr '\\n' ' '; echo; echo kernel $(uname -r)"
    with qemu(tmp_path, script=script) as one:
        lines = one.last_lines
    assert "bin dev etc init lib" in lines
    assert f"kernel {GuestKernel.installed().version}" in lines


def test_a_host_without_qemu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotSupported, match="apt-get install qemu-system-x86"):
        qemu(tmp_path).__enter__()


def test_a_host_without_a_kernel_for_them_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GuestKernel, "installed", lambda: GuestKernel(tmp_path / "nowhere"))
    with pytest.raises(NotSupported, match="isolane guest-kernel fetches"):
        qemu(tmp_path).__enter__()

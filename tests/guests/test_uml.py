"""User-Mode Linux guests: whose files they see, what registers they have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from isolane.errors import NotSupported
from isolane.guests.guest_answers import READY

from tests.guests.booting import uml

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.usefixtures("needs_guest_kernel")]


def test_its_programs_keep_their_registers(tmp_path: Path) -> None:
    """Three at a time, interrupted all the time, calculate what the same program does here."""
    work = 'BEGIN { for (i = 1; i < 300000; i++) s += sqrt(i); printf "%.6f\\n", s }'
    expected = subprocess.run(["awk", work], check=True, capture_output=True, text=True).stdout
    script = f"""\
for n in 1 2 3; do awk '{work}' >/tmp/$n & done
wait
cat /tmp/1 /tmp/2 /tmp/3
perl -MPOSIX -e 'print POSIX::floor(41.9), "\\n"'  # copies much, and reads what it has copied
"""
    with uml(tmp_path, script=script) as one:
        lines = one.last_lines.split(" | ")
    assert lines == [expected.strip()] * 3 + ["41", READY], lines


def test_its_view_of_this_host_is_read_only_and_without_peoples_files(tmp_path: Path) -> None:
    script = """\
echo "root: $(ls -A /root /home 2>/dev/null | grep -v : | wc -w)"
mount -o remount,rw /
for folder in /usr /run /tmp/.. /dev/shm/..; do
    touch $folder/isolane-was-here 2>/dev/null && echo "written"
done
ls /usr/bin >/dev/null && echo "programs are there"
"""
    with uml(tmp_path, script=script) as one:
        lines = one.last_lines
    assert "root: 0" in lines
    assert "programs are there" in lines
    assert "written" not in lines
    for folder in ("/usr", "/run", "/", "/dev"):
        assert not Path(folder, "isolane-was-here").exists()


def test_a_host_without_a_guest_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotSupported, match="apt-get install user-mode-linux"):
        uml(tmp_path).__enter__()

"""What `--output` does to what stands at a path. Device nodes are made here, not the host's own."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from isolane.errors import OutputError
from isolane.files import check_output, replace, write_output

ROOT = os.geteuid() == 0
NOBODY = 65534


def look(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_mode, found.st_rdev, found.st_ino


def device(folder: Path, name: str, minor: int) -> Path:
    if not ROOT:
        pytest.skip("needs root: makes a device node")
    path = folder / name
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        path.open("wb").close()
    except OSError as error:
        pytest.skip(f"no device nodes here: {error}")
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_output(tmp_path / "new", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "new").read_bytes() == b"1"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert names(tmp_path) == ["new"]


def test_a_regular_file_is_replaced_in_one_step_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 255)  # as long as names can be
    target.write_bytes(b"old and longer")
    target.chmod(0o4610)
    if ROOT:
        os.chown(target, NOBODY, NOBODY)
        target.chmod(0o4610)
    with target.open("rb") as reader:
        write_output(target, b"new")
        assert reader.read() == b"old and longer", "who reads it has the old text, whole"
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o4610
    if ROOT:
        assert (target.stat().st_uid, target.stat().st_gid) == (NOBODY, NOBODY)
    assert names(tmp_path) == [target.name]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "file"
    target.write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to("real/file")
    (tmp_path / "second").symlink_to("link")
    write_output(tmp_path / "second", b"new")
    assert link.is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert target.read_bytes() == b"new"
    assert names(tmp_path / "real") == ["file"]


@pytest.mark.parametrize("through_link", [False, True])
def test_a_device_stays_a_device(tmp_path: Path, through_link: bool) -> None:
    null = device(tmp_path, "null", 3)
    target = null
    if through_link:
        target = tmp_path / "link"
        target.symlink_to(null)
    before = look(null)
    check_output(target)
    write_output(target, b"nobody reads this")
    assert look(null) == before


def test_a_full_device_says_so_and_stays(tmp_path: Path) -> None:
    full = device(tmp_path, "full", 7)
    before = look(full)
    with pytest.raises(OutputError, match="full: cannot be written: no space left on device"):
        write_output(full, b"x")
    assert look(full) == before


def test_a_pipe_gets_all_of_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = os.urandom(300_000)  # more than a pipe holds
    found = bytearray()
    reader = threading.Thread(target=lambda: found.extend(pipe.read_bytes()))
    reader.start()
    write_output(pipe, content)
    reader.join(300)
    assert found == content
    assert stat.S_ISFIFO(pipe.stat().st_mode)


REFUSED = {
    "a folder": "it is a directory; name a file",
    "a link to a folder": "it is a directory; name a file",
    "a dangling link": "it is a link to absent, which does not exist; remove the link",
    "no folder": "there is no directory",
    "a file for a folder": "not a directory",
    "a loop": "too many levels of symbolic links",
    "a socket": "it is a socket",
    "a long name": "file name too long",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused_before_and_after_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "a link to a folder").symlink_to("a folder")
    (tmp_path / "a dangling link").symlink_to("absent")
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "a loop").symlink_to("a loop")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # a socket's path may have 107 characters
        listening.bind("a socket")
        targets = {
            "no folder": tmp_path / "absent" / "file",
            "a file for a folder": tmp_path / "file" / "report",
            "a long name": tmp_path / ("x" * 256),
        }
        target = targets.get(name, tmp_path / name)
        before = names(tmp_path)
        for act in (check_output, lambda path: write_output(path, b"x")):
            with pytest.raises(OutputError) as caught:
                act(target)
            assert str(caught.value).startswith(f"{target}: cannot be written: {REFUSED[name]}")
    assert names(tmp_path) == before
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_a_block_device_is_refused(tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("needs root: makes a device node")
    disk = tmp_path / "disk"
    try:
        os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(0, 0))  # belongs to no driver
    except OSError as error:
        pytest.skip(f"no device nodes here: {error}")
    with pytest.raises(OutputError, match="it is a block device"):
        write_output(disk, b"x")


@pytest.mark.root
def test_where_writing_fails_the_old_file_stays_and_no_draft(tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("needs root: mounts a file system of its own")
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "files", str(small)]
    subprocess.run(mount, check=True)
    try:
        (small / "report").write_bytes(b"old")
        with pytest.raises(OutputError, match="no space left on device"):
            write_output(small / "report", b"x" * 100_000)
        assert (small / "report").read_bytes() == b"old"
        assert names(small) == ["report"]
        remount = ["mount", "-o", "remount,ro", str(small)]
        subprocess.run(remount, check=True)
        for act in (check_output, lambda path: write_output(path, b"x")):
            with pytest.raises(OutputError, match=r"cannot be written: .*(written to|read-only)"):
                act(small / "report")
    finally:
        subprocess.run(["umount", str(small)], check=True)


AS_USER = """
import os, sys
from pathlib import Path
os.setgroups([]); os.setgid(65534); os.setuid(65534)
from isolane.errors import OutputError
from isolane.files import check_output, write_output
for act in (check_output, lambda path: write_output(path, b"new")):
    try:
        act(Path(sys.argv[1]))
    except OutputError as error:
        print(error)
"""


@pytest.mark.parametrize(("mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o755)])
def test_what_a_user_may_not_write_stays(mode: int, folder_mode: int, tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("needs root: becomes somebody else")
    target = tmp_path / "file"
    target.write_bytes(b"old")
    target.chmod(mode)
    tmp_path.chmod(folder_mode)
    done = subprocess.run(
        # Enough to come by the folders above, which are root's; writing is what is tried.
        ["setpriv", "--inh-caps=-all,+dac_read_search,+setuid,+setgid",
         "--ambient-caps=-all,+dac_read_search,+setuid,+setgid", "--securebits=+no_setuid_fixup",
         "--bounding-set=-all,+dac_read_search,+setuid,+setgid",
         sys.executable, "-c", AS_USER, str(target)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stdout.count("cannot be written") == 2, done.stderr
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_to_and_not_replaced(target: str, tmp_path: Path) -> None:
    """Also where it is a regular file that the shell appends to."""
    kept = tmp_path / "kept"
    kept.write_bytes(b"before\n")
    inode = kept.stat().st_ino
    code = (
        "from pathlib import Path; from isolane.files import check_output, write_output\n"
        f"check_output(Path({target!r})); write_output(Path({target!r}), b'after\\n')"
    )
    with kept.open("ab") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, timeout=300)
    assert kept.read_bytes() == b"before\nafter\n"
    assert kept.stat().st_ino == inode


def test_a_reader_that_leaves_is_named() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(OutputError, match=f"/dev/fd/{writing}: .* its reader has gone"):
        write_output(Path(f"/dev/fd/{writing}"), b"x")
    os.close(writing)


def test_a_mode_is_given_to_a_new_file(tmp_path: Path) -> None:
    replace(tmp_path / "metrics.prom", b"a 1\n", mode=0o644)
    assert stat.S_IMODE((tmp_path / "metrics.prom").stat().st_mode) == 0o644

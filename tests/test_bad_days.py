"""Bad days of `isolane run`: wrong files, full disks, wires that vanish, another run, no root."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from isolane.results.folder import RunFolder
from isolane.results.results import Trial

from tests.conftest import Tiny
from tests.live import (
    Process,
    assert_same_host,
    await_free,
    background,
    has,
    in_process,
    isolane,
    quiet_host,
    running,
)
from tests.wires import ip

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TURNS = 5

GOOD = """\
isolane: 1
name: bad-day
dut:
  cores: 1
traffic:
  line_rate: 1Gbps
routers:
  - name: one
    path: direct
  - name: two
    path: direct
load:
  one: 5kpps
  two: 5kpps
"""
WRONG = {
    # what is changed, into what: the line, and what the message has to name
    "an unknown key": ("  cores: 1", "  coers: 1", 4, ("dut.coers", "'coers'", "cores, receive")),
    "a wrong unit": ("  one: 5kpps", "  one: 5mpps", 13, ("load.one", "'5mpps'", "Mpps")),
    "a rate above the line": (
        "  two: 5kpps", "  two: 1.5Mpps", 14, ("load.two", "1.5Mpps", "at most 1.488095Mpps")
    ),
    "an unknown path": (
        "  - name: one\n    path: direct", "  - name: one\n    path: brigde", 9,
        ("routers[0].path", "'brigde'", "direct, bridge, macvlan"),
    ),
    "an address clash": (
        "  - name: two", "  - name: two\n    address: 198.18.0.0/24", 11,
        ("routers[1].address", "198.18.0.0/24", "one"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_experiment_is_refused_and_the_host_untouched(name: str, tmp_path: Path) -> None:
    old, new, line, words = WRONG[name]
    assert GOOD.count(old) == 1
    file = tmp_path / "bad.yaml"
    file.write_text(GOOD.replace(old, new))
    before = quiet_host()
    done = in_process("run", file, "--output", tmp_path / "run")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"isolane: error: {file}:{line}: "), done.stderr
    assert all(word in done.stderr for word in (*words, "accepted: ")), done.stderr
    assert not (tmp_path / "run").exists()
    assert_same_host(before)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for arguments in (("missing.yaml",), ("--resume", "missing.yaml")):
        done = in_process("run", *(a.replace("missing", f"{tmp_path}/missing") for a in arguments))
        assert done.returncode == 2
        assert f"{tmp_path}/missing.yaml" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_folder_that_is_no_run_cannot_be_resumed(tmp_path: Path) -> None:
    done = in_process("run", "--resume", tmp_path)
    assert done.returncode == 2
    assert "this is not the folder of a run" in done.stderr


def test_a_simulated_run_is_not_gone_on_with_live(tiny: Tiny, tmp_path: Path) -> None:
    target = tmp_path / "run"
    assert isolane("run", tiny(), "--on", "sim", "--output", target).returncode == 0
    before = (target / "trials.jsonl").read_bytes()
    done = in_process("run", "--resume", target, "--on", "live")
    assert done.returncode == 2
    assert "--on: sim in the folder's trials, live now" in done.stderr
    assert (target / "trials.jsonl").read_bytes() == before


def trials_of(folder: Path) -> list[Trial]:
    return RunFolder.open(folder).trials()


@contextlib.contextmanager
def disk(directory: Path, size: str) -> Iterator[Path]:
    """A file system of its own that holds next to nothing."""
    directory.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={size}", "e2e", str(directory))
    subprocess.run(mount, check=True)
    try:
        yield directory
    finally:
        subprocess.run(("umount", str(directory)), check=True)


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_built(
    tiny: Tiny, tmp_path: Path
) -> None:
    file = tiny()
    before = quiet_host()
    with disk(tmp_path / "disk", "1m") as directory:
        subprocess.run(("mount", "-o", "remount,ro", str(directory)), check=True)
        for target, reason in (
            (directory / "run", "read-only file system"),
            (file / "run", "not a directory"),
        ):
            await_free()
            done = in_process("run", file, "--output", target)
            assert done.returncode == 1
            assert str(target) in done.stderr
            assert reason in done.stderr
            assert done.stderr.count("\n") == 1
    assert_same_host(before)


@pytest.mark.parametrize("size", ["4k", "8k", "12k", "16k", "24k", "40k", "64k"])
def test_a_disk_that_is_full_sooner_or_later_is_told_in_words(
    size: str, tiny: Tiny, tmp_path: Path
) -> None:
    """Whichever file it is that does not fit: facts, log, journal, summary, table, report."""
    with disk(tmp_path / "disk", size) as directory:
        target = directory / "run"
        done = isolane("run", tiny(repeats=3), "--on", "sim", "--output", target)
        assert done.returncode == 1
        *_, last = done.stderr.splitlines()
        assert last.startswith(f"isolane: error: {target}/"), done.stderr
        assert "no space left on device" in last
        assert "(details: " not in done.stderr
        assert "Logging error" not in done.stderr
        assert all(line.startswith("isolane: ") for line in done.stderr.splitlines())
        if not target.exists():
            return  # nothing that could be gone on with, and nothing in the way
        subprocess.run(("mount", "-o", "remount,size=8m", str(directory)), check=True)
        done = isolane("run", "--resume", target)
        assert done.returncode == 0, done.stderr
        assert len(trials_of(target)) == 6


def test_a_full_disk_keeps_what_was_measured_and_the_run_can_go_on(
    tiny: Tiny, tmp_path: Path
) -> None:
    file = tiny(repeats=4)
    before = quiet_host()
    with disk(tmp_path / "disk", "36k") as directory:
        done = isolane("run", file, "--output", directory / "run")
        assert done.returncode == 1
        assert "no space left on device" in done.stderr
        assert f"go on with: isolane run --resume {directory}/run" in done.stderr
        assert len(done.stderr.splitlines()) < 20, "no tracebacks, of the log's neither"
        assert "Traceback" not in done.stderr
        kept = trials_of(directory / "run")
        assert 1 <= len(kept) < 8
        subprocess.run(("mount", "-o", "remount,size=8m", str(directory)), check=True)
        done = isolane("run", "--resume", directory / "run")
        assert done.returncode == 0, done.stderr
        whole = trials_of(directory / "run")
        assert whole[: len(kept)] == kept
        # An invalid trial is repeated in its place.
        assert len({(t.arm, t.point, t.repeat) for t in whole}) == 8 <= len(whole)
    assert_same_host(before)


@pytest.mark.parametrize(
    ("netns", "ifname"), [("isolane-gen", "isl-g0"), ("isolane-one", "isl-out0")]
)
def test_a_wire_that_vanishes_fails_its_trial_alone(
    netns: str, ifname: str, tiny: Tiny, tmp_path: Path
) -> None:
    # Six points of one bench, so that the wire goes while frames are on it and not while building.
    load = "{one: 5kpps, two: [1kpps, 2kpps, 3kpps, 4kpps, 5kpps, 6kpps]}"
    before = quiet_host()
    file = tiny(load=load, duration="400ms")
    for turn in range(TURNS):
        with running(tmp_path / str(turn), file) as (process, target):
            journal = target / "trials.jsonl"
            process.until(partial(has, journal, b"\n", 1))
            time.sleep(0.2)
            with contextlib.suppress(subprocess.CalledProcessError):  # it is over already
                ip("-n", netns, "link", "del", ifname)
            if status := process.end():
                assert status == 1, process.stderr
                break
    else:
        pytest.fail(f"each of {TURNS} runs was over before the wire went")
    assert "Traceback" not in process.stderr
    trials = trials_of(target)
    failed = [trial for trial in trials if trial.status == "failed"]
    assert len(failed) == 1
    assert failed[0].reason
    assert "isl-" in failed[0].reason
    assert "vanished" in failed[0].reason
    assert trials[0].status != "failed"
    assert len(trials) == 6, "the others were measured"
    assert all(trial.conserved for trial in trials if trial.status != "failed")
    summary = RunFolder.open(target).summary()
    assert summary is not None
    assert summary.trials_failed == 1
    assert_same_host(before)

    if ifname != "isl-g0":  # once is enough
        return
    done = isolane("run", "--resume", target)
    assert done.returncode == 0, "what had failed is done again"
    again = trials_of(target)
    assert len([trial for trial in again if trial.status != "failed"]) == 6


def test_a_second_run_names_the_first(tiny: Tiny, tmp_path: Path) -> None:
    file = tiny(repeats=100)
    with running(tmp_path, file, fresh=True) as (first, _):
        for number, arguments in enumerate((("run", str(file)), ("clean",))):
            with background(tmp_path / f"second-{number}", *arguments) as second:
                assert second.end() == 1
                assert f"another run is under way (pid {first.begun.pid}, started" in second.stderr
                assert "isolane run" in second.stderr, "the first one's command"
        assert first.begun.poll() is None, "the first one is not disturbed"


NOBODY = (
    "setpriv", "--reuid", "65534", "--clear-groups",
    # Enough to read an interpreter in a home directory, and nothing else.
    "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search",
    "--bounding-set=-all,+dac_read_search",
)  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "tiny.yaml"),
        ("generate", "lo", "--to", "127.0.0.1", "--rate", "1pps"),
        ("receive", "lo"),
    ],
)
def test_without_root_it_says_so(arguments: tuple[str, ...], tiny: Tiny) -> None:
    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:  # where everybody may read
        Path(file.name).chmod(0o644)
        file.write(tiny().read_bytes())
        file.flush()
        words = [file.name if word == "tiny.yaml" else word for word in arguments]
        done = isolane(*words, prefix=NOBODY)
    assert done.returncode == 3, done.stderr
    assert "needs root" in done.stderr
    assert "sudo" in done.stderr
    assert done.stderr.count("\n") == 1


WEAK = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
INSIDE = ("unshare", "--user", "--map-root-user")


@pytest.mark.parametrize("who", [WEAK, INSIDE], ids=["no capabilities", "user namespace"])
@pytest.mark.parametrize("command", ["run", "generate", "receive", "clean", "status", "verify"])
def test_a_root_in_name_only_is_refused_in_one_line(
    who: tuple[str, ...], command: str, tiny: Tiny, tmp_path: Path
) -> None:
    policy = tmp_path / "p.yaml"
    policy.write_text("isolane: 1\nname: p\nnics: {n: {rate: 1Gbps}}\nrouters: {a: {netns: a}}\n")
    words: dict[str, tuple[object, ...]] = {
        "run": (tiny(),), "generate": ("lo", "--to", "127.0.0.1", "--rate", "1pps"),
        "receive": ("lo",), "verify": (policy,),
    }  # fmt: skip
    before = quiet_host()
    done = isolane(command, *words.get(command, ()), prefix=who)
    assert done.returncode == 3, done.stderr
    assert "need" in done.stderr
    assert ("CAP_NET_ADMIN" if who is WEAK else "user namespace") in done.stderr
    assert done.stderr.count("\n") == 1, "and no raw lines of libbpf"
    assert "nothing to remove" not in done.stderr
    assert_same_host(before)


def test_few_descriptors_are_no_lack_of_the_host(tiny: Tiny, tmp_path: Path) -> None:
    run = ("run", tiny(), "--output", tmp_path / "run")
    done = isolane(*run, prefix=("prlimit", "--nofile=20:20"))
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith("isolane: error: too many open files: ")
    assert "libbpf" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_process_that_ended_is_told_from_one_at_work(tmp_path: Path) -> None:
    """The tests' own waiting must be able to fail."""
    with background(tmp_path, "version") as process, pytest.raises(AssertionError, match="ended"):
        _never(process)


def _never(process: Process) -> None:
    process.until(lambda: False)

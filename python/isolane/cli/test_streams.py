"""Standard streams that are closed, full, or of a narrow encoding, for commands as processes."""

from __future__ import annotations

import json
import os
import re
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from isolane.report import test_data as data
from tests.commands import Job, command_server
from tests.live import environment, in_process

ISOLANE = (sys.executable, "-m", "isolane")
CLOSED = "isolane: error: stdout cannot be written to: it is closed; redirect it "
FULL = "isolane: error: stdout cannot be written to: no space left on device\n"
SHORT = """\
isolane: 1
name: s
title: Größe 𝄞
routers: [{name: one, role: victim}, {name: two, role: aggressor}]
load: {one: 5kpps, two: 5kpps}
arms: [{name: plain, path: direct}]
trial: {duration: 50ms, warmup: 20ms, repeats: 1, seed: 1, null_dut: false}
"""
WRITES_TO_STDOUT = [
    ("--help",), ("--version",), ("version", "--all"), ("schema",),
    ("report", "RUN", "-f", "csv", "-o", "-"), ("report", "RUN", "-f", "csv", "-o", "/dev/stdout"),
]  # fmt: skip
"""Ways to write there: by the parser, by ``echo``, as a file. For tables see the run below."""
QUICK = [("--help",), ("--version",), ("nope",)]
"""What is begun by an interpreter of its own; the others by a fork, which costs no imports."""
LAST_WORDS: dict[tuple[str, ...], str] = {
    ("schema", "-o", "none/x"): "there is no directory none",
    ("nope",): "No such command 'nope'",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data.run_folder(tmp_path_factory.mktemp("streams") / "run", repeats=1).path


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A full device of the test's own: what fails here does not break the host's."""
    path = tmp_path / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        path.open("wb").close()
    except OSError as error:
        pytest.skip(f"no device nodes here: {error}")
    return path


@dataclass(frozen=True)
class Starter:
    """Starts commands with the redirections that a shell would make."""

    folder: Path
    """For what they say."""
    fresh: bool = False
    """Whether each has an interpreter that was started for it, or a fork that becomes the same."""

    def __call__(
        self, arguments: tuple[str, ...], shell: str = "", **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        env = {**environment(), **more}
        if self.fresh:
            line = ("sh", "-c", f'exec "$@" {shell}', "sh", *ISOLANE, *arguments)
            done = subprocess.run(line, capture_output=True, timeout=300, check=False, env=env)
        else:
            done = self._forked(arguments, shell, env)
        assert b"Traceback" not in done.stderr + done.stdout, done.stderr.decode()
        assert b"(details: " not in done.stderr, done.stderr.decode()
        return done

    def _forked(
        self, arguments: tuple[str, ...], shell: str, env: dict[str, str]
    ) -> subprocess.CompletedProcess[bytes]:
        said = {name: self.folder / f"said-on-{name}" for name in ("stdout", "stderr")}
        for file in said.values():
            file.write_bytes(b"")
        streams = {"stdin": "/dev/null", **{name: str(file) for name, file in said.items()}}
        for descriptor, target in re.findall(r"(\d?)[<>] ?(\S+)", shell):
            name = {"0": "stdin", "2": "stderr"}.get(descriptor, "stdout")
            streams[name] = "closed" if target == "&-" else target
        job = Job(
            list(arguments), env,
            stdin=streams["stdin"], stdout=streams["stdout"], stderr=streams["stderr"],
        )  # fmt: skip
        ended = command_server(environment()).do(job)
        assert ended.status is not None
        out, err = (file.read_bytes() for file in said.values())
        return subprocess.CompletedProcess(arguments, ended.status, out, err)


@pytest.mark.parametrize("arguments", WRITES_TO_STDOUT, ids=" ".join)
def test_data_that_stdout_does_not_take_is_an_error_of_one_line(
    arguments: tuple[str, ...], run: Path, full: Path, tmp_path: Path
) -> None:
    start = Starter(tmp_path, fresh=arguments in QUICK)
    words = tuple(str(run) if word == "RUN" else word for word in arguments)
    closed, refused = start(words, ">&-"), start(words, f"> {full}")
    assert (closed.returncode, refused.returncode) == (1, 1)
    if "/dev/stdout" in words:
        assert b"/dev/stdout: cannot be written: bad file descriptor\n" in closed.stderr
        assert b"/dev/stdout: cannot be written: no space left on device\n" in refused.stderr
    else:
        assert closed.stderr.decode() == CLOSED + "to /dev/null if nobody needs the data\n"
        assert refused.stderr.decode() == FULL
    assert stat.S_ISCHR(full.stat().st_mode)
    everything = start(words) if "-o" in words else in_process(*words)
    assert everything.returncode == 0
    assert everything.stdout
    assert not list(tmp_path.glob(".isolane*"))


@pytest.mark.parametrize("arguments", LAST_WORDS, ids=" ".join)
def test_words_that_stderr_does_not_take_change_nothing(
    arguments: tuple[str, ...], full: Path, tmp_path: Path
) -> None:
    start = Starter(tmp_path, fresh=arguments in QUICK)
    plain = start(arguments)
    assert LAST_WORDS[arguments] in plain.stderr.decode()
    for shell in ("2>&-", f"2> {full}", "2>&- >&-", "0<&- >&- 2>&-"):
        done = start(arguments, shell)
        assert done.returncode == plain.returncode, shell
        assert done.stdout == b"", "a word for stderr does not go among the data"


def test_files_that_are_opened_do_not_become_standard_streams(tmp_path: Path) -> None:
    """A closed stdout would be the next file that is opened: our output would go into it."""
    start = Starter(tmp_path, fresh=True)
    done = start(("schema", "-o", str(tmp_path / "x.json")), "0<&- >&- 2>&-")
    assert done.returncode == 0
    assert json.loads((tmp_path / "x.json").read_text())


def simulate(tmp_path: Path, *more: str) -> tuple[tuple[str, ...], Path]:
    (tmp_path / "short.yaml").write_text(SHORT)
    target = tmp_path / "run"
    words = (
        "run",
        str(tmp_path / "short.yaml"),
        "--on",
        "sim",
        "-o",
        str(target),
        *more,
    )
    return words, target


@pytest.mark.native
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_run_whose_table_nobody_takes_is_there_all_the_same(
    form: str, full: Path, tmp_path: Path
) -> None:
    words, target = simulate(tmp_path, *(["--json"] if form == "json" else []))
    done = Starter(tmp_path)(words, f"> {full}")
    assert done.returncode == 1
    assert done.stderr.decode().endswith(f"report: {target}/report.html\n{FULL}")
    assert (target / "report.html").stat().st_size > 10_000
    assert json.loads((target / "summary.json").read_text())["complete"] is True


@pytest.mark.native
def test_an_encoding_that_lacks_letters_ends_nothing(tmp_path: Path) -> None:
    words, target = simulate(tmp_path)
    start = Starter(tmp_path)
    done = start((*words, "--details"), PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr.decode()
    assert rb"\u00b5s" in done.stdout, "microseconds"
    done.stdout.decode("ascii")
    again = start(("run", "--resume", str(target), "--json"), PYTHONIOENCODING="ascii")
    assert json.loads(again.stdout)["title"] == "Größe 𝄞", "JSON stays what it is"
    page = start(("report", str(target), "-f", "md", "-o", "-"), PYTHONIOENCODING="latin-1")
    assert "Größe 𝄞" in page.stdout.decode(), "a file is UTF-8 whatever the terminal is"


def test_a_reader_that_leaves_early_is_no_message() -> None:
    with subprocess.Popen(
        [*ISOLANE, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(300) == 1


@pytest.mark.parametrize("arguments", ["report RUN -f csv -o -", "doctor"])
def test_nor_is_it_of_other_commands(arguments: str, run: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    said, go, ended = (tmp_path / name for name in ("said", "go", "ended"))
    said.touch()
    job = Job(
        arguments.replace("RUN", str(run)).split(), environment(),
        stdout=f"/proc/{os.getpid()}/fd/{writing}", stderr=str(said),
        begin_file=str(go), ended_file=str(ended),
    )  # fmt: skip
    process = command_server(environment()).begin(job)
    theirs = Path(f"/proc/{process.pid}/fd/1")
    while not os.path.samestat(theirs.stat(), os.fstat(writing)):
        assert process.poll() is None
        time.sleep(0.001)
    os.close(reading)
    os.close(writing)
    go.touch()
    assert process.wait(300) == 1
    assert said.read_text() == ""


def few_files(number: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


@pytest.mark.native
@pytest.mark.root
@pytest.mark.parametrize("number", [6, 20, 60])
@pytest.mark.parametrize("command", ["receive", "doctor", "status", "schema"])
def test_few_descriptors_are_told_as_such(command: str, number: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: loads BPF programs")
    words = (command, "lo") if command == "receive" else (command,)
    done = subprocess.run(
        [*ISOLANE, *words], preexec_fn=few_files(number),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if command in ("schema", "status") or (command, number) == ("doctor", 60):
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1, "neither a lack of the host's nor a mistake of the user's"
    assert done.stderr.startswith("isolane: error: too many open files: ")
    assert "ulimit -n 1024" in done.stderr
    assert done.stderr.count("\n") == 1, "no raw lines of libraries"

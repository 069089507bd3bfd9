"""Building the programs that Isolane is compared with, and running them on one core."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from isolane.errors import MeasurementError, NotSupported

ROOT = Path(__file__).parents[1]
PEERS = Path(__file__).parent / "peers"
BUILT = ROOT / ".build" / "benches"
LIMIT_S = 600.0
"""No program of a bench takes as long; one that does is ended."""


def compiled(compiler: str, source: str, *arguments: str) -> Path:
    """Build a program from ``benches/peers``, optimised for this processor; return it.

    Raises
    ------
    NotSupported
        If the compiler or what the program needs is not installed; with the compiler's words.
    """
    BUILT.mkdir(parents=True, exist_ok=True)
    program = BUILT / Path(source).stem
    argv = [compiler, "-O3", "-march=native", "-DNDEBUG", "-o", str(program), str(PEERS / source)]
    if shutil.which(compiler) is None:
        raise NotSupported(f"{compiler} is not installed")
    done = subprocess.run([*argv, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotSupported(f"{source} could not be built: {_words(done.stderr)}")
    return program


def flags(package: str) -> list[str]:
    """Ask pkg-config for a library's flags.

    Raises
    ------
    NotSupported
        If pkg-config does not know it.
    """
    try:
        argv = ["pkg-config", "--cflags", "--libs", package]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise NotSupported(f"the library {package} is not installed") from None
    return done.stdout.split()


def output(argv: Sequence[str], core: int) -> str:
    """Run a program on one core; return what it printed.

    Raises
    ------
    NotSupported
        If it is not installed.
    MeasurementError
        If it fails; with its last words.
    """
    if shutil.which(argv[0]) is None:
        raise NotSupported(f"{argv[0]} is not installed")
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    if done.returncode:
        raise MeasurementError(f"{Path(argv[0]).name} failed: {_words(done.stderr)}")
    return done.stdout


def cargo_bench(crate: str, bench: str) -> Path:
    """Build a criterion bench; return its executable.

    Raises
    ------
    MeasurementError
        If it cannot be built.
    """
    return _cargo(["bench", "-p", crate, "--bench", bench, "--no-run"], crate, bench)


def cargo_example(crate: str, example: str) -> Path:
    """Build an example program of a crate, optimised; return its executable.

    Raises
    ------
    MeasurementError
        If it cannot be built.
    """
    return _cargo(["build", "--release", "-p", crate, "--example", example], crate, example)


def _cargo(words: Sequence[str], crate: str, target: str) -> Path:
    """Have cargo build one target; return its executable."""
    done = subprocess.run(
        ["cargo", *words, "--locked", "--message-format=json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == target:
            return Path(message["executable"])
    raise MeasurementError(f"{target} of {crate} could not be built: {_words(done.stderr)}")


def _words(stderr: str) -> str:
    """Cut an error output down to its last words."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1].strip()[:300]

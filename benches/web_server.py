"""nginx at the far end of a wire, for benches of web requests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isolane.children import die_with_parent
from isolane.errors import MeasurementError, NotSupported
from isolane.testbed.bed_devices import GEN, RCV

from benches.process import terminate
from benches.wire import (
    DESTINATION,
    GEN_IFNAME,
    GEN_MAC,
    RCV_IFNAME,
    RCV_MAC,
    SOURCE,
    make_wire,
)

URL = f"http://{DESTINATION}"
READY_S = 30.0
CONFIG = """\
daemon off; master_process off; worker_processes 1; pid {here}/pid; error_log {here}/log;
worker_rlimit_nofile 65536;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off; keepalive_requests 1000000000; open_file_cache max=100;
  client_body_temp_path {here}/body; proxy_temp_path {here}/proxy; fastcgi_temp_path {here}/f;
  uwsgi_temp_path {here}/u; scgi_temp_path {here}/s;
  server {{ listen {address}:80 backlog=65535; root {here}/objects; }}
}}
"""


def inside(netns: str, *words: str) -> list[str]:
    """Return a command that does the same in a network namespace."""
    return ["ip", "netns", "exec", netns, *words]


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"{' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def serving(core: int, kilobytes: tuple[int, ...]) -> Iterator[subprocess.Popen[bytes]]:
    """Have nginx serve objects of so many kB at :data:`URL`, on one core.

    Raises
    ------
    NotSupported
        If nginx is not installed.
    MeasurementError
        If it does not start, with its last words.
    """
    nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if nginx is None:
        raise NotSupported("nginx is not installed: make bench-setup")
    with make_wire(core), tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "objects").mkdir()
        for size in kilobytes:
            (here / "objects" / f"{size}k").write_bytes(bytes(1024 * size))
        config = here / "nginx.conf"
        config.write_text(CONFIG.format(here=here, address=DESTINATION))
        for netns, ifname, own, other, mac in (
            (GEN, GEN_IFNAME, SOURCE, DESTINATION, RCV_MAC),
            (RCV, RCV_IFNAME, DESTINATION, SOURCE, GEN_MAC),
        ):
            _run("ip", "-n", netns, "addr", "add", f"{own}/32", "dev", ifname)
            _run("ip", "-n", netns, "route", "add", other, "dev", ifname)
            _run("ip", "-n", netns, "neigh", "add", other, "lladdr", mac, "dev", ifname)
            _run(
                *inside(netns, "sysctl", "-qw"),
                "net.ipv4.ip_local_port_range=1024 65535",
                "net.core.somaxconn=65535",
            )
        process = subprocess.Popen(
            inside(RCV, "taskset", "-c", str(core), nginx, "-c", str(config)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one call of prctl
        )
        try:
            _await(process, here)
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            terminate(process)


def _await(process: subprocess.Popen[bytes], here: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not ((here / "pid").exists() and (here / "pid").stat().st_size):
        if process.poll() is not None or time.monotonic() > deadline:
            log = here / "log"
            told = log.read_text(errors="replace").strip() if log.exists() else "nothing"
            raise MeasurementError(f"nginx did not start; it says: {told}")
        time.sleep(0.01)


def pause(process: subprocess.Popen[bytes], after_s: float, seconds: float) -> float:
    """Have the server stand still for a while; returns for how long it did, s."""
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGSTOP)
    began = time.monotonic()
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGCONT)
    return time.monotonic() - began

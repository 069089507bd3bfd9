"""The web servers of a test bed: HAProxy in each router that is a load balancer, nginx behind them.

All of them are this host's programs, in the namespaces of the test bed and without any right. Their
files are in memory, or in a mount that ends with them: whatever happens, nothing of them is left.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import IO, Final

from isolane.children import die_with_parent
from isolane.errors import MeasurementError, NotSupported, TestbedError
from isolane.procfs import threads_of
from isolane.testbed.bed_devices import RCV, Layout, RouterLayout
from isolane.testbed.bed_programs import END_S, READY_S, WITHOUT_RIGHTS
from isolane.testbed.netns import Namespace

HTTP_PORT: Final = 80
_PROGRAMS: Final = ("haproxy", "nginx")
_LOOK_S: Final = 0.01
_MAX_FILES: Final = 65_536
_ORIGIN: Final = """\
daemon off; master_process off; worker_processes 1; user root root;
pid /run/pid; error_log stderr crit;
worker_rlimit_nofile {files};
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off; keepalive_requests 1000000000; open_file_cache max=100;
  client_body_temp_path /run/body; proxy_temp_path /run/proxy; fastcgi_temp_path /run/f;
  uwsgi_temp_path /run/u; scgi_temp_path /run/s;
  server {{ {listen} root /run/objects; }}
}}
"""


def refuse_lacking(routers: Iterable[str]) -> None:
    """Raise NotSupported where routers are load balancers and this host has not what they run."""
    names = ", ".join(dict.fromkeys(routers))
    missing = [program for program in _PROGRAMS if _found(program) is None]
    if names and missing:
        raise NotSupported(
            f"mode http of router {names}: there is no {' and no '.join(missing)} on this host; "
            f"install {' '.join(missing)} (apt-get install haproxy nginx-light)"
        )


def _found(program: str) -> str | None:
    return shutil.which(program) or shutil.which(f"/usr/sbin/{program}")


def origin_script(addresses: Sequence[str], sizes: Iterable[int], nginx: str) -> str:
    """Return what a shell in mounts of its own does to become the web server. Pure.

    Parameters
    ----------
    addresses
        Addresses, each with its port, that it answers at.
    sizes
        Of its objects, bytes.
    nginx
        The file of the program.
    """
    listen = " ".join(f"listen {address} backlog=65535;" for address in addresses)
    config = _ORIGIN.format(listen=listen, files=_MAX_FILES)
    objects = (f"head -c {size} /dev/zero >/run/objects/{size}" for size in sorted(set(sizes)))
    return "\n".join(
        (
            "set -e",
            "mount -t tmpfs -o mode=0700 isolane-origin /run",
            "mkdir /run/objects",
            *objects,
            f"cat >/run/nginx.conf <<'END'\n{config}END",
            f"exec {' '.join(WITHOUT_RIGHTS)} {nginx} -p /run -e stderr -c /run/nginx.conf",
        )
    )


def path_of(size: int) -> str:
    """Return where the object of a size is, as a request names it. Pure."""
    return f"/{size}"


def at(address: str, port: int = HTTP_PORT) -> str:
    """Return an address, with or without a prefix's length, with a port. Pure."""
    ip = ipaddress.ip_interface(address).ip
    return f"[{ip}]:{port}" if ip.version == 6 else f"{ip}:{port}"


@dataclass(frozen=True)
class _Command:
    """A server to be started: what, where, and at which address it is to answer."""

    netns: str
    name: str
    """For messages."""
    address: str
    words: Sequence[str]
    core: int
    files: tuple[int, ...] = ()
    """Descriptors that it has as well."""
    told: Mapping[str, str] = field(default_factory=dict)
    """Of its environment."""


@dataclass
class _Server:
    """A server that was started, and what it says."""

    command: _Command
    process: subprocess.Popen[bytes]
    said: IO[bytes]

    def last_words(self) -> str:
        """Return the end of what it said, in one line."""
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines[-4:] if line.strip()) or "nothing"

    def answers(self) -> bool:
        """Tell whether it takes connections; the thread is in its namespace."""
        try:
            socket.create_connection((self.command.address, HTTP_PORT), timeout=1.0).close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        """End it."""
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        self.said.close()


class BedWebServers:
    """The servers of a test bed's load balancers; see :class:`~isolane.testbed.bed.Testbed`.

    All is done by the thread that enters namespaces: they end with the thread that started them.

    Parameters
    ----------
    origin_core
        Where the web server behind them runs.
    """

    def __init__(
        self, layout: Layout, namespaces: Mapping[str, Namespace], origin_core: int
    ) -> None:
        self._layout = layout
        self._ns = namespaces
        self._origin_core = origin_core
        self._balancers: dict[str, _Server] = {}
        self._origin: _Server | None = None

    def start(self, go_on: Callable[[], None]) -> None:
        """Start all of them, and wait until they answer.

        Parameters
        ----------
        go_on
            Raises when the building of the test bed was interrupted.

        Raises
        ------
        NotSupported
            If this host has no programs for them.
        TestbedError
            If one of them does not start, with its last words.
        """
        routers = [router for router in self._layout.routers if router.web is not None]
        if not routers:
            return
        refuse_lacking(router.name for router in routers)
        self._origin = self._started(self._origin_of(routers))
        for router in routers:
            config = os.memfd_create("haproxy.cfg", 0)
            try:
                os.write(config, configuration_of(router).encode())
                self._balancers[router.name] = self._started(_balancer(router, config))
            finally:
                os.close(config)
        for server in self._servers:
            self._await(server, go_on)

    @property
    def _servers(self) -> list[_Server]:
        origin = [] if self._origin is None else [self._origin]
        return [*origin, *self._balancers.values()]

    def _origin_of(self, routers: Sequence[RouterLayout]) -> _Command:
        addresses = [at(router.dst_ip) for router in routers]
        sizes = [size for router in routers if router.web for size in router.web.sizes]
        script = origin_script(addresses, sizes, _found("nginx") or "nginx")
        words = ["unshare", "--mount", "sh", "-c", script]
        return _Command(RCV, "the web server", routers[-1].dst_ip, words, self._origin_core)

    def _started(self, command: _Command) -> _Server:
        self._ns[command.netns].enter()
        said = tempfile.TemporaryFile()  # noqa: SIM115 - it is the server's
        process = subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            pass_fds=command.files,
            env={**os.environ, **command.told},
            start_new_session=True,
            preexec_fn=partial(_as_server, command.core),  # noqa: PLW1509 - three calls
        )
        return _Server(command, process, said)

    def _await(self, server: _Server, go_on: Callable[[], None]) -> None:
        deadline, name = time.monotonic() + READY_S, server.command.name
        self._ns[server.command.netns].enter()
        while not server.answers():
            go_on()
            if server.process.poll() is not None:
                raise TestbedError(f"{name} did not start; it says: {server.last_words()}")
            if time.monotonic() > deadline:
                raise TestbedError(f"{name} takes no connections; it says: {server.last_words()}")
            time.sleep(_LOOK_S)

    def threads(self) -> dict[str, list[int]]:
        """Return the threads of the load balancers, by router."""
        return {name: threads_of(one.process.pid) for name, one in self._balancers.items()}

    def check_alive(self) -> None:
        """Raise MeasurementError, naming a server that has ended, with its last words."""
        for server in self._servers:
            if server.process.poll() is not None:
                what = f"{server.command.name} has ended; it says: {server.last_words()}"
                raise MeasurementError(what)

    def close(self) -> None:
        """End all of them."""
        while self._balancers:
            self._balancers.popitem()[1].end()
        if self._origin is not None:
            self._origin.end()
            self._origin = None


def configuration_of(router: RouterLayout) -> str:
    """Return the configuration of a load balancer: its own, or the one that is shipped. Pure."""
    own = router.web and router.web.configuration
    return own or (resources.files("isolane.testbed") / "haproxy.cfg").read_text()


def _balancer(router: RouterLayout, config: int) -> _Command:
    """Return what starts HAProxy in a router, with the descriptor of its configuration."""
    address = router.in_address.partition("/")[0]
    told = {"ISOLANE_LISTEN": at(address), "ISOLANE_ORIGIN": at(router.dst_ip)}
    if router.web is not None and not router.web.keep_alive:
        told["ISOLANE_CLOSE"] = "1"
    program = _found("haproxy") or "haproxy"
    words = [*WITHOUT_RIGHTS, program, "-db", "-f", f"/proc/self/fd/{config}"]
    name = f"HAProxy of router {router.name}"
    return _Command(router.netns, name, address, words, router.core, (config,), told)


def _as_server(core: int) -> None:
    die_with_parent()
    os.sched_setaffinity(0, {core})
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _MAX_FILES if hard == resource.RLIM_INFINITY else min(_MAX_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))

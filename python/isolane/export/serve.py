"""Delivers metrics: in a file that is replaced in one step, or over HTTP on loopback."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar, Final, NoReturn

from isolane.errors import IsolaneError, SpecError
from isolane.export.exposition import CONTENT_TYPES, Format
from isolane.files import write_output

Collect = Callable[[Format], str]

_CLIENT_S: Final = 10.0
"""Time limit for a client: one that sends nothing must not block a thread for ever."""


def write_textfile(path: Path, text: str) -> None:
    """Replace a file in one step: a reader finds either the old text or the new one.

    Raises
    ------
    OutputError
        If it cannot be written; the old file then stays.
    """
    # A new file is readable for all, because the collector is another user; an existing file keeps
    # its mode.
    write_output(path, text.encode(), mode=None if path.exists() else 0o644)


def parse_address(text: str) -> tuple[str, int]:
    """Read ``127.0.0.1:9816``, ``[::1]:9816`` or ``localhost:9816``.

    Raises
    ------
    SpecError
        If it is no such address, or not on loopback: the endpoint asks for no password.
    """
    accepted = "a loopback address with a port, such as 127.0.0.1:9816 or [::1]:9816"
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):([0-9]{1,5})", text)
    if match is None or int(match[3]) > 65535:
        raise SpecError(f"--listen {text}: not an address; accepted: {accepted}")
    name = match[1] or match[2]
    try:
        address = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
    except ValueError:
        raise SpecError(f"--listen {text}: not an address; accepted: {accepted}") from None
    if not address.is_loopback:
        raise SpecError(
            f"--listen {text}: other hosts can reach {address}, and the endpoint asks for no "
            f"password; accepted: {accepted}"
        )
    return str(address), int(match[3])


class _Handler(BaseHTTPRequestHandler):
    collect: ClassVar[Collect]
    timeout = _CLIENT_S
    server_version = "isolane"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self._send(
                HTTPStatus.NOT_FOUND,
                "text/plain; charset=utf-8",
                "not found; the metrics are at /metrics\n",
            )
            return
        wanted = "application/openmetrics-text" in self.headers.get("Accept", "")
        form: Format = "openmetrics" if wanted else "text"
        try:
            text = type(self).collect(form)
        except IsolaneError as error:
            unavailable = HTTPStatus.SERVICE_UNAVAILABLE
            self._send(unavailable, "text/plain; charset=utf-8", f"{error}\n")
            return
        self._send(HTTPStatus.OK, CONTENT_TYPES[form], text)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: a scrape is no news."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Print nothing when a client closes the connection early."""


def serve(address: tuple[str, int], collect: Collect, ready: Callable[[int], None]) -> NoReturn:
    """Answer ``GET /metrics`` until a signal ends the process.

    Parameters
    ----------
    collect
        Returns the metrics in the format that is asked for; called by one thread at a time.
    ready
        Called with the port as soon as it is open.

    Raises
    ------
    IsolaneError
        If the port cannot be opened.
    """
    lock = threading.Lock()

    def one_at_a_time(form: Format) -> str:
        with lock:
            return collect(form)

    handler = type("Handler", (_Handler,), {"collect": staticmethod(one_at_a_time)})
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    kind = type("Server", (_Server,), {"address_family": family})
    try:
        server: ThreadingHTTPServer = kind(address, handler)
    except OSError as error:
        where = f"{address[0]} port {address[1]}"
        raise IsolaneError(
            f"cannot listen on {where}: {error.strerror}; choose another --listen"
        ) from None
    with server:
        ready(server.server_address[1])
        while True:
            server.serve_forever()

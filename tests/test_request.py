"""`isolane request` against a web server: what is asked for, answered, and told."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from isolane.testbed.host_links import in_netns, netns_path

from tests.live import background, in_process
from tests.wires import address, ip, mac_of, routed_line

pytestmark = pytest.mark.native
CONTENT = b"x" * 1000
SOURCES = {4: "198.18.77.2", 6: "2001:2:0:77::2"}
"""Of the sender on a line made by hand."""


class Handler(BaseHTTPRequestHandler):
    """Answers each request for /; says that there is nothing else."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        assert self.headers["Host"]
        if self.path != "/":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 1000
    daemon_threads = True


class Server6(Server):
    address_family = socket.AF_INET6


@contextmanager
def serving(address: str = "127.0.0.1", netns: str | None = None) -> Iterator[str]:
    kind = Server6 if ":" in address else Server
    with in_netns(netns, lambda: kind((address, 0), Handler)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            host = f"[{address}]" if ":" in address else address
            yield f"http://{host}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


def request(*words: str) -> dict[str, Any]:
    done = in_process("request", *words, "--timeout", "10min", "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["offered"] == found["answered"] + sum(found["failed"].values())
    assert done.returncode == (0 if found["answered"] else 1), done.stderr
    return found


@pytest.mark.parametrize("more", [(), ("--keep-alive",), ("--pattern", "poisson")])
def test_each_request_of_an_open_loop_is_answered(server: str, more: tuple[str, ...]) -> None:
    found = request(server, "-r", "200rps", "-d", "500ms", "--warm-up", "50ms", *more)
    assert found["answered"] == found["offered"]
    assert found["offered"] == 100 or "poisson" in more
    assert found["latency_ns"]["count"] == found["late_ns"]["count"] == found["answered"]
    if not more:
        assert found["connections"] == found["connect_ns"]["count"] == 100


def test_a_closed_loop_goes_as_fast_as_the_server(server: str) -> None:
    found = request(server, "--concurrency", "3", "-d", "300ms", "--keep-alive")
    assert found["answered"] == found["offered"] >= 3
    assert found["connections"] == found["max_in_flight"] == 3
    assert found["rate_bps"] == pytest.approx(8 * len(CONTENT) * found["rate_rps"])


def test_what_is_not_there_is_told_with_its_status(server: str) -> None:
    found = request(f"{server}/nothing", "-r", "100rps", "-d", "100ms")
    assert found["failed"]["status"] == found["offered"] == 10
    assert found["statuses"] == {"404": 10}
    assert found["latency_ns"]["p50_ns"] is None
    done = in_process("request", f"{server}/nothing", "-r", "100rps", "-d", "100ms")
    assert "10 answered with an error (404)" in done.stdout
    assert done.stderr.endswith("/nothing: no request was answered\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_answered_is_told_whoever_ends_it(
    server: str, number: signal.Signals, tmp_path: Path
) -> None:
    endless = ("request", server, "-r", "100rps", "-d", "1h", "--json")
    with background(tmp_path, *endless) as process:
        process.until(lambda: " answered" in process.stderr)
        assert process.end(number) == 128 + number
    found = json.loads(process.stdout)
    assert found["answered"] == found["offered"] > 0
    assert "; the report covers the time until then" in process.stderr


@pytest.mark.root
@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("version", [4, 6])
def test_requests_from_a_namespace_go_through_a_router(version: int) -> None:
    with routed_line(version) as line:
        length, back = (24, "198.19.77.1") if version == 4 else (64, "2001:2:0:8077::1")
        address(line.rcv_netns, line.rcv, line.dst, length)
        ip("-n", line.rcv_netns, f"-{version}", "route", "add", "default", "via", back)
        # The line's interfaces have no link-local address, by which its router would ask for it.
        source, mac = SOURCES[version], mac_of(line.gen_netns, line.gen)
        assert line.router_netns
        ip("-n", line.router_netns, "neigh", "add", source, "lladdr", mac, "dev", "e2e-in")
        with serving(line.dst, netns_path(line.rcv_netns)) as url:
            found = request(url, "-r", "200rps", "-d", "200ms", "--netns", line.gen_netns)
        assert found["answered"] == 40
        assert line.sent() > 3 * 40, "a handshake, a request and acknowledgements each"


@pytest.mark.root
@pytest.mark.usefixtures("needs_root")
def test_a_server_that_nobody_leads_to_is_unreachable() -> None:
    with routed_line(4) as line:
        found = request("http://192.0.2.1/", "-r", "1krps", "-d", "50ms", "--netns", line.gen_netns)
        assert found["failed"]["unreachable"] == found["offered"] == 50
        # A closed loop goes on asking until its window ends, and then it ends.
        loop = ("--concurrency", "2", "-d", "50ms", "--netns", line.gen_netns)
        found = request("http://192.0.2.1/", *loop)
        assert found["failed"]["unreachable"] == found["offered"] >= 2

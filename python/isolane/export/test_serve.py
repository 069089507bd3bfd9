from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from isolane.errors import IsolaneError, SpecError, TestbedError
from isolane.export import (
    CONTENT_TYPES,
    Format,
    exposition,
    families,
    parse_address,
    serve,
    write_textfile,
)


def test_a_textfile_appears_whole_and_others_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "isolane.prom"
    write_textfile(path, "a 1\n")
    inode = path.stat().st_ino
    write_textfile(path, "a 2\n")
    assert path.read_text() == "a 2\n"
    assert path.stat().st_ino != inode, "written over instead of replaced"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["isolane.prom"]


def test_a_textfile_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(IsolaneError, match=r"/none/isolane\.prom: .*there is no directory"):
        write_textfile(tmp_path / "none" / "isolane.prom", "")
    folder = tmp_path / "isolane.prom"
    (folder / "inside").mkdir(parents=True)
    with pytest.raises(IsolaneError, match=r"/isolane\.prom: .*it is a directory"):
        write_textfile(folder, "a 1\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["isolane.prom"]


def test_readers_never_find_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "isolane.prom"
    texts = {f"{letter * 100_000}\n" for letter in "ab"}
    write_textfile(path, "a" * 100_000 + "\n")
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(50):
        for text in texts:
            write_textfile(path, text)
    over.set()
    reader.join()
    assert seen <= texts


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9816", ("127.0.0.1", 9816)),
        ("127.1.2.3:0", ("127.1.2.3", 0)),
        ("[::1]:9816", ("::1", 9816)),
        ("localhost:80", ("127.0.0.1", 80)),
    ],
)
def test_addresses_of_loopback_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.0.0.0:9816", "other hosts can reach"),
        ("[::]:9816", "other hosts can reach"),
        ("192.0.2.1:9816", "other hosts can reach"),
        ("[::ffff:192.0.2.1]:80", "other hosts can reach"),
        ("example.org:80", "not an address"),
        ("9816", "not an address"),
        (":9816", "not an address"),
        ("127.0.0.1", "not an address"),
        ("127.0.0.1:99999", "not an address"),
        ("::1:80", "not an address"),
        ("", "not an address"),
    ],
)
def test_every_other_address_is_refused(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as refused:
        parse_address(text)
    assert str(refused.value).startswith(f"--listen {text}: ")
    assert "accepted: a loopback address with a port" in str(refused.value)


def collect(form: Format) -> str:
    if Path(os.environ.get("ISOLANE_TEST_FAILS", "/nonexistent")).exists():
        raise TestbedError("no luck")
    return exposition(families(None), form)


@pytest.fixture(scope="module")
def port() -> int:
    ports: Queue[int] = Queue()
    thread = threading.Thread(
        target=serve, args=(("127.0.0.1", 0), collect, ports.put), daemon=True
    )  # it serves until the process ends
    thread.start()
    return ports.get(timeout=300)


def get(
    port: int, path: str = "/metrics", method: str = "GET", accept: str = ""
) -> tuple[int, str, str]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        link.request(method, path, headers={"Accept": accept} if accept else {})
        answer = link.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        link.close()


PROMETHEUS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"


def test_prometheus_gets_openmetrics_and_others_the_older_format(port: int) -> None:
    status, kind, text = get(port, accept=PROMETHEUS)
    assert (status, kind) == (200, CONTENT_TYPES["openmetrics"])
    parse: Callable[[str], Iterable[Any]] = text_string_to_metric_families
    assert [family.name for family in parse(text)]
    status, kind, text = get(port)
    assert (status, kind) == (200, CONTENT_TYPES["text"])
    assert "# EOF" not in text


def test_a_head_has_no_body_and_other_paths_lead_to_the_right_one(port: int) -> None:
    assert get(port, method="HEAD") == (200, CONTENT_TYPES["text"], "")
    assert get(port, "/metrics?x=1")[0] == 200
    status, _, text = get(port, "/")
    assert (status, text) == (404, "not found; the metrics are at /metrics\n")
    assert get(port, method="POST")[0] == 501


def test_what_fails_is_the_scrapes_failure_and_not_the_endpoints(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOLANE_TEST_FAILS", str(tmp_path))
    assert get(port) == (503, "text/plain; charset=utf-8", "no luck\n")
    monkeypatch.delenv("ISOLANE_TEST_FAILS")
    assert get(port)[0] == 200


def test_a_client_that_says_nothing_holds_up_nobody(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)):
        assert get(port)[0] == 200


def test_a_port_that_is_taken_is_told(port: int) -> None:
    with pytest.raises(IsolaneError, match=f"127.0.0.1 port {port}: Address already in use"):
        serve(("127.0.0.1", port), collect, lambda _: None)

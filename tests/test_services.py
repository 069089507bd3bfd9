"""What runs beside a policy in force: the watcher and the exporter, as commands of their own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from isolane.enforce.find.conftest import LIMIT_S, Playground, host, wait_for
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families

from tests.live import COMMAND, environment, isolane

parse_openmetrics: Callable[[str], Iterable[Any]] = parser.text_string_to_metric_families
parse_text: Callable[[str], Iterable[Any]] = text_string_to_metric_families


class Commands:
    """The command line on a host of the test's own, with one router behind one NIC."""

    def __init__(self, playground: Playground, folder: Path) -> None:
        self.host = playground
        self.folder = folder
        tag = f"t{os.getpid()}-{playground.tag.rpartition('-')[2]}"
        os.environ["ISOLANE_POLICY"] = tag  # the fixture puts it back
        self.router = playground.namespace("vr1")
        playground.run("ip link set lo up")
        playground.run("ip link add br0 type bridge")
        playground.run("ip link add nic1 type veth peer name wire1")
        playground.run("ip link set nic1 master br0 up")
        playground.run("ip link set wire1 up")
        self.connect("v1")
        self.file = folder / "policy.yaml"
        self.file.write_text(
            "isolane: 1\nname: served\nnics: {nic1: {rate: 1Gbps}}\n"
            f"routers:\n  vr1: {{netns: {self.router}, rate_min: 100Mbps}}\n"
        )

    def connect(self, ifname: str) -> None:
        self.host.run(f"ip link add {ifname} type veth peer name eth0 netns {self.router}")
        self.host.run(f"ip link set {ifname} master br0 up")
        self.host.run(f"ip -n {self.router} link set eth0 up")

    def isolane(self, *arguments: object) -> str:
        done = self.host.do(lambda: isolane(*arguments))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def counted(self, *options: str) -> dict[str, float]:
        """Return what the exporter tells, by metric."""
        return values(parse_openmetrics(self.isolane("export", "prometheus", *options)))

    def start(self, *arguments: object) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
        """Start a command; gives it, and what reads its messages so far."""
        said = self.folder / f"said-{arguments[0]}"
        with said.open("w") as file:
            process = self.host.start(
                *COMMAND, *map(str, arguments), env=environment(), stderr=file,
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
        return process, said.read_text


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    monkeypatch.setenv("ISOLANE_POLICY", "none yet")
    with host() as playground:
        this = Commands(playground, tmp_path)
        playground.stack.callback(this.isolane, "clear")
        yield this


def values(families: Iterable[Any]) -> dict[str, float]:
    return {sample.name: sample.value for family in families for sample in family.samples}


def end(process: subprocess.Popen[bytes]) -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(LIMIT_S)


def test_the_watcher_gives_a_returned_router_its_policy(commands: Commands) -> None:
    watcher, said = commands.start("watch")
    wait_for(lambda: "no policy is in force; waiting for one" in said())
    commands.isolane("apply", commands.file)
    wait_for(lambda: "watching policy served" in said())
    commands.host.run(f"ip netns delete {commands.router}")
    wait_for(lambda: "vr1 waits: there is no network namespace" in said())
    commands.host.run(f"ip netns add {commands.router}")
    commands.connect("v2")
    # Whether it is then "applied" depends on which search has seen it first.
    wait_for(lambda: "vr1 is back" in said())
    wait_for(lambda: commands.counted().get("isolane_router_queue_limit_frames", 0) > 0)
    counted = commands.counted("--drift")
    assert counted["isolane_router_present"] == 1
    assert counted["isolane_policy_drifted_settings"] == 0
    assert end(watcher) == 128 + signal.SIGTERM
    assert "Traceback" not in said()
    counted = commands.counted()
    assert counted["isolane_router_present"] == 1, "without the watcher all stays in force"


def test_counters_are_printed_written_and_served(commands: Commands) -> None:
    nothing = commands.counted()
    assert nothing == {"isolane_build_info": 1, "isolane_policy_in_force": 0}
    commands.isolane("apply", commands.file)
    printed = commands.counted()
    assert printed["isolane_policy_in_force"] == printed["isolane_router_present"] == 1
    assert printed["isolane_link_rate_bytes_per_second"] == 125_000_000
    assert printed["isolane_router_queue_limit_frames"] > 0
    textfile = commands.folder / "isolane.prom"
    commands.isolane("export", "prometheus", "--textfile", textfile)
    assert values(parse_text(textfile.read_text())).keys() == printed.keys()
    server, said = commands.start("export", "prometheus", "--listen", "127.0.0.1:0")
    found = wait_for(lambda: re.search(r"http://127\.0\.0\.1:(\d+)/metrics", said()))
    assert found is not None
    served = commands.host.do(lambda: scrape(int(found[1])))
    assert values(parse_openmetrics(served)).keys() == printed.keys()
    assert end(server) == 128 + signal.SIGTERM
    assert said().splitlines()[1:] == [
        "stopped serving; the kernel keeps counting",
        "isolane: ended by SIGTERM",
    ]


def scrape(port: int) -> str:
    # Not urllib: the thread is in another namespace than the rest of the process.
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as link:
        link.sendall(
            b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Accept: application/openmetrics-text;version=1.0.0\r\n\r\n"
        )
        with link.makefile("rb") as stream:
            head, _, body = stream.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    return body.decode()


def test_a_textfile_is_kept_up_to_date(commands: Commands) -> None:
    textfile = commands.folder / "isolane.prom"
    exporter, _ = commands.start("export", "prometheus", "--every", "1s", "--textfile", textfile)
    wait_for(textfile.exists)
    assert values(parse_text(textfile.read_text()))["isolane_policy_in_force"] == 0
    commands.isolane("apply", commands.file)
    wait_for(lambda: values(parse_text(textfile.read_text()))["isolane_policy_in_force"] == 1)
    assert end(exporter) == 128 + signal.SIGTERM
    assert sorted(path.name for path in commands.folder.glob(".isolane*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give it up")
@pytest.mark.parametrize("arguments", [("watch",), ("export", "prometheus")])
def test_without_rights_that_is_said(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--", *COMMAND, *arguments],
        env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "need root" in done.stderr
    assert sys.executable not in done.stderr

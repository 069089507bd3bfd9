"""A host to look for routers on: a network namespace of the test's own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from isolane.children import die_with_parent
from isolane.enforce.find import external_tools, find_routers, qemu_monitor
from isolane.enforce.router_facts import FoundRouter, MissingRouter
from isolane.spec.policy import parse_policy
from isolane.testbed import kernel
from isolane.testbed.namespace_thread import NamespaceThread

T = TypeVar("T")
LIMIT_S = 300.0


@dataclass
class Playground:
    """A thread whose network namespace stands for the host's, and what was started from there."""

    thread: NamespaceThread
    stack: ExitStack
    tag: str
    made: list[str] = field(default_factory=list)

    def do(self, work: Callable[[], T]) -> T:
        return self.thread.do(work)

    def run(self, text: str) -> str:
        """Run a command of words without spaces, in the host's namespace."""
        return self.do(lambda: subprocess.check_output(text.split(), text=True))

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start a process that ends with the test."""

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
                **more,
            )

        process = self.do(begin)
        self.stack.callback(_end, process)
        return process

    def namespace(self, name: str) -> str:
        """Make a named network namespace; the name is made the test's own."""
        full = f"isl-{self.tag}-{name}"
        self.run(f"ip netns add {full}")
        gone = ["ip", "netns", "delete", full]  # unless the test has deleted it already
        self.stack.callback(subprocess.run, gone, check=False, stderr=subprocess.DEVNULL)
        return full

    def find(self, routers: str, nics: str = "{nic1: {rate: 1Gbps}}") -> dict[str, Any]:
        """Look for routers that are given as ``name: {netns: x}`` lines."""
        lines = "".join(f"  {line.strip()}\n" for line in routers.strip().splitlines())
        policy = parse_policy(f"isolane: 1\nname: t\nnics: {nics}\nrouters:\n{lines}")
        return {router.name: router for router in self.do(lambda: find_routers(policy))}

    def found(self, router: str, **more: str) -> FoundRouter:
        (router_found,) = self.find(f"one: {router}", **more).values()
        assert isinstance(router_found, FoundRouter), router_found
        return router_found

    def missing(self, router: str, **more: str) -> str:
        (router_missing,) = self.find(f"one: {router}", **more).values()
        assert isinstance(router_missing, MissingRouter), router_missing
        return router_missing.reason


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(LIMIT_S)


def wait_for(condition: Callable[[], T]) -> T:
    """Wait until something is true, and return it."""
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "did not come about"
        time.sleep(0.01)
    return value


@contextmanager
def host() -> Iterator[Playground]:
    """Give a host of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    thread = NamespaceThread()
    try:
        with ExitStack() as stack:
            thread.do(kernel.unshare_net)
            yield Playground(thread, stack, f"{os.getpid()}-{time.monotonic_ns() % 10**6}")
    finally:
        thread.close()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon or a monitor that is slow to answer is none that hangs."""
    monkeypatch.setattr(external_tools, "LIMIT_S", LIMIT_S)
    monkeypatch.setattr(qemu_monitor, "LIMIT_S", LIMIT_S)


@pytest.fixture
def playground() -> Iterator[Playground]:
    with host() as this:
        yield this

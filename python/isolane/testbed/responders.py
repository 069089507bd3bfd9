"""The responders of a test bed: a program in a router that answers each UDP datagram (RFC 862)."""

from __future__ import annotations

import base64
import contextlib
import gzip
import ipaddress
import os
import select
import subprocess
from collections.abc import Mapping
from functools import partial
from typing import Final

from isolane import _native
from isolane.children import die_with_parent
from isolane.errors import MeasurementError, TestbedError
from isolane.procfs import threads_of
from isolane.testbed.bed_devices import Layout
from isolane.testbed.netns import Namespace

ECHO_PORT: Final = 7
"""UDP port of the echo service."""
_NAME: Final = "isolane-responder"
_READY: Final = b"ready\n"
_READY_S: Final = 60.0
_END_S: Final = 10.0


def _words(address: str) -> list[str]:
    """Return the program's words for a router's address, with or without a prefix's length."""
    return [ipaddress.ip_interface(address).ip.packed.hex(), str(ECHO_PORT)]


def responder_script(address: str) -> str:
    """Return shell commands that start a responder in a guest, which brings no files along.

    Parameters
    ----------
    address
        Of the router, with its prefix's length.
    """
    packed = base64.b64encode(gzip.compress(_native.responder(), mtime=0)).decode()
    program, told = f"/tmp/{_NAME}", "/tmp/responder-told"  # noqa: S108 - in the guest
    return "\n".join(
        (
            f"mkdir -p /tmp; echo {packed} | base64 -d | gzip -d >{program}",
            f"chmod 700 {program}",
            f"{program} {' '.join(_words(address))} >{told} &",
            f"until [ -s {told} ]; do sleep 0.02; done",
            f'[ "$(cat {told})" = ready ] || exit 1',
        )
    )


class BedResponders:
    """A responder in each container that is to have one; those of guests are the guests' own.

    All is done by the thread that enters namespaces: they end with the thread that started them.
    """

    def __init__(self, layout: Layout, namespaces: Mapping[str, Namespace]) -> None:
        self._layout = layout
        self._ns = namespaces
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all of them, and wait until they answer.

        Raises
        ------
        TestbedError
            If one of them does not start, with the reason.
        """
        routers = [r for r in self._layout.routers if r.responder and not r.guest]
        if not routers:
            return
        program = os.memfd_create(_NAME, 0)
        try:
            os.write(program, _native.responder())
            for router in routers:
                self._ns[router.netns].enter()
                self._processes[router.name] = subprocess.Popen(
                    [_NAME, *_words(router.in_address)],
                    executable=f"/proc/self/fd/{program}",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    pass_fds=(program,),
                    start_new_session=True,
                    preexec_fn=partial(_as_responder, router.core),  # noqa: PLW1509 - two calls
                )
        finally:
            os.close(program)
        for name, process in self._processes.items():
            _await_ready(name, process)

    def threads(self) -> dict[str, list[int]]:
        """Return the threads that answer, by router."""
        return {name: threads_of(process.pid) for name, process in self._processes.items()}

    def check_alive(self) -> None:
        """Raise MeasurementError, naming a router whose responder has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise MeasurementError(f"the responder of router {name} has ended")

    def close(self) -> None:
        """End all of them."""
        while self._processes:
            _, process = self._processes.popitem()
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            if process.stdout is not None:
                process.stdout.close()


def _as_responder(core: int) -> None:
    die_with_parent()
    os.sched_setaffinity(0, {core})


def _await_ready(router: str, process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    said = b""
    if select.select([process.stdout], [], [], _READY_S)[0]:
        said = process.stdout.readline()
    if said == _READY:
        return
    told = said.decode(errors="replace").strip()
    why = os.strerror(int(told)) if told.isdigit() else "it says nothing"
    raise TestbedError(f"the responder of router {router} did not start: {why}")

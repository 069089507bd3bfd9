"""The responders of a test bed: a program in a router that answers each UDP datagram (RFC 862)."""

from __future__ import annotations

import base64
import gzip
import ipaddress
import os
import select
import subprocess
from typing import Final

from isolane import _native
from isolane.errors import TestbedError
from isolane.testbed.bed_programs import READY_S, BedPrograms

ECHO_PORT: Final = 7
"""UDP port of the echo service."""
_NAME: Final = "isolane-responder"
_READY: Final = b"ready\n"


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


class BedResponders(BedPrograms):
    """A responder in each container that is to have one."""

    WHAT = "responder"

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
                self._begin(
                    router,
                    [_NAME, *_words(router.in_address)],
                    executable=f"/proc/self/fd/{program}",
                    stdout=subprocess.PIPE,
                    bufsize=0,
                    pass_fds=(program,),
                )
        finally:
            os.close(program)
        for name, process in self._processes.items():
            _await_ready(name, process)


def _await_ready(router: str, process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    said = b""
    if select.select([process.stdout], [], [], READY_S)[0]:
        said = process.stdout.readline()
    if said == _READY:
        return
    told = said.decode(errors="replace").strip()
    why = os.strerror(int(told)) if told.isdigit() else "it says nothing"
    raise TestbedError(f"the responder of router {router} did not start: {why}")

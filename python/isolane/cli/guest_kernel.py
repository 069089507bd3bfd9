"""``isolane guest-kernel``: fetches the kernel that QEMU guests run."""

from __future__ import annotations

from typing import Annotated

import typer

EPILOG = """Examples:

\b
  isolane guest-kernel            fetches it, unless it is there
  isolane guest-kernel --renew    fetches Debian's present one

Virtual machines under User-Mode Linux need none.
"""


def command(
    renew: Annotated[
        bool, typer.Option("--renew", help="Fetch it again, also where one is there.")
    ] = False,
) -> None:
    """Fetch the kernel that virtual machines run under QEMU.

    That is for `hypervisor: tcg` and `kvm` in experiments.

    It is Debian's, 75 MB to fetch, taken out of its package and kept beside Isolane with a
    checksum: this host's own kernel and the way it boots stay as they are. With it goes what a
    guest starts with: busybox, and this host's ip. Debian on x86-64 only; needs no root where
    Isolane is yours.
    """
    from isolane.guests import GuestKernel

    kernel = GuestKernel.installed()
    if not renew and not kernel.lacking():
        typer.echo(f"Linux {kernel.version} for guests is in {kernel.folder}")
        return
    kernel.make(lambda step: typer.echo(f"isolane: {step}", err=True))
    typer.echo(f"Linux {kernel.version} for guests is now in {kernel.folder}")

"""Modules of a User-Mode Linux guest's kernel: they are not where modprobe(8) looks."""

from __future__ import annotations


def load(modules: str) -> str:
    """Return shell commands that load a module, with its parameters; /tmp is the guest's own."""
    return f"""\
mkdir -p /tmp/lib/modules
[ -e /tmp/lib/modules/$(uname -r) ] || ln -s /usr/lib/uml/modules/$(uname -r) /tmp/lib/modules/
modprobe -d /tmp {modules}"""

"""Probes BPF and XDP with a program of two instructions that drops every frame."""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isolane.doctor import syscalls
from isolane.doctor.answers import Answer, Probe

_PROG_LOAD: Final = 5
_PROG_TEST_RUN: Final = 10
_TYPE_XDP: Final = 6
_LIVE_FRAMES: Final = 1 << 1
_AF_XDP: Final = 44

_DROP_ALL: Final = bytes.fromhex("b7000000 01000000 95000000 00000000")
"""Two instructions: ``r0 = XDP_DROP`` and ``exit``."""


def load_drop_all() -> int:
    """Load the XDP program that drops everything and return its file descriptor."""
    code = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
    licence = ctypes.create_string_buffer(b"GPL")
    # union bpf_attr, BPF_PROG_LOAD: prog_type, insn_cnt, insns, license; the rest is zero.
    head = struct.pack("=IIQQ", _TYPE_XDP, 2, ctypes.addressof(code), ctypes.addressof(licence))
    return _bpf(_PROG_LOAD, head.ljust(128, b"\0"))


def run_live(program: int, frames: int) -> None:
    """Send live frames through a program; ``OSError`` where the kernel cannot."""
    frame = ctypes.create_string_buffer(60)
    # prog_fd, retval, data_size_in, data_size_out, data_in, data_out, repeat, duration,
    # ctx_size_in, ctx_size_out, ctx_in, ctx_out, flags, cpu, batch_size
    attributes = struct.pack(
        "=IIIIQQIIIIQQIII",
        *(program, 0, 60, 0, ctypes.addressof(frame), 0, frames, 0),
        *(0, 0, 0, 0, _LIVE_FRAMES, 0, 0),
    )
    _bpf(_PROG_TEST_RUN, attributes.ljust(128, b"\0"))


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return syscalls.call("bpf", command, buffer, ctypes.c_uint(len(attributes)))


def _live_frames() -> Mapping[str, Answer]:
    syscalls.enter_private_network()
    program = load_drop_all()
    try:
        run_live(program, 64)
    except PermissionError:
        raise
    except OSError as error:
        return {"live-frames": Answer("no", f"the kernel refused them: {error.strerror}")}
    finally:
        os.close(program)
    return {"live-frames": Answer("yes", "sent 64 frames through a BPF program")}


def _settings() -> Mapping[str, Answer]:
    btf = Path("/sys/kernel/btf/vmlinux")
    jit = Path("/proc/sys/net/core/bpf_jit_enable")
    enabled = jit.read_text().strip() if jit.exists() else ""
    return {
        "btf": Answer("yes", str(btf)) if btf.exists() else Answer("no", f"no {btf}"),
        "jit": {
            "1": Answer("yes", "net.core.bpf_jit_enable = 1"),
            "2": Answer("yes", "net.core.bpf_jit_enable = 2 (with debug output)"),
            "0": Answer("no", "net.core.bpf_jit_enable = 0"),
        }.get(enabled, Answer("unknown", f"no {jit}")),
    }


def _native_module() -> Mapping[str, Answer]:
    try:
        native = importlib.import_module("isolane._native")
    except ImportError as error:
        return {"native-module": Answer("no", f"the native module does not load: {error}")}
    syscalls.enter_private_network()
    tried = native.probe_features()
    refused = [f"{found.program}: {found.reason}" for found in tried if not found.works]
    if refused:
        return {"native-module": Answer("no", "; ".join(refused))}
    names = ", ".join(found.program for found in tried)
    return {"native-module": Answer("yes", f"loaded and ran: {names}")}


def _af_xdp() -> Mapping[str, Answer]:
    try:
        socket.socket(_AF_XDP, socket.SOCK_RAW, 0).close()
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
            return {"af-xdp": Answer("no", "the kernel has no AF_XDP sockets")}
        raise
    return {
        "af-xdp": Answer(
            "yes", "opened a socket (in copy mode; the lines of the NICs tell about zero copy)"
        )
    }


PROBES: tuple[Probe, ...] = (
    Probe(("btf", "jit"), _settings),
    Probe(("live-frames",), _live_frames),
    Probe(("native-module",), _native_module, seconds=20.0),
    Probe(("af-xdp",), _af_xdp),
)

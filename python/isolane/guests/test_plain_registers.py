"""One request of ptrace(2) fails, and no other system call."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """\
import ctypes, errno
from isolane.guests.plain_registers import keep_to_them
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS: a filter without being root
if {wanted}:
    keep_to_them()
def failed(request, number):
    vector = (ctypes.c_void_p * 2)()  # no room for anything
    assert libc.ptrace(request, 0, ctypes.c_void_p(number), vector) == -1  # no process is number 0
    return errno.errorcode[ctypes.get_errno()]
print(failed(0x4204, 0x202), failed(0x4204, 1), failed(0x4205, 0x202), failed(14, 0x202))
"""


def errors(wanted: bool) -> list[str]:
    script = SCRIPT.format(wanted=wanted)
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return done.stdout.split()


def test_only_vector_registers_are_not_to_be_had() -> None:
    assert errors(wanted=False) == ["ESRCH"] * 4
    assert errors(wanted=True) == ["EINVAL", *["ESRCH"] * 3]

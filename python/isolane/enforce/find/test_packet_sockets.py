from __future__ import annotations

import os
import socket
from pathlib import Path

from isolane.enforce.find.packet_sockets import parse, sockets_of

# Linux 6.18; columns as of net/packet/af_packet.c.
LISTED = """\
sk               RefCnt Type Proto  Iface R Rmem   User   Inode
00000000b0d3c1a2 3      3    0003   12    1 0      0      40211
000000001c2d3e4f 3      2    88b5   0     0 2304   1000   40999
"""


def test_a_socket_leads_to_its_interface() -> None:
    assert parse(LISTED) == {40211: 12, 40999: 0}
    assert parse(LISTED.splitlines()[0]) == {}


def test_the_sockets_of_a_process_are_found_and_nothing_else() -> None:
    with socket.socket() as one, Path(os.devnull).open() as other:
        found = sockets_of(os.getpid())
        assert os.fstat(one.fileno()).st_ino in found
        assert os.fstat(other.fileno()).st_ino not in found
    assert sockets_of(2**22) == set(), "there is no such process"

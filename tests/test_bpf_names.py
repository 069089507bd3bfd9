"""The rule for names in bpf/ (CONTRIBUTING.md): a prefix, and short enough for the kernel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BPF = Path(__file__).parent.parent / "bpf"
NAME_LENGTH = 15
"""BPF_OBJ_NAME_LEN less the final zero: bpftool shows no more."""

PROGRAM = re.compile(r'^SEC\("(?!license)[^"]+"\)\nint (?:BPF_PROG\()?(\w+)', re.MULTILINE)
MAP = re.compile(r'^\} (\w+) SEC\("\.maps"\)', re.MULTILINE)
SHARED = re.compile(
    r"^(?:struct|enum) (\w+) \{|^(?:static \w+ )(?:const )?[\w ]*[ *](\w+)[([]|^#define (\w+)",
    re.MULTILINE,
)


def wrong_names(text: str, *, shared: bool) -> list[str]:
    """Return the names of a source that break the rule."""
    visible = PROGRAM.findall(text) + MAP.findall(text)
    wrong = [name for name in visible if not name.startswith("isl_") or len(name) > NAME_LENGTH]
    if shared:
        names = ["".join(found) for found in SHARED.findall(text)]
        wrong += [name for name in names if not name.lower().startswith(("isl_", "isolane_"))]
    return wrong


def test_names_begin_with_the_prefix_and_are_not_cut_off() -> None:
    wrong = [
        f"{path.name}: {name}"
        for path in sorted(BPF.rglob("*.[ch]"))
        # What kernel.h declares are the kernel's own types.
        for name in wrong_names(
            path.read_text(), shared=path.suffix == ".h" and path.name != "kernel.h"
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_every_program_and_map_has_a_name_of_its_own() -> None:
    sources = [path.read_text() for path in sorted(BPF.rglob("*.[ch]"))]
    for kind in (PROGRAM, MAP):
        names = [name for text in sources for name in kind.findall(text)]
        assert len(names) > 5
        assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('SEC("xdp")\nint demux(struct xdp_md *ctx)\n', ["demux"]),
        ('SEC("tp_btf/x")\nint BPF_PROG(isl_name_is_too_long, int x)\n', ["isl_name_is_too_long"]),
        ('} flows SEC(".maps");\n', ["flows"]),
        ("static __always_inline int fold(int x)\n", ["fold"]),
        ("static const __u8 padding[2048];\n", ["padding"]),
        ("struct frame {\n", ["frame"]),
        ("#define SCAN 4\n", ["SCAN"]),
        ("static __always_inline struct isl_x *isl_find(int x)\n", []),
        ('SEC("tc")\nint isl_egress_tc(struct __sk_buff *skb)\n} isl_fdb SEC(".maps");\n', []),
    ],
)
def test_a_wrong_name_is_found(text: str, found: list[str]) -> None:
    assert wrong_names(text, shared=True) == found


PARSING = re.compile(r"ETH_P_\w+|h_proto|->(?:nexthdr|ihl|protocol)\b|vlan_tci")
"""What only who parses a packet needs."""


def test_packets_are_parsed_in_one_file() -> None:
    parsing = {path.name for path in BPF.rglob("*.[ch]") if PARSING.search(path.read_text())}
    assert parsing == {"parse.h"}

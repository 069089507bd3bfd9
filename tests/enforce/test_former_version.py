"""What an earlier version of Isolane put in force is read well enough to replace or to clear it.

That version had other names for programs, hooks and tables, and lists as values in its state.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from isolane.testbed import NETNS_DIR

from tests.enforce.rig import Rig, inside, shown
from tests.enforce.test_drops import received_from_both

pytestmark = [pytest.mark.root, pytest.mark.native]

PROGRAMS = """
#define PROGRAM(type, name, verdict) \\
    __attribute__((section(type), used)) int name(void *context) { return verdict; }
PROGRAM("xdp/demux", isl_demux, 2)
PROGRAM("xdp/serve", isl_serve, 2)
PROGRAM("xdp/leave", isl_leave, 2)
PROGRAM("tc/egress", isl_egress, -1)
__attribute__((section("license"), used)) char LICENSE[] = "GPL";
"""
OWN_BPF_FILES = (
    "unshare", "--mount", "--propagation", "private",
    "sh", "-c", 'mount -t bpf none /sys/fs/bpf && exec "$@"', "sh",
)  # fmt: skip
"""iproute2 makes folders where it finds the BPF file system: they go with this one."""
SECTIONS = {"nic": "xdp/demux", "router": "xdp/serve", "egress_xdp": "xdp/leave"}
HOOKS = {"egress_xdp": "leave", "egress_tc": "port"}
TABLES = {
    "fdb": "routes", "ingress_dev": "inlets", "redirects": "ways", "egress_dev": "outlets",
}  # fmt: skip


def as_lists(value: Any) -> Any:
    """Return a value as it was written then."""
    return [as_lists(part) for part in value.values()] if isinstance(value, dict) else value


def former_key(key: str) -> str:
    kind, fields = json.loads(key)
    for field, names in (("hook", HOOKS), ("table", TABLES)):
        if kind in ("program", "entry") and field in fields:
            fields[field] = names.get(fields[field], fields[field])
    return json.dumps([kind, fields])


def put_former_program(fields: dict[str, str], built: Path) -> None:
    """Replace a program by one that has the name that it had then."""
    device, hook = ("dev", fields["ifname"]), fields["hook"]

    def replace() -> None:
        if hook in SECTIONS:
            where = ("xdpdrv", "obj", str(built), "sec", SECTIONS[hook])
            shown(*OWN_BPF_FILES, "ip", "-force", "link", "set", *device, *where)
            return
        filter_ = ("ingress", "prio", "346", "handle", "1", "bpf", "direct-action")
        section = ("obj", str(built), "sec", "tc/egress")
        shown(*OWN_BPF_FILES, "tc", "filter", "replace", *device, *filter_, *section)

    netns = Path(fields["netns"])
    inside(netns.name, replace) if netns.parent == NETNS_DIR else replace()


def make_former(rig: Rig, folder: Path) -> set[str]:
    """Have the policy in force look as if that version had applied it; returns its hooks."""
    source, built = folder / "former.c", folder / "former.o"
    source.write_text(PROGRAMS)
    shown("clang", "-O2", "-g", "-target", "bpf", "-c", str(source), "-o", str(built))
    path = rig.directory / "state.json"
    state = json.loads(path.read_text())
    hooks = set()
    for key in state["done"]:
        kind, fields = json.loads(key)
        if kind == "program":
            put_former_program(fields, built)
            hooks.add(fields["hook"])
    state["done"] = {
        former_key(key): {name: as_lists(value) for name, value in done.items()}
        for key, done in state["done"].items()
    }
    text = json.dumps(state)
    assert '\\"routes\\"' in text
    assert '\\"leave\\"' in text
    path.write_text(text)
    return hooks


@pytest.fixture
def former(rig: Rig, tmp_path: Path) -> dict[str, Any]:
    """The host before, with a policy of a former version in force."""
    before = rig.host()
    keys = "forward: xdp, cpu_max: 50%, rate_max: {ingress: 90kpps, egress: 90kpps}"
    rig.cli("apply", rig.file(vr1=keys, vr2="rate_min: 1Gbps, rate_max: 2Gbps"))
    assert make_former(rig, tmp_path) == {"nic", "router", "egress_xdp", "egress_tc"}
    return before


def test_clear_removes_it(rig: Rig, former: dict[str, Any]) -> None:
    assert "settings put back" in rig.cli("clear")
    rig.assert_host(former)


def test_status_says_that_it_is_not_in_force_any_more(rig: Rig, former: dict[str, Any]) -> None:
    said = rig.cli("status", status=1)
    assert "applied ours, found that of an earlier version of Isolane" in said
    rig.cli("clear")
    rig.assert_host(former)


def test_apply_replaces_it(rig: Rig, former: dict[str, Any]) -> None:
    rig.cli("apply", rig.folder / "policy.yaml")
    status = rig.data("status")
    assert status["drift"] == []
    received_from_both(rig, 1000)
    found = "".join(map(str, rig.host().values()))
    assert "isl_router_rx" in found
    assert not [name for name in ("isl_serve", "isl_leave", "isl_egress'") if name in found]
    rig.cli("clear")
    rig.assert_host(former)

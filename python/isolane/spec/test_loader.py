from __future__ import annotations

import os
from pathlib import Path

import pytest

from isolane.errors import SpecError
from isolane.spec import load_experiment, only_arms, parse_experiment
from isolane.spec.test_messages import GOOD, changed


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    text = (
        changed("cores: 1", "cores: 0")
        .replace("frame_size: 64", "framesize: 64")
        .replace("path: direct\n  - ", "path: brdige\n  - ")
        .replace("  noise: [0x, 1x]", "  nois: [0x, 1y]")
    )
    with pytest.raises(SpecError) as error:
        parse_experiment(text, "f")
    locations = [line.split(": ")[:2] for line in str(error.value).splitlines()]
    assert locations == [
        ["f:4", "dut.cores"],
        ["f:6", "traffic.framesize"],
        ["f:9", "routers[0].path"],
        ["f:10", "routers[1].name"],  # noise has no load
        ["f:14", "load.nois"],  # an unknown router
        ["f:14", "load.nois[1]"],
    ]


def test_wrong_values_do_not_lead_to_complaints_about_right_ones() -> None:
    with pytest.raises(SpecError) as error:
        parse_experiment(changed("    path: direct\n  - name", "    path: 5\n  - name"), "f")
    assert len(str(error.value).splitlines()) == 1


def test_a_flood_of_problems_is_cut_short() -> None:
    with pytest.raises(SpecError) as error:
        parse_experiment(GOOD + "".join(f"key{i}: 1\n" for i in range(100)), "f")
    lines = str(error.value).splitlines()
    assert len(lines) == 31
    assert lines[-1] == "f: and 70 more"


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("container", "sriov"),
        *[("vm", path) for path in ("sriov-macvtap", "sriov-passthrough")],
        *[("xen", path) for path in ("bridge", "sriov-passthrough", "dom0")],
    ],
)
def test_what_only_a_simulated_host_offers_is_valid_and_named(kind: str, path: str) -> None:
    text = changed("    path: direct\n  - name", f"    kind: {kind}\n    path: {path}\n  - name")
    found = parse_experiment(text, "f.yaml").only_simulated()
    assert len(found) == 1
    assert found[0].endswith(f": kind {kind}, path {path}")


@pytest.mark.parametrize("path", ["tap", "bridge", "macvtap", "isolane"])
@pytest.mark.parametrize(
    ("keys", "only_simulated"),
    [
        ("", ()),
        ("hypervisor: auto", ()),
        ("hypervisor: uml", ()),
        ("nic: vector", ()),
        ("hypervisor: kvm", ()),
        ("hypervisor: tcg", ()),
        ("hypervisor: tcg\n    policy: {cpu_weight: 200}", ()),
        ("nic: e1000", ("NIC model e1000, which needs hypervisor kvm or tcg",)),
        ("nic: e1000\n    hypervisor: tcg", ()),
        ("policy: {cpu_weight: 200, cores: [0]}", ()),
    ],
)
def test_what_of_virtual_machines_runs_live(
    path: str, keys: str, only_simulated: tuple[str, ...]
) -> None:
    lines = f"    kind: vm\n    path: {path}\n    {keys}\n  - name"
    found = parse_experiment(changed("    path: direct\n  - name", lines), "f").only_simulated()
    assert tuple(line.partition(": ")[2] for line in found) == only_simulated


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ("nic: virtio, hypervisor: uml", "with path 'tap' and hypervisor uml; accepted: vector"),
        ("nic: vector, hypervisor: tcg", "and hypervisor tcg; accepted: virtio, e1000"),
        ("nic: vfio", "with path 'tap'; accepted: virtio, e1000, vector"),
    ],
)
def test_a_nic_model_that_its_hypervisor_does_not_have_is_refused(keys: str, refused: str) -> None:
    lines = "    kind: vm\n    path: tap\n" + "".join(f"    {k}\n" for k in keys.split(", "))
    with pytest.raises(SpecError) as error:
        parse_experiment(changed("    path: direct\n  - name", f"{lines}  - name"), "f")
    assert refused in str(error.value)


def test_a_path_that_a_kind_does_not_have_is_refused() -> None:
    text = changed("    path: direct\n  - name", "    kind: vm\n    path: macvlan\n  - name")
    with pytest.raises(SpecError) as error:
        parse_experiment(text, "f")
    assert str(error.value) == (
        "f:10: routers[0].path: vm 'victim' cannot have path 'macvlan'; accepted: a path of "
        "tap, bridge, macvtap, isolane, netback, sriov-macvtap, sriov-passthrough, for the router "
        "or for the arm"
    )


def test_files_that_cannot_be_experiments(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0\xff")
    (tmp_path / "zeros").write_bytes(b"name: x\0")
    (tmp_path / "large").write_bytes(b"#" * 250_001)
    for name, message in (
        ("missing", "no such file"),
        (".", "is a directory"),
        ("fifo", "is not a regular file"),
        ("binary", "is not text"),
        ("zeros", "is not text (it has zero bytes)"),
        ("large", "is larger than 250000 bytes"),
        ("a" * 300, "cannot be read (File name too long)"),
        ("nul\0", "cannot be read"),
        ("binary/x", "cannot be read (Not a directory)"),
    ):
        with pytest.raises(SpecError) as error:
            load_experiment(tmp_path / name)
        assert str(error.value).startswith(f"{tmp_path / name}: {message}")
        assert "; accepted: " in str(error.value)


def test_a_byte_order_mark_and_windows_lines_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_experiment(path).name == "two"


ARMS = """\
isolane: 1
name: several
routers: [{name: one, policy: {cpu_weight: 5}}]
load: {one: 1x}
arms: [{name: a, path: direct}, {name: b, path: isolane}, {name: c, path: bridge}]
capacity: {arm: b}
"""


def test_an_experiment_can_be_run_with_some_of_its_arms() -> None:
    whole = parse_experiment(ARMS)
    chosen = only_arms(whole, ["c", "b"])
    assert [arm.name for arm in chosen.arms] == ["b", "c"]
    assert parse_experiment(chosen.to_yaml()) == chosen
    assert only_arms(whole, ["a", "b", "c"]) == whole


def test_what_only_the_other_arms_had_of_a_policy_is_left_out_with_them() -> None:
    chosen = only_arms(parse_experiment(ARMS.replace("capacity: {arm: b}\n", "")), ["a"])
    assert chosen.routers[0].policy is None
    assert chosen.resolved_arms()[0].router("one").policy is None


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (["a", "d"], "--arms: no arm 'd'; accepted: a, b, c"),
        (["a", "c"], "capacity of an unknown arm 'b'; accepted: a, c"),
        ([""], "--arms: no arm ''; accepted: a, b, c"),
    ],
)
def test_arms_that_cannot_be_chosen_are_named(names: list[str], refused: str) -> None:
    with pytest.raises(SpecError) as error:
        only_arms(parse_experiment(ARMS), names)
    assert refused in str(error.value)


def test_an_experiment_without_arms_has_none_to_choose() -> None:
    text = ARMS.partition("arms:")[0].replace("policy: {cpu_weight: 5}", "path: direct")
    with pytest.raises(SpecError, match="no arm 'direct'; accepted: none: it has no arms"):
        only_arms(parse_experiment(text), ["direct"])


@pytest.mark.parametrize(
    ("old", "new"),
    [("name: arms-end", "name: arms-end"), ("  - {name: noise", "  - foo\n  - {name: noise"),
     ("  - {name: noise", "  - [foo]\n  - {name: noise")],
)  # fmt: skip
def test_a_wrong_path_beside_other_mistakes_is_told(old: str, new: str) -> None:
    text = f"{GOOD}\narms:\n" if old == new else GOOD.replace(old, new, 1)
    with pytest.raises(SpecError, match="brdige"):
        parse_experiment(text.replace("path: direct", "path: brdige", 1), "f")

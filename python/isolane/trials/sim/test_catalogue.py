"""The paths and profiles that Isolane brings along, and those that a user brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported, SpecError
from isolane.spec import ArmRouter
from isolane.spec.hostmodel import PathData, ProfileData
from isolane.spec.kinds import NICS, SIMULATED
from isolane.spec.loader import load_file
from isolane.trials.sim.catalogue import HERE, find_host, has_model, own_path, own_profiles

PATH_FILES = [
    load_file(file, PathData, "a path") for file in sorted((HERE / "paths").glob("*.yaml"))
]

LIMITED = ("ahn",)
"""Profiles of a paper that has not more than its own paths."""


def test_each_kind_and_path_of_the_vocabulary_has_its_file() -> None:
    wanted = {
        (kind, path, nic)
        for kind, paths in SIMULATED.items()
        for path in paths
        for nic in (NICS[path] if kind == "vm" else (None,))
    }
    assert all(own_path(*key) for key in wanted)


def test_an_external_router_is_refused_by_name() -> None:
    with pytest.raises(NotSupported, match="external router there cannot be simulated"):
        find_host(None).path_of(ArmRouter("there", "external", "none"))


@pytest.mark.parametrize(
    ("router", "simulated"),
    [
        (ArmRouter("r", "container", "sriov"), True),
        (ArmRouter("r", "vm", "bridge", "virtio", hypervisor="auto"), True),
        (ArmRouter("r", "vm", "bridge", "virtio", hypervisor="tcg"), False),
        (ArmRouter("r", "vm", "tap", "vector", hypervisor="uml"), False),
        (ArmRouter("r", "vm", "netback", "virtio", hypervisor="uml"), True),
        (ArmRouter("r", "vm", "netback", "virtio", hypervisor="tcg"), False),
        (ArmRouter("r", "external", "none"), False),
    ],
)
def test_what_has_a_model(router: ArmRouter, simulated: bool) -> None:
    assert has_model(router) == simulated


def test_files_are_called_after_what_is_in_them() -> None:
    for path in PATH_FILES:
        assert own_path(path.kind, path.path, path.nic) == path, f"{path.name} would not be found"
    assert own_path("container", "none", None) is None
    for name in own_profiles():
        assert find_host(name).profile.name == name


@pytest.mark.parametrize("name", [name for name in own_profiles() if name not in LIMITED])
def test_a_profile_has_all_costs_of_the_paths_without_xen(name: str) -> None:
    host = find_host(name)
    for path in PATH_FILES:
        if path.kind != "xen":
            host.path_of(ArmRouter("r", path.kind, path.path, path.nic))


@pytest.mark.parametrize("name", own_profiles())
def test_a_profile_says_where_its_figures_come_from_and_lies_within_its_limits(name: str) -> None:
    profile = find_host(name).profile
    assert profile.source
    for key, limits in profile.fitted.items():
        value = profile.figure(key)
        assert value is not None
        assert limits.low <= value <= limits.high, key


def test_the_profile_of_rathore_has_at_most_14_fitted_costs() -> None:
    assert 0 < len(find_host("rathore2013").profile.fitted) <= 14


def test_an_unknown_profile_is_named_with_those_there_are() -> None:
    with pytest.raises(SpecError, match=r"profile 'x' is not known; accepted: ahn, .*YAML file"):
        find_host("x")
    with pytest.raises(SpecError, match="no such file"):
        find_host("x.yaml")


def changed_profile(tmp_path: Path, old: str, new: str) -> Path:
    text = (HERE / "profiles" / "rathore2013.yaml").read_text()
    assert old in text
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(old, new))
    return file


def test_a_missing_cost_is_named_with_who_needs_it(tmp_path: Path) -> None:
    file = changed_profile(tmp_path, "  driver-send:", "  driver-sent:")
    host = find_host(file)
    with pytest.raises(SpecError) as error:
        host.path_of(ArmRouter("r", "native", "none"))
    assert str(error.value) == (
        f"profile {file}: costs: cost 'driver-send' is missing: stage send of path native needs "
        "it; accepted: an entry driver-send with frame_ns"
    )


def test_a_path_file_of_the_users_takes_the_place_of_ours(tmp_path: Path) -> None:
    text = (HERE / "paths" / "native.yaml").read_text()
    (tmp_path / "quick.yaml").write_text(text.replace("title: ", "title: mine, "))
    file = changed_profile(tmp_path, "host:\n", "paths: [quick.yaml]\nhost:\n")
    path = find_host(file).path_of(ArmRouter("r", "native", "none"))
    assert path.title.startswith("mine, ")


def test_what_has_no_path_file_is_not_supported() -> None:
    with pytest.raises(NotSupported, match="no path file for kind vm, path direct"):
        find_host(None).path_of(ArmRouter("r", "vm", "direct", "virtio"))


def test_profiles_round_trip() -> None:
    profile = find_host("rathore2013").profile
    assert ProfileData.model_validate(profile.model_dump(mode="json")) == profile
    assert profile.replaced({}) == profile

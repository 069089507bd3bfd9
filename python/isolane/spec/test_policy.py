"""Policies: what becomes of a good one, and properties of all."""

from __future__ import annotations

import contextlib
import io
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from isolane.errors import SpecError
from isolane.spec import (
    Load,
    NicEntry,
    RateLimit,
    VirtualFunction,
    build_policy,
    load_policy,
    parse_policy,
    policy_schema,
    policy_schema_text,
    policy_text,
)
from isolane.spec.explain import keys_at
from isolane.spec.policy_changes import with_changes
from isolane.spec.policy_models import IDENTITIES, POLICY_KEYS, PolicyFile

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "examples").glob("*.yaml"))

GOOD = """\
isolane: 1
name: edge
nics: {eth1: {rate: 10Gbps}, eth2: }
defaults: {cores: [1], cpu_weight: 50}
routers:
  vr1:
    netns: vr1
    interfaces: {eth0: eth1, eth1: eth2}
    cpu_weight: 200
    cpu_max: 50%
    rate_min: 200Mbps
    rate_max: {ingress: 100kpps, egress: [300Mbps, 1Mpps]}
    priority: 1
    link_weight: 2
    burst: 64kB
    forward: xdp
    queue: 200
  vr2: {vf: {pf: eth9, number: 3}, cores: [2, 0], rate_max: 2Gbps}
"""


@pytest.mark.parametrize("identity", ["qemu: 9", "process: 9", "libvirt: vm1"])
def test_a_machines_cpu_time_needs_no_nic(identity: str) -> None:
    keys = "cpu_weight: 5, cpu_max: 50%, cores: [0]"
    policy = parse_policy(f"isolane: 1\nname: a\nrouters: {{a: {{{identity}, {keys}}}}}\n")
    assert policy.routers["a"].is_guest
    assert policy.routers["a"].asks_for_frames() == ()


def test_values_are_read_and_defaults_merged() -> None:
    policy = parse_policy(GOOD)
    assert policy.nics["eth1"].rate_bps == 10e9
    assert policy.nics["eth2"].rate_bps is None
    one, two = policy.routers["vr1"], policy.routers["vr2"]
    assert (one.identity, two.identity) == (
        ("netns", "vr1"),
        ("vf", VirtualFunction.model_validate({"pf": "eth9", "number": 3})),
    )
    assert (one.cpu_weight, one.cpu_max, one.cores) == (200, 50.0, (1,))
    assert (one.rate_min, one.rate_min_bps) == (Load(200e6, "bps"), 200e6)
    assert one.rate_max.ingress == RateLimit(pps=100e3)
    assert one.rate_max.egress == RateLimit(pps=1e6, bps=300e6)
    assert (one.priority, one.link_weight, one.burst) == (1, 2, 64_000)
    assert (one.forward, one.queue) == ("xdp", 200)
    assert (two.cpu_weight, two.cores, two.rate_max.egress) == (50, (2, 0), RateLimit(bps=2e9))
    assert (two.priority, two.link_weight, two.forward, two.queue) == (3, 1, "kernel", None)
    assert (two.cpu_max, two.rate_min, two.rate_max.ingress, two.burst) == (None,) * 4


def test_nics_of_a_router_as_far_as_the_policy_tells() -> None:
    policy = parse_policy(GOOD)
    assert policy.nics_of("vr1") == ("eth1", "eth2")
    assert policy.nics_of("vr2") == ()
    one = "isolane: 1\nname: a\nnics: {e: }\nrouters: {r: {pid: 1}}"
    assert parse_policy(one).nics_of("r") == ("e",)
    assert parse_policy(one.replace("{e: }", "{e: , f: }")).nics_of("r") == ()


def test_frames_per_second_are_reserved_as_1518_byte_frames() -> None:
    text = "isolane: 1\nname: a\nnics: {e: {rate: 1Gbps}}\nrouters: {r: {pid: 1, rate_min: 10kpps}}"
    assert parse_policy(text).routers["r"].rate_min_bps == 10e3 * (1518 + 20) * 8
    with pytest.raises(SpecError, match=r"rate_min is 1\.23 Gbps on e; accepted: at most 1 Gbps"):
        parse_policy(text.replace("10kpps", "100kpps"))


def test_changes_are_read_as_on_the_command_line() -> None:
    one = parse_policy(GOOD).routers["vr1"]
    changes = {
        "cpu_weight": "300",
        "cores": "1,2",
        "rate_min": "250Mbps",
        "rate_max": "{egress: 1Gbps}",
        "cpu_max": "150%",
        "queue": "none",
    }
    changed = with_changes(one, changes)
    assert (changed.cpu_weight, changed.cores, changed.queue) == (300, (1, 2), None)
    assert (changed.rate_min_bps, changed.cpu_max) == (250e6, 150.0)
    assert (changed.rate_max.ingress, changed.rate_max.egress) == (None, RateLimit(bps=1e9))
    assert (changed.identity, changed.interfaces) == (one.identity, one.interfaces)
    assert with_changes(one, {"cores": "2"}).cores == (2,)
    assert with_changes(one, {"rate_max": "1Gbps,2Mpps"}).rate_max.egress == RateLimit(2e6, 1e9)
    assert one.cpu_weight == 200, "the original stays"


def test_a_change_may_not_contradict_the_other_routers() -> None:
    text = "isolane: 1\nname: a\nnics: {e: {rate: 1Gbps}}\nrouters:\n"
    text += "  r: {pid: 1, rate_min: 600Mbps}\n  s: {pid: 2}\n"
    policy = parse_policy(text)
    assert policy.with_changes("s", {"rate_min": "400Mbps"}).routers["s"].rate_min_bps == 400e6
    with pytest.raises(SpecError, match=r"s: rate_min \(r, s\) adds up to 1.1 Gbps on e"):
        policy.with_changes("s", {"rate_min": "500Mbps"})


def test_the_schema_in_the_repository_is_the_current_one() -> None:
    text = (ROOT / "schema" / "policy.json").read_text(encoding="utf-8")
    renew = "renew it: python -m isolane.spec policy > schema/policy.json"
    assert text == policy_schema_text(), renew


def test_every_key_is_described() -> None:
    schema = policy_schema()
    for model in (schema, *schema["$defs"].values()):
        assert model["additionalProperties"] is False
        for key, value in model["properties"].items():
            assert value.get("description"), f"{model['title']}.{key}"


def test_the_locations_of_keys_are_known() -> None:
    assert keys_at(("routers", "a", "rate_max"), PolicyFile) == ("ingress", "egress")
    assert keys_at(("nics", "eth0"), PolicyFile) == ("rate", "cores", "steer")


def test_a_policy_that_is_built_is_the_one_that_its_text_is_read_as() -> None:
    nics = {"in": NicEntry.model_construct(rate_bps=1e9, cores=(1,))}
    read = parse_policy(GOOD)
    routers = {
        name: router.in_netns(name, {"eth0": "in"})
        for name, router in read.routers.items()
        if not router.is_guest
    }
    built = build_policy("built", nics, routers, "a test")
    assert parse_policy(policy_text(built)) == built
    for name, router in built.routers.items():
        assert router.written() == read.routers[name].written()
        assert router.as_keys().model_dump(exclude_none=True, mode="json") == router.written()


def test_a_policy_that_is_built_may_not_contradict_itself() -> None:
    router = parse_policy(GOOD).routers["vr1"].in_netns("vr1", {"eth0": "out"})
    nics = {"in": NicEntry.model_construct(rate_bps=1e9)}
    with pytest.raises(SpecError, match=r"^arm a: .*leaves by .*out"):
        build_policy("built", nics, {"vr1": router}, "arm a")


def faults(document: Any) -> list[str]:
    # jsonschema comes with altair; it has no types of its own, hence not imported by name.
    validator = import_module("jsonschema").Draft202012Validator
    validator.check_schema(policy_schema())
    return [error.message for error in validator(policy_schema()).iter_errors(document)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_policies_are_valid(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=../schema/policy.json\n")
    load_policy(path)
    assert faults(YAML(typ="safe", pure=True).load(text)) == []


@pytest.mark.parametrize(
    "keys",
    [
        {"cpu_weight": 0},
        {"cpu_max": 50},
        {"rate_min": "5x"},
        {"rate_max": {"out": "5kpps"}},
        {"cores": []},
        {"burst": "1KB"},
        {"forward": "dpdk"},
        {"docker": "-v"},
        {"netns": "a b"},
    ],
)
def test_the_schema_refuses_what_an_editor_should_underline(keys: dict[str, Any]) -> None:
    good = {"isolane": 1, "name": "x", "routers": {"a": {"pid": 1}}}
    assert faults(good) == []
    assert faults(good | {"routers": {"a": {"pid": 1} | keys}}) != []


words = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True)
rates = st.integers(1, 10_000).map(lambda n: f"{n}kpps") | st.integers(1, 1000).map(
    lambda n: f"{n}Mbps"
)
limits = rates | st.tuples(st.integers(1, 9), st.integers(1, 9)).map(
    lambda n: [f"{n[0]}Gbps", f"{n[1]}.5Mpps"]
)
keys = st.fixed_dictionaries(
    {},
    optional={
        "cpu_weight": st.integers(1, 10_000),
        "cpu_max": st.integers(1, 100).map(lambda n: f"{n}%"),
        "cores": st.lists(st.integers(0, 63), min_size=1, max_size=3, unique=True),
        "rate_max": limits | st.fixed_dictionaries({}, optional={"ingress": limits}),
        "priority": st.integers(0, 7),
        "link_weight": st.integers(1, 1000),
        "burst": st.integers(2, 100_000).map(lambda n: f"{n}kB"),
        "forward": st.sampled_from(("kernel", "xdp")),
        "queue": st.integers(16, 250),
    },
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a valid policy as a mapping."""
    nics = draw(st.lists(words.map(lambda w: w[:15]), min_size=1, max_size=2, unique=True))
    routers = {}
    for number, name in enumerate(draw(st.lists(words, min_size=1, max_size=4, unique=True))):
        kind = draw(st.sampled_from(("netns", "docker", "pid", "vf", "incus")))
        identity: Any = {
            "netns": f"n{number}",
            "docker": f"c_{number}",
            "incus": f"m{number}",
            "pid": number + 1,
            "vf": {"pf": "p0", "number": number},
        }[kind]
        router = {kind: identity, **draw(keys)}
        if draw(st.booleans()):
            router["interfaces"] = {"eth0": draw(st.sampled_from(nics))}
        if kind == "incus" and draw(st.booleans()):
            router["mac"] = f"52:54:00:AB:00:{number:02x}"
        routers[name] = router
    links = {nic: draw(st.none() | st.just({"rate": "10Gbps"})) for nic in nics}
    defaults = draw(keys)
    return {"isolane": 1, "name": "p", "nics": links, "defaults": defaults, "routers": routers}


def text_of(document: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents())
def test_a_policy_is_the_same_after_it_was_written_and_read_again(document: Any) -> None:
    policy = parse_policy(text_of(document))
    assert tuple(policy.routers) == tuple(document["routers"])
    assert parse_policy(policy_text(policy)) == policy


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5000)
    | st.floats()
    | st.sampled_from(("1kpps", "50%", "x", "-", "/", "a b", "64kB", "", "none", "\n", "é")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from((*POLICY_KEYS, *IDENTITIES, "x")), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.sampled_from(tuple(PolicyFile.model_fields)), values), values)
def test_whatever_the_file_holds_ends_in_a_policy_or_a_message(document: Any, router: Any) -> None:
    for candidate in (
        document,
        {"isolane": 1, "name": "p", "nics": {"e": None}, "routers": {"r": router}},
    ):
        with contextlib.suppress(SpecError):
            parse_policy(text_of(candidate))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from((*POLICY_KEYS, "netns", "x")), st.text(max_size=12))
def test_whatever_is_set_ends_in_a_policy_or_a_message(key: str, value: str) -> None:
    with contextlib.suppress(SpecError):
        parse_policy(GOOD).with_changes("vr1", {key: value})

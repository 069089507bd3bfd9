"""Web requests in experiments: what is read, what does not go together."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, parse_experiment
from isolane.spec.web_models import format_size

TEXT = """
isolane: 1
name: web
traffic: {mode: http, object: 16KiB}
routers:
  - {name: lb, role: victim}
  - {name: other, role: aggressor, traffic: {object: 0B, keep_alive: true}}
load: {lb: 500rps, other: [0rps, 2.5krps]}
arms:
  - {name: one, path: bridge}
  - {name: bare, path: direct}
"""


def read(*changes: tuple[str, str]) -> Experiment:
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return parse_experiment(text)


def test_what_is_asked_for_and_how_often() -> None:
    found = read()
    assert parse_experiment(found.to_yaml()) == found
    assert found.web == ("lb", "other")
    lb, other = found.traffic_of("lb"), found.traffic_of("other")
    assert (lb.object_bytes, lb.keep_alive) == ((16 << 10,), False)
    assert (other.object_bytes, other.keep_alive) == ((0,), True)
    loads = [[str(router.load) for router in point.routers] for point in found.points()]
    assert loads == [["500rps", "0rps"], ["500rps", "2.5krps"]]
    assert [point.routers[1].load.to_pps(None, 64) for point in found.points()] == [0, 2500]
    assert not found.needs_capacity


@pytest.mark.parametrize(
    ("text", "size"),
    [("0B", 0), ("1B", 1), ("1kB", 1000), ("1KiB", 1024), ("64 KiB", 65536), ("16MiB", 1 << 24)],
)
def test_sizes_are_read_and_written_the_same(text: str, size: int) -> None:
    assert read(("object: 16KiB", f"object: {text}")).traffic.object_bytes == (size,)
    assert format_size(size) == text.replace(" ", "")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("object: 16KiB", "object: 1024", "1024 has no unit.*1KiB"),
        ("object: 16KiB", "object: 17MiB", "too large.*16MiB"),
        ("object: 16KiB", "object: many", "'many' is not the size of an object"),
        ("lb: 500rps", "lb: 500pps", "load 500pps of 'lb', which is asked for web objects.*500rps"),
        ("lb: 500rps", "lb: 0.5x", "load 0.5x of 'lb', which is asked for web objects"),
        ("lb: 500rps", "lb: max", "load max of 'lb', which is asked for web objects"),
        ("lb: 500rps", "lb: 1e9rps", "out of range.*10Mrps"),
        ("lb: 500rps", "lb: 64conn", "load 64conn of 'lb', a victim: slow answers would spare it"),
        ("0rps, 2.5krps", "0rps, 1.5conn", "out of range.*1conn to 8000conn"),
        ("0rps, 2.5krps", "0rps, 9000conn", "out of range"),
        ("object: 16KiB", "object: [0B, 1KiB, 2KiB]", "a list of 2 values beside traffic.object"),
        ("lb: 500rps", "lb: rps", "'rps' is not a rate of requests"),
        ("mode: http, object: 16KiB", "ip: 4", "load 500rps of 'lb', which is sent frames"),
        ("mode: http, ", "", "object without mode http"),
        ("{object: 0B, ", "{mode: forward, ", "keep_alive of 'other', whose mode is not http"),
        ("{object: 0B, keep_alive: true}", "{mode: echo}", "mode echo of 'other' beside http"),
        ("keep_alive: true}", "pattern: ramp}", "pattern ramp of 'other' with mode http"),
        ("keep_alive: true}", "pattern: fragments}", "nobody answers such frames"),
        ("path: direct", "path: isolane", "on path isolane with mode http in arm 'bare'"),
        ("path: direct", "kind: vm, path: tap", "vm 'lb' on path tap with mode http"),
        ("path: direct", "path: direct, policy: {lb: {cpu_weight: 2}}", "a policy of 'lb'"),
        ("name: lb,", "name: lb, services: {nat: true},", "services of router 'lb' with mode http"),
        ("arms:", "trial: {capture_points: true}\narms:", "trial.capture_points: capture points"),
        ("arms:", "trial: {capture: true}\narms:", "trial.capture: capture points with mode http"),
        ("object: 16KiB", "object: 16KiB, frame_size: 1518", "traffic.frame_size: frame_size with"),
        ("object: 16KiB", "object: 16KiB, line_rate: 1Gbps", "traffic.line_rate: line_rate with"),
        ("keep_alive: true}", "flows: 7}", "routers.1..traffic.flows: flows with mode http"),
        ("arms:", "capacity: {arm: bare}\narms:", "capacity: capacity with mode http"),
        ("arms:", "objectives: [lb throughput >= 5kpps]\narms:", "throughput.*with mode http"),
    ],
)
def test_what_is_refused(old: str, new: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        read((old, new))


def test_sizes_are_swept_with_the_loads_and_tell_points_apart() -> None:
    found = read(("object: 16KiB", "object: [0B, 64KiB]"))
    assert parse_experiment(found.to_yaml()) == found
    labels = [point.label for point in found.points()]
    assert labels == ["objects of 0B, other 0rps", "objects of 64KiB, other 2.5krps"]
    sizes = [[router.object_bytes for router in point.routers] for point in found.points()]
    assert sizes == [[0, 0], [64 << 10, 0]]


def test_a_router_can_have_sizes_of_its_own_and_a_closed_loop() -> None:
    found = read(("object: 0B,", "object: [1kB, 2kB],"), ("[0rps, 2.5krps]", "64conn"))
    assert [point.label for point in found.points()] == ["other 1kB", "other 2kB"]
    loads = [point.routers[1].load for point in found.points()]
    assert [str(load) for load in loads] == ["64conn", "64conn"]
    assert loads[0].to_pps(None, 64) == 0


def test_a_configuration_is_an_arms_or_a_routers_own() -> None:
    found = read(
        ("name: lb,", "name: lb, haproxy: mine.cfg,"),
        ("path: direct", "path: direct, haproxy: a.cfg"),
    )
    one, bare = found.resolved_arms()
    assert [arm.router("lb").haproxy for arm in (one, bare)] == ["mine.cfg", "a.cfg"]
    assert [arm.router("other").haproxy for arm in (one, bare)] == [None, "a.cfg"]
    forward = TEXT.replace("mode: http, object: 16KiB", "ip: 4").replace("rps", "pps")
    forward = forward.replace(", traffic: {object: 0B, keep_alive: true}", "")
    for old, told in (
        ("name: lb,", "haproxy of 'lb', whose mode is not http"),
        ("name: one,", "haproxy of arm 'one' without mode http"),
    ):
        with pytest.raises(SpecError, match=told):
            parse_experiment(forward.replace(old, f"{old} haproxy: mine.cfg,"))


def test_a_closed_loop_is_divided_evenly_or_refused() -> None:
    group = ("name: other, ", "name: other, count: [2, 4], ")
    found = read(group, ("[0rps, 2.5krps]", "8conn"))
    assert [str(point.routers[1].load) for point in found.points()] == ["4conn", "2conn"]
    with pytest.raises(SpecError, match="load 6conn of 'other', divided among 4; accepted: a mult"):
        read(group, ("[0rps, 2.5krps]", "6conn"))


def test_a_router_may_be_called_traffic() -> None:
    with pytest.raises(SpecError, match=r"load.traffic.*'fast'"):
        parse_experiment(TEXT.replace("lb", "traffic").replace("traffic: 500rps", "traffic: fast"))

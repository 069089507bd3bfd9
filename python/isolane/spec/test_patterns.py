"""Traffic patterns: how they are read, swept, written, and refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, parse_experiment
from isolane.spec.patterns import PLAIN, Pattern, Timing, read_pattern
from isolane.spec.problems import Refused

TEXT = """\
isolane: 1
name: neighbours
traffic: {{ip: {ip}, frame_size: 84}}
routers:
  - {{name: victim, path: direct, role: victim{victim}}}
  - {{name: noise, path: direct, role: aggressor, traffic: {{pattern: {pattern}}}}}
load: {{victim: 0.2x, noise: {load}}}
"""


def experiment(pattern: str, load: str = "1x", victim: str = "", ip: int = 4) -> Experiment:
    return parse_experiment(TEXT.format(pattern=pattern, load=load, victim=victim, ip=ip))


@pytest.mark.parametrize(
    ("written", "read", "ends"),
    [
        ("constant", PLAIN, False),
        ("new-flows", Pattern(("new-flows",)), False),
        ("fragments", Pattern(("fragments",)), False),
        ("to-router", Pattern(("to-router",)), True),
        ("no-route", Pattern(("no-route",)), True),
        ("ttl-expired + new-flows", Pattern(("new-flows", "ttl-expired")), True),
        ("poisson", Pattern(timing=Timing("poisson")), False),
        ("ramp+no-route", Pattern(("no-route",), Timing("ramp")), True),
        ("from 1500ms", Pattern(timing=Timing("from", from_ns=1_500_000_000)), False),
        ("from 100us+no-route", Pattern(("no-route",), Timing("from", from_ns=100_000)), True),
        ("bursts", Pattern(timing=Timing("bursts", 1_000_000, 4_000_000)), False),
        ("bursts 200us/0.5s", Pattern(timing=Timing("bursts", 200_000, 500_000_000)), False),
        (
            "fragments+bursts 2ms / 5ms",
            Pattern(("fragments",), Timing("bursts", 2_000_000, 5_000_000)),
            False,
        ),
    ],
)
def test_words_are_read_and_written(written: str, read: Pattern, *, ends: bool) -> None:
    assert read_pattern(written) == read
    assert read_pattern(str(read)) == read
    assert read.ends == ends


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("fragmets", r"pattern 'fragmets' is not known; .*\(did you mean fragments\?\)"),
        ("new-flows+", "pattern '' is not known"),
        ("constant+no-route", "pattern 'constant' is not known"),
        ("no-route+no-route", "pattern 'no-route' is given twice"),
        ("no-route+ttl-expired", "patterns no-route, ttl-expired together"),
        ("poisson+bursts", "patterns poisson, bursts 1ms/4ms together"),
        ("bursts 1ms", "'bursts 1ms' is not how long bursts are"),
        ("bursts 4ms/1ms", "'bursts 4ms/1ms' is out of range; accepted: bursts ON/PERIOD such as"),
        ("bursts 1us/1ms", "out of range"),
        ("bursts 1ms/2s", "out of range"),
        ("bursts 1/2ms", "unit"),
        ("from", "'from' does not say from when on"),
        ("from 0s", "out of range; accepted: from TIME such as from 2s"),
        ("from 2h", "out of range"),
        ("from 5", "unit"),
        ("from 1s+ramp", "patterns from 1s, ramp together"),
        (7, "pattern 7 is not known"),
        (None, "is not known"),
    ],
)
def test_what_is_wrong_is_named(value: object, words: str) -> None:
    with pytest.raises(Refused, match=words):
        read_pattern(value)


def test_a_list_is_swept_with_the_loads() -> None:
    it = experiment("[constant, constant, new-flows+no-route]", "[0x, 1x, 1x]")
    assert [p.label for p in it.points()] == ["noise 0x", "noise 1x", "noise 1x new-flows+no-route"]
    patterns = [point.group("noise")[0].pattern for point in it.points()]
    assert patterns == [PLAIN, PLAIN, Pattern(("new-flows", "no-route"))]
    assert {point.group("victim")[0].pattern for point in it.points()} == {PLAIN}
    assert parse_experiment(it.to_yaml()) == it


def test_a_single_one_holds_at_every_point_and_is_no_part_of_its_name() -> None:
    it = experiment("fragments", "[0x, 1x]")
    assert [p.label for p in it.points()] == ["noise 0x", "noise 1x"]
    assert {str(point.group("noise")[0].pattern) for point in it.points()} == {"fragments"}


def test_patterns_alone_are_a_sweep() -> None:
    it = experiment("[constant, fragments]")
    assert [p.label for p in it.points()] == ["noise 1x", "noise 1x fragments"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pattern": "[constant, fragments]", "load": "[0x, 1x, 2x]"}, "a list of 3 values"),
        ({"victim": ", traffic: {pattern: no-route}"}, "no-route of 'victim', a victim"),
        ({"victim": "", "pattern": "fragments", "ip": 6}, "fragments of 'noise' with IPv6"),
        ({"pattern": "from 500ms"}, "from 500ms of 'noise' with a window of 500ms: it would send"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, str], words: str) -> None:
    arguments = {"pattern": "constant", **change}
    with pytest.raises(SpecError, match=words):
        experiment(**arguments)  # type: ignore[arg-type]


EXTERNAL = """\
isolane: 1
name: there
routers:
  - name: edge
    kind: external
    traffic: {pattern: no-route}
    external:
      ingress: {interface: eth1, mac: "52:54:00:00:00:01", address: 192.0.2.1/24}
      egress: {interface: eth2, mac: "52:54:00:00:00:02", address: 198.51.100.1/24}
  - name: other
    kind: external
    external:
      ingress: {interface: eth1, mac: "52:54:00:00:00:03", address: 192.0.2.129/25}
      egress: {interface: eth3, mac: "52:54:00:00:00:04", address: 203.0.113.1/31}
load: {edge: 1kpps, other: 1kpps}
"""


def test_an_external_router_is_sent_nothing_that_it_may_pass_on_to_others() -> None:
    with pytest.raises(SpecError, match="no-route of 'edge', an external router"):
        parse_experiment(EXTERNAL)
    it = parse_experiment(EXTERNAL.replace("no-route", "ttl-expired"))
    assert it.points()[0].group("edge")[0].pattern.ends

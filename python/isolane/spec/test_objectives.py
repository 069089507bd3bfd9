"""Objectives: how they are read, written, and refused."""

from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, parse_experiment
from isolane.spec.objectives import read_objective
from isolane.spec.problems import Refused

TEXT = """\
isolane: 1
name: gate
routers:
  - {name: victim, role: victim}
  - {name: noise, role: aggressor, count: 2}
load: {victim: 0.2x, noise: [0x, 1x]}
arms: [{name: bridge, path: bridge}, {name: wires, path: direct}]
objectives: OBJECTIVES
"""


def experiment(*objectives: str) -> Experiment:
    listed = "[" + ", ".join(f'"{one}"' for one in objectives) + "]"
    return parse_experiment(TEXT.replace("OBJECTIVES", listed))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("victim p99 <= 2x alone", ("victim", "p99", True, 2.0, True, ())),
        ("victim delivered >= 99.9 %", ("victim", "delivered", False, 0.999, False, ())),
        ("victim p50<=500us on wires", ("victim", "p50", True, 500_000.0, False, ("wires",))),
        (
            "noise-1 throughput >= 0.1Mpps on bridge, wires",
            ("noise-1", "throughput", False, 100_000.0, False, ("bridge", "wires")),
        ),
        ("noise  loss  <=  0%", ("noise", "loss", True, 0.0, False, ())),
    ],
)
def test_it_is_read_and_written(text: str, read: tuple[object, ...]) -> None:
    found = read_objective(text)
    fields = (found.router, found.metric, found.at_most, found.value, found.relative, found.arms)
    assert fields[:3] + fields[4:] == read[:3] + read[4:]
    assert found.value == pytest.approx(read[3])
    assert read_objective(found.text) == found
    it = experiment(text)
    assert it.objectives == (found,)
    assert parse_experiment(it.to_yaml()) == it


def test_it_holds_up_to_its_value() -> None:
    highest, lowest = read_objective("victim p99 <= 1ms"), read_objective("victim delivered >= 99%")
    assert [highest.holds(ns) for ns in (9e5, 1e6, 1.1e6)] == [True, True, False]
    assert [lowest.holds(share) for share in (0.98, 0.99, 1.0)] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("victim", "is not an objective"),
        ("victim p99 < 1ms", "is not an objective"),
        ("victim p98 <= 1ms", r"metric 'p98' is not known; .*\(did you mean p9"),
        ("victim delivered >= 99", "is not a share"),
        ("victim delivered >= 101%", "is not a share"),
        ("victim throughput >= 1Gbps", "is no rate of frames"),
        ("victim throughput >= 1x", "is no rate of frames"),
        ("victim p50 <= 2x alone", "for p50"),
        ("victim p99 <= 0x alone", "for p99"),
        ("victim p99 <= soon", "soon"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises((Refused, SpecError), match=words):
        read_objective(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("victm delivered >= 99%", r"unknown router 'victm'; .*\(did you mean victim\?\)"),
        ("victim delivered >= 99% on wire", r"unknown arm 'wire'; .*\(did you mean wires\?\)"),
        ("noise retained >= 99%", "retained of 'noise' against that alone"),
        ("noise p99 <= 2x alone", "p99 of 'noise' against that alone"),
    ],
)
def test_what_does_not_fit_the_experiment_is_named(text: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        experiment(text)


def test_frames_that_end_in_a_router_have_no_figure() -> None:
    text = TEXT.replace("count: 2", "traffic: {pattern: no-route}")
    with pytest.raises(SpecError, match="none of whose frames comes back"):
        parse_experiment(text.replace("OBJECTIVES", '["noise loss <= 1%"]'))

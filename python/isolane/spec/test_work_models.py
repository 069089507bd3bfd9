from __future__ import annotations

import pytest

from isolane.errors import SpecError
from isolane.spec import Experiment, parse_experiment

TEXT = """\
isolane: 1
name: busy
routers:
  - {{name: victim, path: direct, role: victim}}
  - {{name: noise, {noise}, role: aggressor, work: {work}}}
load: {{victim: 0.2x, noise: {load}}}
{more}
"""


def experiment(
    work: str, load: str = "0x", noise: str = "path: direct", more: str = ""
) -> Experiment:
    return parse_experiment(TEXT.format(work=work, load=load, noise=noise, more=more))


def test_work_is_swept_and_written() -> None:
    it = experiment("[none, cpu, cpu]", "[0x, 0x, 1x]")
    assert [p.label for p in it.points()] == [
        "noise 0x",
        "noise 0x, work cpu",
        "noise 1x, work cpu",
    ]
    assert [p.group("noise")[0].work for p in it.points()] == ["none", "cpu", "cpu"]
    assert {p.group("victim")[0].work for p in it.points()} == {"none"}
    assert parse_experiment(it.to_yaml()) == it


def test_work_alone_is_a_sweep_and_a_single_one_holds_at_every_point() -> None:
    assert [p.label for p in experiment("[none, cpu]").points()] == [
        "noise 0x",
        "noise 0x, work cpu",
    ]
    alone = TEXT.replace("role: victim", "role: router")
    it = parse_experiment(alone.format(work="cpu", load="[0x, 1x]", noise="path: direct", more=""))
    assert [p.label for p in it.points()] == ["noise 0x", "noise 1x"]
    assert {p.group("noise")[0].work for p in it.points()} == {"cpu"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"work": "busy"}, "work 'busy' is not known; accepted: none, cpu"),
        ({"work": "[none, cpu]", "load": "[0x, 1x, 2x]"}, "a list of 3 values"),
        (
            {"work": "cpu", "noise": "kind: native"},
            "work of 'noise', whose kind is native: Isolane",
        ),
        (
            {"work": "cpu", "more": "arms: [{name: a, kind: native}]"},
            "work of 'noise' in arm 'a', whose kind is native",
        ),
        (
            {"work": "cpu", "noise": "kind: vm, hypervisor: tcg, path: tap, image: x.qcow2"},
            "which starts from an image: Isolane starts nothing in it",
        ),
        (
            {"work": "[none, cpu]", "load": "1rps", "more": "traffic: {mode: http}"},
            "work of 'noise' with mode http",
        ),
    ],
)
def test_what_cannot_work_is_named(arguments: dict[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        experiment(**arguments)


@pytest.mark.parametrize(
    ("role", "work", "words"),
    [
        ("aggressor", "cpu", "an aggressor, at each point: .*; accepted: a list with none in it"),
        ("aggressor", "[cpu, cpu]", "an aggressor, at each point"),
        ("router", "[none, cpu]", "which is no aggressor, that is swept"),
        ("victim", "[none, cpu]", "a victim, that is swept"),
    ],
)
def test_work_that_tells_nothing_of_a_victim_is_refused(role: str, work: str, words: str) -> None:
    text = TEXT.replace("role: aggressor", f"role: {role}")
    with pytest.raises(SpecError, match=words):
        parse_experiment(text.format(work=work, load="0x", noise="path: direct", more=""))


@pytest.mark.parametrize("role", ["router", "victim"])
def test_work_at_each_point_is_no_attack(role: str) -> None:
    text = TEXT.replace("role: aggressor", f"role: {role}")
    it = parse_experiment(text.format(work="cpu", load="[0x, 1x]", noise="path: direct", more=""))
    assert [point.group("noise")[0].work for point in it.points()] == ["cpu", "cpu"]

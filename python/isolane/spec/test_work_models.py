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
    it = experiment("cpu", "[0x, 1x]")
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

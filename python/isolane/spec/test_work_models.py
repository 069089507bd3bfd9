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
VM = "kind: vm, hypervisor: uml, path: tap"


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


def test_a_virtual_machine_has_a_disk() -> None:
    it = experiment("[none, disk, cpu]", noise=VM)
    assert [p.group("noise")[0].work for p in it.points()] == ["none", "disk", "cpu"]
    assert [p.label for p in it.points()][1] == "noise 0x, work disk"


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
        ({"work": "busy"}, "work 'busy' is not known; accepted: none, cpu, disk"),
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
            {"work": "[none, cpu, disk]"},
            "work of 'noise', a container: it has no disk of its own; accepted: work cpu, or a vm",
        ),
        (
            {
                "work": "[none, disk]",
                "noise": VM,
                "more": "arms: [{name: a, kind: container, path: bridge}]",
            },
            "work of 'noise' in arm 'a', a container: it has no disk",
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


TIMED = """\
isolane: 1
name: timed
routers:
  - {{name: sender, path: direct, role: {role}}}
  - {{name: noise, path: direct, {work}}}
load: {{sender: 1kpps, noise: 0pps}}
trial: {{duration: 4s}}
"""


def timed(work: str, role: str = "router") -> Experiment:
    return parse_experiment(TIMED.format(work=work, role=role))


@pytest.mark.parametrize(
    ("times", "begin_ns", "end_ns"),
    [
        ("work_from: 1s, work_until: 3s", 1_000_000_000, 3_000_000_000),
        ("work_from: 500ms", 500_000_000, None),
        ("work_until: 4s", None, 4_000_000_000),
    ],
)
def test_work_has_times_in_the_window(times: str, begin_ns: int | None, end_ns: int | None) -> None:
    it = timed(f"work: cpu, {times}")
    (noise,) = it.points()[0].group("noise")
    assert (noise.work, noise.work_from_ns, noise.work_until_ns) == ("cpu", begin_ns, end_ns)
    (sender,) = it.points()[0].group("sender")
    assert (sender.work_from_ns, sender.work_until_ns) == (None, None)
    assert parse_experiment(it.to_yaml()) == it


@pytest.mark.parametrize(
    ("work", "role", "words"),
    [
        ("work_from: 1s", "router", "work_from: 'noise' has no work; accepted: a router with work"),
        ("work: cpu, work_until: 5s", "router", "work_until: work of 'noise' from 0 ns until 5 s"),
        ("work: cpu, work_from: 4s", "router", "from 4 s until 4 s; accepted: times within the"),
        ("work: cpu, work_from: 2s, work_until: 1s", "router", "window of 4 s, one after the othe"),
        ("work: cpu, work_until: 0s", "router", "from 0 ns until 0 ns"),
        ("work: cpu, work_until: 1s", "victim", "in a part of the window: nothing tells what it"),
    ],
)
def test_times_of_work_that_cannot_be(work: str, role: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        timed(work, role)

"""What a search looks at."""

from __future__ import annotations

from isolane.run.search import subjects_of
from isolane.spec import parse_experiment

LATE = """\
isolane: 1
name: late
routers:
  - {name: one, path: direct}
  - {name: two, path: direct, traffic: {pattern: from 100ms+fragments}}
  - {name: three, path: direct, traffic: {pattern: from 200ms+fragments}}
load: {one: 1kpps, two: 1kpps, three: 1kpps}
"""


def test_a_search_sends_from_the_beginning_and_knows_late_routers_as_the_same() -> None:
    spec = parse_experiment(LATE)
    alone = [subject.routers[0] for subject in subjects_of(spec)]
    assert [(one.name, str(one.pattern)) for one in alone] == [
        ("one", "constant"),
        ("two", "fragments"),
    ]
    (named,) = subjects_of(spec, ["three"])
    (together,) = subjects_of(spec, together=True)
    told = [[str(router.pattern) for router in one.routers] for one in (named, together)]
    assert told == [["fragments"], ["constant", "fragments", "fragments"]]


def test_what_the_generator_cannot_send_is_minded_whatever_a_router_is_otherwise() -> None:
    spec = parse_experiment(LATE.replace("name: two,", "name: two, role: aggressor,"))
    for together in (True, False):
        routers = [router for one in subjects_of(spec, together=together) for router in one.routers]
        assert {router.role for router in routers} == {"router"}


def test_a_search_has_routers_that_do_nothing_besides() -> None:
    spec = parse_experiment(LATE.replace("name: two,", "name: two, work: cpu,"))
    for together in (True, False):
        routers = [router for one in subjects_of(spec, together=together) for router in one.routers]
        assert {router.work for router in routers} == {"none"}

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from isolane.analysis.attempts import Key
from isolane.run.schedule import Block, blocks
from isolane.spec import Experiment, parse_experiment


def everything(_key: Key) -> bool:
    return True


def experiment(arms: int = 3, loads: int = 4, repeats: int = 3, seed: int = 1) -> Experiment:
    return parse_experiment(
        f"""\
isolane: 1
name: order
routers: [{{name: one, path: direct}}, {{name: two, path: direct}}]
load: {{one: 1kpps, two: [{", ".join(f"{i + 1}kpps" for i in range(loads))}]}}
arms: [{", ".join(f"{{name: a{i}, path: direct}}" for i in range(arms))}]
trial: {{repeats: {repeats}, seed: {seed}}}
"""
    )


def growing(repeats: int = 2) -> Experiment:
    return parse_experiment(
        f"""\
isolane: 1
name: growing
routers: [{{name: vr, path: direct, count: [4, 1, 2]}}]
load: {{vr: [1kpps, 2kpps, 3kpps]}}
trial: {{repeats: {repeats}}}
"""
    )


def keys(found: list[Block]) -> list[Key]:
    return [task.key for block in found for task in block.tasks]


def every(found: Experiment) -> set[Key]:
    return {
        ("measure", arm.name, point.index, repeat)
        for arm in found.resolved_arms()
        for point in found.points()
        for repeat in range(found.trial.repeats)
    }


def test_every_trial_comes_once_and_rounds_do_not_mix() -> None:
    found = experiment()
    order = keys(list(blocks(found, everything)))
    assert len(order) == len(set(order))
    assert set(order) == every(found)
    assert [repeat for *_, repeat in order] == sorted(repeat for *_, repeat in order)


def test_arms_and_points_come_in_another_order_each_round() -> None:
    order = keys(list(blocks(experiment(arms=5, loads=6, repeats=4), everything)))
    rounds = [tuple(key[1:3] for key in order if key[3] == repeat) for repeat in range(4)]
    assert len(set(rounds)) == 4


def test_the_seed_decides_the_order() -> None:
    first, again, other = (
        keys(list(blocks(experiment(seed=seed), everything))) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@given(st.sets(st.integers(0, 35)))
def test_a_resumed_run_keeps_the_order_of_what_is_left(done: set[int]) -> None:
    found = experiment()
    order = keys(list(blocks(found, everything)))
    finished = {order[i] for i in done}
    left = list(blocks(found, lambda key: key not in finished))
    assert keys(left) == [key for key in order if key not in finished]
    assert all(block.tasks for block in left), "a bench is built for nothing"


def test_one_bench_serves_points_of_the_same_routers_only() -> None:
    found = list(blocks(growing(), everything))
    assert len(found) == 6, "three numbers of routers in two rounds"
    for block in found:
        for task in block.tasks:
            assert task.point.routers[0].name == block.routers[0].name
            assert len(task.point.routers) == len(block.routers)
    assert len(list(blocks(experiment(), everything))) == 9, "an arm in a round is one bench"


def test_invocations_are_the_rounds_over_again_numbered_on() -> None:
    found = experiment(repeats=2)
    tasks = [task for block in blocks(found, everything, 3) for task in block.tasks]
    assert keys(list(blocks(found, everything, 3)))[: len(every(found))] == keys(
        list(blocks(found, everything))
    )
    assert {task.repeat: task.invocation for task in tasks} == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}
    assert len({task.key for task in tasks}) == len(tasks) == 3 * len(every(found))
    for block in blocks(found, everything, 3):
        assert len({task.repeat for task in block.tasks}) == 1, "a test bed serves one round only"


def test_numbers_of_routers_come_in_any_order() -> None:
    found = growing(repeats=40)
    every = list(blocks(found, everything))
    orders = [
        tuple(len(block.routers) for block in every if block.tasks[0].repeat == n)
        for n in range(40)
    ]
    assert set(orders) == set(permutations((1, 2, 4))), "40 rounds, 6 orders"


def test_a_resumed_run_keeps_the_order_of_router_counts() -> None:
    found = growing()
    order = keys(list(blocks(found, everything)))
    for finished in range(len(order)):
        left = keys(list(blocks(found, set(order[finished:]).__contains__)))
        assert left == order[finished:]

"""What the pacemaker looks after follows from the policy's cores."""

from __future__ import annotations

from isolane.enforce.pacemaker_work import PacemakerWork
from isolane.spec.policy import parse_policy

POLICY = """
isolane: 1
name: p
nics: {eth0: {cores: [1]}}
routers:
  a: {netns: a, cores: [1]}
  b: {netns: b, cores: [2]}
"""


def _gathered() -> PacemakerWork:
    return PacemakerWork(
        nics={"eth0": [10]}, threads={"a": [20], "b": [30]}, queues={"a": [0], "b": [1]}
    )


def test_the_core_of_a_nic_has_all_routers_and_others_have_their_own() -> None:
    policy = parse_policy(POLICY)
    a, b = {"threads": [20], "queues": [0]}, {"threads": [30], "queues": [1]}
    assert _gathered().as_json(policy, 7) == {
        "table": 7,
        "cores": [
            {"core": 1, "nic_threads": [10], "routers": [a, b], "machines": []},
            {"core": 2, "nic_threads": [], "routers": [b], "machines": []},
        ],
    }


def test_a_virtual_machine_is_looked_after_on_its_own_cores() -> None:
    policy = parse_policy(POLICY)
    gathered = PacemakerWork(machines={"b": "/b/tasks", "a": "/a/tasks"})
    assert gathered.as_json(policy, None) == {
        "table": None,
        "cores": [
            {"core": 1, "nic_threads": [], "routers": [], "machines": ["/a/tasks"]},
            {"core": 2, "nic_threads": [], "routers": [], "machines": ["/b/tasks"]},
        ],
    }


def test_without_threads_on_known_cores_there_is_nothing_to_do() -> None:
    policy = parse_policy(POLICY)
    assert PacemakerWork().as_json(policy, None) is None


def test_the_core_of_a_back_end_has_none_unless_a_nic_is_polled_there() -> None:
    policy = parse_policy(POLICY)
    found = _gathered()
    found.back_ends = {1, 2}
    work = found.as_json(policy, 7)
    assert work is not None
    assert [core["core"] for core in work["cores"]] == [1]
    found.nics = {}
    assert found.as_json(policy, 7) is None

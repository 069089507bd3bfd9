"""Engines by what they really answered (recorded). Those of this host: test_engines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isolane.enforce.find import containers, external_tools
from isolane.enforce.find.absent import Absent

# Docker 28.2.2 asking a daemon 20.10.24; Podman 4.3.1; lxc-info 5.0.2: recorded on Debian 12.
DOCKER_RUNS = (
    '{"Status":"running","Running":true,"Paused":false,"Restarting":false,"OOMKilled":false,'
    '"Dead":false,"Pid":19852,"ExitCode":0,"Error":"",'
    '"StartedAt":"2026-11-22T00:18:47.863958118Z","FinishedAt":"0001-01-01T00:00:00Z"}\n'
)
DOCKER_ENDED = (
    '{"Status":"exited","Running":false,"Paused":false,"Restarting":false,"OOMKilled":false,'
    '"Dead":false,"Pid":0,"ExitCode":137,"Error":"",'
    '"StartedAt":"2026-11-22T00:18:47.863958118Z","FinishedAt":"2026-11-22T00:18:48.125007102Z"}\n'
)
PODMAN_RUNS = (
    '{"OciVersion":"1.0.2-dev","Status":"running","Running":true,"Paused":false,'
    '"Restarting":false,"OOMKilled":false,"Dead":false,"Pid":22694,"ConmonPid":22684,'
    '"ExitCode":0,"Error":"","StartedAt":"2026-11-22T00:20:24.019469659Z",'
    '"FinishedAt":"0001-01-01T00:00:00Z","Health":{"Status":"","FailingStreak":0,"Log":null},'
    '"CgroupPath":"/libpod_parent/libpod-1a5dc049042655fc0c0cb27ab7da4731",'
    '"CheckpointedAt":"0001-01-01T00:00:00Z","RestoredAt":"0001-01-01T00:00:00Z"}\n'
)
ID = "1a5dc049042655fc0c0cb27ab7da4731d1a3e2c5bb0a1d2f3c4b5a6978877665"


def told(state: str, name: str = "r1") -> str:
    """What matters of an engine's answer, with a recorded state."""
    return f'[{{"Id":"{ID}","Name":"{name}","State":{state.strip()}}}]\n'


PODMAN_CREATED = PODMAN_RUNS.replace("running", "created").replace("22694", "0")
# The shape of GET /1.0/instances/NAME/state in the API's own documentation.
INCUS_STATE = {
    "status": "Running",
    "status_code": 103,
    "pid": 7281,
    "processes": 16,
    "network": {
        "eth0": {"hwaddr": "00:16:3e:0c:ee:dd", "host_name": "tapa1b2c3", "type": "broadcast"},
        "lo": {"hwaddr": "", "host_name": "", "type": "loopback"},
    },
}


class Tool:
    """A program on the path that notes how it was called and answers with a recording."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str, answers: list[str], said: str = "", status: int = 0) -> None:
        for number, answer in enumerate(answers):
            (self._folder / f"{name}.{number}").write_text(answer)
        log = self._folder / f"{name}.calls"
        program = self._folder / name
        program.write_text(
            "#!/bin/sh\n"
            f'n=$(cat "{log}" 2>/dev/null | wc -l)\n'
            f'(IFS="|"; printf "%s\\n" "$*") >>"{log}"\n'
            f'cat "{self._folder}/{name}.$n"\n'
            f"printf '%s' '{said}' >&2\nexit {status}\n"
        )
        program.chmod(0o755)

    def calls(self, name: str) -> list[str]:
        return (self._folder / f"{name}.calls").read_text().splitlines()


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Tool(tmp_path)


@pytest.mark.parametrize(
    ("engine", "answer", "pid"), [("docker", DOCKER_RUNS, 19852), ("podman", PODMAN_RUNS, 22694)]
)
def test_a_running_container_has_its_process(
    tool: Tool, engine: str, answer: str, pid: int
) -> None:
    for name in ("r1", "/r1"):  # Podman's, Docker's
        tool(engine, [told(answer, name)] * 2)
        assert containers.ENGINES[engine]("r1") == pid
    assert tool.calls(engine)[0] == "inspect|--type|container|--|r1"


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_the_beginning_of_an_id_is_no_name(tool: Tool, engine: str) -> None:
    state = DOCKER_RUNS if engine == "docker" else PODMAN_RUNS
    tool(engine, [told(state, "other")] * 3)
    for name in ("1", ID[:11]):
        reason = f"there is no .* container {name}; {engine} takes it for the beginning of the ID"
        with pytest.raises(Absent, match=f"{reason} of other"):
            containers.ENGINES[engine](name)
    assert containers.ENGINES[engine](ID[:12]) > 0  # as the engine lists it


@pytest.mark.parametrize(
    ("engine", "answer", "reason"),
    [
        ("docker", told(DOCKER_ENDED), "Docker container r1 does not run (it is exited)"),
        ("podman", told(PODMAN_CREATED), "Podman container r1 does not run (it is created)"),
        ("docker", "null\n", "Docker container r1 does not run (it is in an unknown state)"),
        ("docker", told("null"), "Docker container r1 does not run (it is in an unknown state)"),
        ("docker", "oops\n", "Docker container r1: docker answered something that is not JSON"),
        ("lxc", "\n", "LXC container r1 does not run"),
        ("lxc", "-1\n", "LXC container r1 does not run"),
    ],
)
def test_one_that_does_not_run_says_so(tool: Tool, engine: str, answer: str, reason: str) -> None:
    tool({"lxc": "lxc-info"}.get(engine, engine), [answer])
    with pytest.raises(Absent) as absent:
        containers.ENGINES[engine]("r1")
    assert str(absent.value) == reason


@pytest.mark.parametrize(
    ("engine", "said", "reason"),
    [
        (
            "docker",
            "Error response from daemon: No such container: r1\n",
            "Docker container r1: docker says: Error response from daemon: No such container: r1",
        ),
        (
            "podman",
            "Error: inspecting object: no such container r1\n",
            "Podman container r1: podman says: inspecting object: no such container r1",
        ),
        ("lxc", "r1 doesnt exist\n", "LXC container r1: lxc-info says: r1 doesnt exist"),
        ("docker", "", "Docker container r1: docker says: exit status 1"),
    ],
)
def test_a_refusal_is_passed_on(tool: Tool, engine: str, said: str, reason: str) -> None:
    tool({"lxc": "lxc-info"}.get(engine, engine), [""], said, 1)
    with pytest.raises(Absent) as absent:
        containers.ENGINES[engine]("r1")
    assert str(absent.value) == reason


def test_lxc_is_asked_for_the_process_alone(tool: Tool) -> None:
    tool("lxc-info", ["16449\n"])
    assert containers.lxc("r1") == 16449
    assert tool.calls("lxc-info") == ["--no-humanize|--pid|--name|r1"]


@pytest.mark.parametrize(("kind", "machine"), [("container", False), ("virtual-machine", True)])
def test_incus_tells_machines_from_containers(tool: Tool, kind: str, *, machine: bool) -> None:
    tool("incus", [json.dumps(INCUS_STATE), json.dumps({"name": "r1", "type": kind})])
    found = containers.incus("r1")
    assert (found.pid, found.machine) == (7281, machine)
    assert found.macs == {"tapa1b2c3": "00:16:3e:0c:ee:dd"}
    path = "query|/1.0/instances/r1"
    assert tool.calls("incus") == [f"{path}/state", path]


def test_an_incus_instance_that_is_stopped_says_so(tool: Tool) -> None:
    tool("incus", [json.dumps({"status": "Stopped", "pid": 0, "network": None})])
    with pytest.raises(Absent, match=r"Incus instance r1 does not run \(it is Stopped\)"):
        containers.incus("r1")


@pytest.mark.parametrize("name", ["$(touch x)", "a;touch x", "`touch x`", "a b", "--help", "../x"])
def test_a_name_reaches_no_shell(tool: Tool, tmp_path: Path, name: str) -> None:
    # Policies refuse such names; this holds even if one got through.
    tool("docker", [told(DOCKER_RUNS, name)])
    containers.docker(name)
    assert tool.calls("docker")[0].endswith(f"|--|{name}")
    assert not (tmp_path / "x").exists()
    tool("incus", [json.dumps(INCUS_STATE), "{}"])
    containers.incus(name)
    assert "../" not in tool.calls("incus")[0]


@pytest.mark.parametrize("engine", sorted(containers.ENGINES))
def test_a_tool_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Absent, match=r"cannot be looked for: .* is not installed"):
        containers.ENGINES[engine]("r1")


def test_a_tool_that_hangs_is_left(
    monkeypatch: pytest.MonkeyPatch, tool: Tool, tmp_path: Path
) -> None:
    monkeypatch.setattr(external_tools, "LIMIT_S", 0.2)
    tool("docker", [])
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(Absent, match=r"docker did not answer within 0\.2 s"):
        containers.docker("r1")

"""Engines by what they really answered (recorded), and those of this host by really asking."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from isolane.enforce.find import commands, containers
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.conftest import Playground

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
    tool(engine, [answer])
    assert containers.ENGINES[engine]("r1") == pid
    assert tool.calls(engine) == ["inspect|--type|container|--format|{{json .State}}|--|r1"]


@pytest.mark.parametrize(
    ("engine", "answer", "reason"),
    [
        ("docker", DOCKER_ENDED, "Docker container r1 does not run (it is exited)"),
        ("podman", PODMAN_CREATED, "Podman container r1 does not run (it is created)"),
        ("docker", "null\n", "Docker container r1 does not run (it is in an unknown state)"),
        ("docker", "oops\n", "Docker container r1: docker answered something that is no JSON"),
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
    tool("docker", [DOCKER_RUNS])
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
    monkeypatch.setattr(commands, "LIMIT_S", 0.2)
    tool("docker", [])
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(Absent, match=r"docker did not answer within 0\.2 s"):
        containers.docker("r1")


@pytest.mark.parametrize(
    ("key", "tool", "words"),
    [
        ("docker", "docker", "no such container|docker daemon"),
        ("podman", "podman", "no such container"),
        ("lxc", "lxc-info", "doesn't exist"),
        ("incus", "incus", "not found|daemon"),
        ("libvirt", "virsh", "failed to get domain|failed to connect"),
    ],
)
def test_this_hosts_engines_refuse_what_they_do_not_have(
    playground: Playground, key: str, tool: str, words: str
) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    reason = playground.missing(f"{{{key}: isolane-nobody}}")
    assert f" isolane-nobody: {tool} says: " in reason
    assert re.search(words, reason, re.IGNORECASE), reason

"""Simulated routers that answer: what their paths become, and what comes of each request."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import NotSupported
from isolane.results.folder import RunFolder
from isolane.results.results import RouterTrial
from isolane.spec import parse_experiment
from isolane.spec.fields import Mode
from isolane.spec.hostmodel import PathData
from isolane.spec.kinds import NICS, SIMULATED
from isolane.trials.sim.answering_paths import answering
from isolane.trials.sim.catalogue import HERE, own_path
from isolane.trials.sim.test_sim_backend import run

pytestmark = pytest.mark.native

TEXT = """\
isolane: 1
name: asked
dut: {{receive: {receive}}}
traffic: {{frame_size: 128, line_rate: 10Gbps}}
routers:
  - {{name: service, {kind}, role: victim, traffic: {{mode: {mode}}}}}
  - {{name: noise, {kind}, role: aggressor}}
load: {{service: {service}, noise: {noise}}}
trial: {{duration: 100ms, warmup: 10ms, repeats: 1}}
"""
OWN = [
    (kind, path, nic)
    for kind in ("native", "container", "vm")
    for path in SIMULATED[kind]
    for nic in (NICS[path] if kind == "vm" else (None,))
    if own_path(kind, path, nic) is not None
]
VETH = ("direct", "bridge", "macvlan", "isolane")


@pytest.mark.parametrize("key", OWN, ids=str)
@pytest.mark.parametrize("mode", ["forward", "echo", "icmp-echo"])
def test_each_path_of_an_answer_is_a_valid_one(
    key: tuple[str, str, str | None], mode: Mode
) -> None:
    path = own_path(*key)
    assert path is not None
    made = answering(path, mode)
    PathData.model_validate({key: getattr(made, key) for key in PathData.model_fields})
    costs = [cost for stage in made.stages.values() for cost in stage.cost]
    assert costs.count("answer") == (mode == "echo")
    assert costs.count("icmp-answer") == (mode == "icmp-echo")
    has_server = mode == "echo" and key[0] != "vm"
    assert [s.queue for s in made.stages.values() if s.account == "server"] == (
        ["socket"] if has_server else []
    )
    before = [cost for stage in path.stages.values() for cost in stage.cost]
    more = {"echo": ["answer"], "icmp-echo": ["icmp-answer"]}.get(mode, [])
    assert sorted(costs) == sorted([*before, *more])
    if mode == "forward":
        assert made == path


def asked(
    folder: Path, profile: str = "veth", text: str = TEXT, **values: str
) -> tuple[RouterTrial, RouterTrial]:
    """Return what the service and its neighbour did, each frame accounted for."""
    given = {"mode": "echo", "receive": "softirq", "service": "10kpps", "noise": "0pps", **values}
    spec = parse_experiment(text.format(**given))
    run(spec, folder, profile=profile)
    (trial,) = [one for one in RunFolder.open(folder).trials() if one.purpose == "measure"]
    assert trial.status == "ok", trial.reason
    assert trial.conserved
    for router in trial.routers:
        assert router.offered_total == router.received_total + sum(router.lost.values())
    service, noise = sorted(trial.routers, key=lambda router: router.group, reverse=True)
    assert (service.mode, noise.mode) == (given["mode"], "forward")
    return service, noise


@pytest.mark.parametrize("path", VETH)
def test_a_server_takes_time_and_its_answers_longer(path: str, tmp_path: Path) -> None:
    kind = f"kind: container, path: {path}"
    found = {
        mode: asked(tmp_path / mode, kind=kind, mode=mode)[0]
        for mode in ("forward", "icmp-echo", "echo")
    }
    for router in found.values():
        assert router.received_total == router.offered_total
    medians = [router.delay.p50_ns for router in found.values() if router.delay is not None]
    assert medians == sorted(medians)
    assert medians[0] < medians[2]
    own = {mode: router.cpu_ns for mode, router in found.items()}
    assert own["echo"] is not None
    assert own["echo"] > (own["forward"] or 0)


@pytest.mark.parametrize("path", VETH)
def test_what_a_full_socket_refuses_is_not_answered(path: str, tmp_path: Path) -> None:
    kind = f"kind: container, path: {path}"
    service, _ = asked(tmp_path / "run", kind=kind, service="1000kpps", receive="threaded")
    assert service.lost["unanswered"] > 0
    assert service.received_frames > 0


@pytest.mark.parametrize(
    ("path", "receive", "older", "starves"),
    [
        ("bridge", "softirq", False, True),
        ("macvlan", "softirq", False, True),
        ("direct", "softirq", False, True),
        # Threads share the core with it, and so does ksoftirqd where interrupts leave it frames.
        ("direct", "threaded", False, False),
        ("direct", "softirq", True, False),
    ],
)
def test_a_neighbours_frames_go_before_a_server_where_softirqs_forward_them(
    path: str, receive: str, older: bool, starves: bool, tmp_path: Path
) -> None:
    profile = tmp_path / "profile.yaml"
    text = (HERE / "profiles" / "veth.yaml").read_text()
    current = "  scheduler: eevdf\n  slice_ns: 1400000\n"
    assert current in text
    profile.write_text(text.replace(current, "") if older else text)
    kind = f"kind: container, path: {path}"
    service, noise = asked(
        tmp_path / "run", kind=kind, noise="2000kpps", receive=receive, profile=str(profile)
    )
    assert noise.received_frames > 0
    delivered = service.received_frames / service.generated_frames
    # When the load ends, 250 of 1,000 requests wait in the socket, which are answered then.
    assert (delivered < 0.3) == starves
    assert (delivered > 0.9) != starves


@pytest.mark.parametrize("path", VETH)
@pytest.mark.parametrize("mode", ["echo", "icmp-echo"])
def test_who_is_asked_pays_for_it_whichever_comes_first(
    path: str, mode: str, tmp_path: Path
) -> None:
    kind = f"kind: container, path: {path}"
    lines = TEXT.splitlines(keepends=True)
    lines[5:7] = reversed(lines[5:7])
    found = {
        order: asked(tmp_path / order, kind=kind, mode=mode, noise="50kpps", text=text)
        for order, text in {"as it stands": TEXT, "the other way round": "".join(lines)}.items()
    }
    plain = asked(tmp_path / "plain", kind=kind, mode="forward", noise="50kpps")
    for service, noise in found.values():
        assert noise.received_total == noise.offered_total
        assert service.cpu_caused_ns is not None
        assert plain[0].cpu_caused_ns is not None
        assert service.cpu_caused_ns > 1.2 * plain[0].cpu_caused_ns
        assert noise.cpu_caused_ns == pytest.approx(plain[1].cpu_caused_ns, rel=0.1)


def test_many_services_on_two_cores_under_a_policy(tmp_path: Path) -> None:
    text = (
        TEXT.replace("dut: {{", "dut: {{cores: 2, ")
        .replace("role: victim,", "role: victim, count: 3, policy: {{cpu_weight: 100}},")
        .replace("role: aggressor}}", "role: aggressor, policy: {{cpu_weight: 50}}}}")
    )
    spec = parse_experiment(
        text.format(
            kind="kind: container, path: isolane", mode="echo", receive="softirq",
            service="20kpps", noise="300kpps",
        )
    )  # fmt: skip
    run(spec, tmp_path / "run", profile="veth")
    (trial,) = [
        one for one in RunFolder.open(tmp_path / "run").trials() if one.purpose == "measure"
    ]
    assert trial.conserved
    asked_of = [router for router in trial.routers if router.group == "service"]
    assert len(asked_of) == 3
    for router in asked_of:
        assert router.mode == "echo"
        assert router.offered_total == router.received_total + sum(router.lost.values())
        assert router.received_frames > 0


def test_a_path_on_which_nobody_can_be_asked_says_so() -> None:
    xen = own_path("xen", "bridge", None)
    assert xen is not None
    assert answering(xen, "forward") == xen
    with pytest.raises(NotSupported, match=r"no stage of path xen-bridge has the cost ip-forward"):
        answering(xen, "echo")
    direct = own_path("container", "direct", None)
    assert direct is not None
    name, stage = direct.ordered()[-1]
    stages = {**direct.stages, name: stage.model_copy(update={"next": "server"}), "server": stage}
    with pytest.raises(NotSupported, match="has a stage server already"):
        answering(direct.model_copy(update={"stages": stages}), "echo")


def test_a_guests_server_is_part_of_the_guest(tmp_path: Path) -> None:
    kind = "kind: vm, path: netback, hypervisor: uml"
    plain, _ = asked(tmp_path / "plain", kind=kind, mode="forward")
    service, _ = asked(tmp_path / "echo", kind=kind)
    assert service.received_total == service.offered_total
    assert plain.cpu_ns is not None
    assert service.cpu_ns is not None
    assert service.cpu_ns > plain.cpu_ns


def test_a_profile_without_the_cost_of_an_answer_says_so(tmp_path: Path) -> None:
    spec = parse_experiment(
        TEXT.format(
            kind="kind: container, path: sriov",
            mode="echo", receive="softirq", service="1kpps", noise="0pps",
        )
    )  # fmt: skip
    says = "router service: mode echo cannot be simulated with profile rathore2013, which does not "
    with pytest.raises(NotSupported, match=f"{says}have cost answer, queue socket; .*veth"):
        run(spec, tmp_path / "run", profile="rathore2013")

"""Properties that hold for every experiment, and for everything that is none."""

from __future__ import annotations

import contextlib
import io
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from isolane.errors import SpecError
from isolane.spec import Experiment, Load, format_rate, parse_experiment
from isolane.spec.explain import keys_at

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,6}[a-z0-9])?", fullmatch=True).filter(
    lambda name: name not in {"gen", "rcv", "dut", "total"}
)
texts = st.text(st.characters(exclude_categories=("C", "Z")), max_size=20)
loads = st.one_of(
    st.floats(0.001, 4).map(lambda value: format_rate(Load(value, "x"))),
    st.integers(1, 100_000).map(lambda value: f"{value}pps"),
    st.integers(1, 20).map(lambda value: f"{value}Mbps"),
)
paths = st.sampled_from(("direct", "bridge", "macvlan"))
optional = st.booleans()


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a valid experiment as a mapping."""
    steps = draw(st.integers(1, 4))
    # Names like "a" and "a-1" would clash when "a" is a group: those are tested elsewhere.
    groups = draw(
        st.lists(names.map(lambda n: n.replace("-", "")), min_size=1, max_size=3, unique=True)
    )
    routers = [draw(routers_named(name, index, steps)) for index, name in enumerate(groups)]
    load = {name: draw(swept(loads, steps)) for name in groups}
    document: dict[str, Any] = {
        "isolane": 1,
        "name": draw(names),
        "routers": routers,
        "load": load,
        "dut": draw(duts()),
        "traffic": draw(traffics()),
    }
    for key, strategy in {"title": texts, "description": texts, "trial": trials()}.items():
        if draw(optional):
            document[key] = draw(strategy)
    if draw(optional):
        arms = draw(st.lists(names, min_size=1, max_size=3, unique=True))
        document["arms"] = [{"name": name, "path": draw(paths)} for name in arms]
        document["capacity"] = {"arm": draw(st.sampled_from(arms))}
    if draw(optional):
        document["published"] = draw(published())
    return document


def swept(values: st.SearchStrategy[Any], steps: int) -> st.SearchStrategy[Any]:
    return values | st.lists(values, min_size=steps, max_size=steps)


@st.composite
def routers_named(draw: st.DrawFn, name: str, index: int, steps: int) -> dict[str, Any]:
    router: dict[str, Any] = {"name": name, "path": draw(paths)}
    if draw(optional):
        router["role"] = draw(st.sampled_from(("victim", "aggressor", "router")))
    if draw(optional):
        router["count"] = draw(swept(st.integers(1, 8), steps))
    if draw(optional):
        router["traffic"] = {"flows": draw(st.integers(1, 100_000))}
    if draw(optional):
        router["address"] = f"10.{index}.0.0/{draw(st.integers(24, 29))}"
    return router


@st.composite
def duts(draw: st.DrawFn) -> dict[str, Any]:
    dut: dict[str, Any] = {"cores": draw(st.integers(1, 8))}
    dut["receive"] = draw(st.sampled_from(("softirq", "threaded")))
    if dut["receive"] == "softirq" and draw(optional):
        dut["moderation"] = f"{draw(st.integers(5000, 1_000_000))}ns"
    return dut


def traffics() -> st.SearchStrategy[dict[str, Any]]:
    sizes: st.SearchStrategy[Any] = st.integers(64, 1518) | st.just("imix")
    return st.fixed_dictionaries(
        {}, optional={"frame_size": sizes, "flows": st.integers(1, 100_000), "ip": st.just(4)}
    )


@st.composite
def trials(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "duration": f"{draw(st.integers(50_000_000, 10**12))}ns",
        "warmup": f"{draw(st.integers(0, 1000))}ms",
        "repeats": draw(st.integers(1, 50)),
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@st.composite
def published(draw: st.DrawFn) -> dict[str, Any]:
    rows = st.fixed_dictionaries(
        {
            "arm": st.just("elsewhere-in-a-vm"),
            "load": st.dictionaries(names, loads, min_size=1, max_size=2),
            "router": names,
            "metric": st.just("cpu"),
            "value": st.none() | st.integers(0, 100).map(lambda value: f"{value}%"),
        },
        optional={"note": texts, "count": st.integers(1, 8)},
    )
    return {
        "source": draw(texts),
        "capacity": draw(st.sampled_from(("1488kpps", "1Gbps"))),
        "rows": draw(st.lists(rows, max_size=3)),
    }


def as_yaml(document: object) -> str:
    out = io.StringIO()
    YAML(typ="safe", pure=True).dump(document, out)
    return out.getvalue()


def accepted(document: dict[str, Any]) -> Experiment | None:
    """Return the experiment; None for the few drawn ones that repeat a point."""
    try:
        return parse_experiment(as_yaml(document))
    except SpecError as error:
        if "are the same" not in str(error):
            raise
        return None


slow = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])


@slow
@given(documents())
def test_an_experiment_survives_being_written_and_read(document: dict[str, Any]) -> None:
    experiment = accepted(document)
    if experiment is not None:
        again = parse_experiment(experiment.to_yaml())
        assert again == experiment
        assert again.points() == experiment.points()
        assert again.resolved_arms() == experiment.resolved_arms()


@slow
@given(documents())
def test_points_and_arms_agree_with_the_file(document: dict[str, Any]) -> None:
    experiment = accepted(document)
    if experiment is None:
        return
    points, arms = experiment.points(), experiment.resolved_arms()
    assert [point.index for point in points] == list(range(len(points)))
    assert len({arm.name for arm in arms}) == len(arms)
    for point in points:
        assert len({router.name for router in point.routers}) == len(point.routers)
        for router in experiment.routers:
            members = point.group(router.name)
            assert {member.role for member in members} == {router.role}
            given_load = experiment.load[router.name]
            total = given_load[point.index % len(given_load)]
            assert abs(sum(m.load.value for m in members) - total.value) <= 1e-9 * total.value
            assert {m.load.unit for m in members} == {total.unit}
            assert all(experiment.router(m.name) == router for m in members)
            assert all(arm.router(router.name).path != "none" for arm in arms)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | loads
    | st.sampled_from(("native", "vm", "direct", "tap", "imix", "none", "5us", "198.18.0.0/24")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            texts | names | st.sampled_from([*keys_at(()), *keys_at(("routers", 0))]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


def must_be_refused_or_read(text: str) -> None:
    """Whatever it is, only our own errors may come out, each with what would be accepted."""
    try:
        parse_experiment(text, "any.yaml")
    except SpecError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(line.startswith("any.yaml") for line in lines), lines
        assert "accepted: " in lines[0]


@slow
@given(st.dictionaries(st.sampled_from(keys_at(())) | texts, anything, max_size=8))
def test_no_mapping_leads_to_another_error(document: dict[str, Any]) -> None:
    must_be_refused_or_read(as_yaml(document))


@slow
@given(documents(), st.data())
def test_no_damage_to_a_good_one_leads_to_another_error(
    document: dict[str, Any], data: st.DataObject
) -> None:
    node: Any = document
    for _ in range(data.draw(st.integers(0, 3))):
        inner = node.values() if isinstance(node, dict) else node
        containers = [value for value in inner if isinstance(value, dict | list) and value]
        if not containers:
            break
        node = data.draw(st.sampled_from(containers))
    key = data.draw(st.sampled_from(list(node) if isinstance(node, dict) else range(len(node))))
    node[key] = data.draw(anything)
    must_be_refused_or_read(as_yaml(document))


@slow
@given(st.text() | st.text("[]{}:-&*!|>'\"#%@, \nabc0x"))
def test_no_text_leads_to_another_error(text: str) -> None:
    must_be_refused_or_read(text)


@slow
@given(st.binary(max_size=200))
def test_no_bytes_lead_to_another_error(data: bytes) -> None:
    with contextlib.suppress(UnicodeDecodeError):
        must_be_refused_or_read(data.decode("utf-8"))

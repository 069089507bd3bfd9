from __future__ import annotations

import functools
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from isolane.spec import json_schema, schema_text
from isolane.spec.explain import keys_at

ROOT = Path(__file__).parents[3]
SHIPPED = sorted((ROOT / "experiments").rglob("*.yaml"))


def test_the_schema_in_the_repository_is_the_current_one() -> None:
    text = (ROOT / "schema" / "experiment.json").read_text(encoding="utf-8")
    assert text == schema_text(), "renew it: python -m isolane.spec > schema/experiment.json"


def test_every_key_is_described() -> None:
    schema = json_schema()
    for model in (schema, *schema["$defs"].values()):
        assert model["additionalProperties"] is False
        for key, value in model["properties"].items():
            assert value.get("description"), f"{model['title']}.{key}"


def test_keys_are_those_of_the_files() -> None:
    assert {"line_rate", "frame_size"} <= set(json_schema()["$defs"]["Traffic"]["properties"])
    assert keys_at(("trial",)) == (
        "duration", "warmup", "repeats", "seed", "retries", "threshold",
        "capture_points", "capture", "cpu_profile", "null_dut",
    )  # fmt: skip
    assert keys_at(("published", "rows", 3))[:2] == ("arm", "load")
    assert keys_at(("nothing", "there")) == ()


@functools.cache
def _validator() -> Any:
    # jsonschema comes with altair; it has no types of its own, hence not imported by name.
    kind, schema = import_module("jsonschema").Draft202012Validator, json_schema()
    kind.check_schema(schema)
    return kind(schema)


def _faults(document: Any) -> list[str]:
    return [error.message for error in _validator().iter_errors(document)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_experiments_follow_the_schema(path: Path) -> None:
    assert _faults(YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "change",
    [
        {"nmae": "x"},
        {"name": "No Name"},
        {"load": {"a": "5"}},
        {"load": {"a": ["1x", "5mpps"]}},
        {"dut": {"moderation": "20"}},
        {"traffic": {"frame_size": 63}},
        {"routers": [{"name": "a", "path": "bridg"}]},
    ],
)
def test_the_schema_refuses_what_an_editor_should_underline(change: dict[str, Any]) -> None:
    good = {"isolane": 1, "name": "x", "routers": [{"name": "a"}], "load": {"a": "1x"}}
    assert _faults(good) == []
    assert _faults(good | change) != []

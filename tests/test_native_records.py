"""What the native module hands over has names, and its types are those of _native.pyi."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from isolane import _native

STUB = Path(inspect.getfile(_native)).parent / "_native.pyi"
CLASSES = {
    node.name: node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)
}
RECORDS = [name for name, node in CLASSES.items() if "as_dict" in ast.unparse(node)]
STREAM = {"sent": 1, "sent_window": 2, "sent_window_bytes": 3, "missed": 4, "missed_window": 5}


def members(name: str) -> set[str]:
    """Return what the stub says that a class has."""
    named = {
        getattr(item, "name", None) or ast.unparse(getattr(item, "target", item))
        for item in CLASSES[name].body
    }
    return {member for member in named if not member.startswith(("__", "..."))}


@pytest.mark.parametrize("name", CLASSES)
def test_the_stub_has_what_the_class_has(name: str) -> None:
    real = {member for member in dir(getattr(_native, name)) if not member.startswith("_")}
    if issubclass(getattr(_native, name), Exception):
        real -= set(dir(Exception))
    assert members(name) == real


def test_a_record_is_frozen_compared_by_value_and_made_by_name() -> None:
    one = _native.StreamSent(**STREAM)
    assert one == _native.StreamSent(**STREAM)
    assert one != _native.StreamSent(**STREAM | {"sent": 7})
    assert one.as_dict() == STREAM
    assert (one.sent, one.missed_window) == (1, 5)
    assert "sent_window_bytes: 3" in repr(one)
    with pytest.raises(AttributeError):
        one.sent = 9  # type: ignore[misc]
    with pytest.raises(TypeError):
        _native.StreamSent(1, 2, 3, 4, 5)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_hands_out_its_attributes_by_name(name: str) -> None:
    fields = members(name) - {"as_dict"}
    assert fields
    signature = getattr(_native, name).__text_signature__
    assert {field for field in fields if field in signature} == fields
